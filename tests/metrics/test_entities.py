"""Entities and their scores against seqeval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from knn_ue.errors import InvalidInputError
from knn_ue.metrics import aurc, extract_entities, score_entities, sentences
from knn_ue.types import Outputs

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-WORK-OF-ART", "I-WORK-OF-ART", "B", "I"]

sentence = st.lists(st.sampled_from(TAGS), max_size=12)
aligned = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), max_size=8), min_size=1, max_size=6
).filter(any)
quick = settings(max_examples=100, deadline=None)


def two_sides(rows: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]], list[np.ndarray]]:
    gold = [[left for left, _ in sentence] for sentence in rows]
    predicted = [[right for _, right in sentence] for sentence in rows]
    return gold, predicted, [np.full(len(sentence), 0.5) for sentence in rows]


@quick
@given(sentence)
def test_entities_are_those_of_seqeval(tags: list[str]) -> None:
    assert extract_entities(tags) == get_entities(tags)


@quick
@given(aligned)
def test_f1_equals_seqeval(rows: list[list[tuple[str, str]]]) -> None:
    gold, predicted, confidence = two_sides(rows)

    found = score_entities(gold=gold, predicted=predicted, confidence=confidence)

    assert found.f1 == pytest.approx(f1_score(gold, predicted, zero_division=0), abs=1e-12)


@quick
@given(aligned)
def test_precision_and_recall_equal_seqeval(rows: list[list[tuple[str, str]]]) -> None:
    gold, predicted, confidence = two_sides(rows)

    found = score_entities(gold=gold, predicted=predicted, confidence=confidence)

    assert (found.precision, found.recall) == pytest.approx(
        (precision_score(gold, predicted, zero_division=0), recall_score(gold, predicted, zero_division=0)), abs=1e-12
    )


def test_an_entity_never_reaches_into_the_next_sentence() -> None:
    tags = [["O", "B-PER"], ["I-PER", "O"]]

    found = score_entities(gold=tags, predicted=tags, confidence=[[1.0, 0.5], [0.25, 1.0]])

    assert found.confidence.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(("aggregate", "expected"), [("product", 0.03), ("mean", 0.4), ("min", 0.1)])
def test_the_confidence_of_an_entity_is_that_of_its_tokens(aggregate: str, expected: float) -> None:
    tags = [["B-PER", "I-PER", "I-PER", "O"]]
    confidence = [[0.5, 0.1, 0.6, 0.3]]

    found = score_entities(gold=tags, predicted=tags, confidence=confidence, aggregate=aggregate)

    assert found.confidence == pytest.approx([expected])


def test_an_entity_that_ends_the_text_keeps_all_its_tokens() -> None:
    tags = [["O", "B-PER", "I-PER"]]

    found = score_entities(gold=tags, predicted=tags, confidence=[[0.1, 0.5, 0.5]])

    assert found.confidence.tolist() == [0.25]


@pytest.mark.parametrize(
    ("predicted", "why"),
    [
        (["B-LOC", "I-LOC", "O"], "another type"),
        (["B-PER", "O", "O"], "too short"),
        (["B-PER", "I-PER", "I-PER"], "too long"),
        (["O", "B-PER", "O"], "begins too late"),
    ],
)
def test_an_entity_is_correct_only_if_type_and_span_match(predicted: list[str], why: str) -> None:
    found = score_entities(gold=[["B-PER", "I-PER", "O"]], predicted=[predicted], confidence=[[1, 1, 1]])

    assert found.correct.tolist() == [False]


def test_missed_entities_are_errors_at_confidence_zero() -> None:
    found = score_entities(gold=[["B-PER", "B-LOC"]], predicted=[["B-PER", "O"]], confidence=[[0.9, 0.8]])

    confidence, correct = found.ranked()

    assert (confidence.tolist(), correct.tolist()) == ([0.9, 0.0], [True, False])


def test_missed_entities_can_be_left_out() -> None:
    found = score_entities(gold=[["B-PER", "B-LOC"]], predicted=[["B-PER", "O"]], confidence=[[0.9, 0.8]])

    confidence, correct = found.ranked(include_missed=False)

    assert aurc(confidence=confidence, correct=correct) == 0.0


def test_a_perfect_tagger_has_f1_one() -> None:
    tags = [["B-PER", "I-PER", "O"], ["B-LOC"]]

    assert score_entities(gold=tags, predicted=tags, confidence=[[1, 1, 1], [1]]).f1 == 1.0


def test_no_entity_anywhere_has_f1_zero() -> None:
    assert score_entities(gold=[["O"]], predicted=[["O"]], confidence=[[1.0]]).f1 == 0.0


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_token_confidence_zero_or_one_is_that_of_the_entity(level: float) -> None:
    found = score_entities(gold=[["B-PER"]], predicted=[["B-PER"]], confidence=[[level]])

    assert found.confidence.tolist() == [level]


def test_the_order_of_sentences_never_matters() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = rng.choice(TAGS, size=(2, 30, 5))
    confidence = rng.random((30, 5))
    found = score_entities(gold=gold, predicted=predicted, confidence=confidence)

    turned = score_entities(gold=gold[::-1], predicted=predicted[::-1], confidence=confidence[::-1])

    assert aurc(confidence=turned.ranked()[0], correct=turned.ranked()[1]) == pytest.approx(
        aurc(confidence=found.ranked()[0], correct=found.ranked()[1]), abs=1e-12
    )


def test_outputs_with_groups_can_be_scored() -> None:
    outputs = Outputs(
        logits=[[0, 5, 0], [0, 0, 5], [5, 0, 0]],
        labels=[1, 2, 0],
        groups=[4, 4, 9],
        class_names=["O", "B-PER", "I-PER"],
    )
    names = np.array(outputs.class_names)

    found = score_entities(
        gold=sentences(names[outputs.labels], outputs.groups),
        predicted=sentences(names[outputs.predicted], outputs.groups),
        confidence=sentences(np.array([0.5, 0.5, 0.9]), outputs.groups),
    )

    assert found.confidence.tolist() == [0.25]


@pytest.mark.parametrize(
    ("values", "groups", "words"),
    [
        ([1, 2], [0], "groups has 1 rows but 2 are expected"),
        ([1, 2, 3], [0, 1, 0], "rows of one group must stand together, group 0 is split"),
        ([], [], "groups is empty"),
    ],
)
def test_groups_that_cannot_be_cut_are_refused(values: list[int], groups: list[int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        sentences(values, groups)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (["S-PER"], r"tags must be O, B-TYPE or I-TYPE \(IOB2\), got 'S-PER': convert the tags first"),
        (["PER"], "got 'PER'"),
        ([3], "got 3"),
        ("O", "must be a list of strings, got 'O': split it"),
        ([["O"]], "got lists of them: pass one sentence at a time"),
    ],
)
def test_tags_that_are_not_iob2_are_refused(tags: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        extract_entities(tags)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"predicted": [["O"], ["O"]]}, "predicted has 2 rows but 1 are expected"),
        ({"confidence": []}, "confidence has 0 rows but 1 are expected"),
        ({"predicted": [["O", "O"]]}, "sentence 0 has 1, 2 and 1: align them word by word"),
        ({"confidence": [[0.5, 0.5]]}, "sentence 0 has 1, 1 and 2"),
        ({"confidence": [0.5]}, "the confidence of a sentence must have one dimension"),
        ({"confidence": [[1.5]]}, r"confidence must lie within \[0, 1\], got 1.5"),
        ({"gold": [], "predicted": [], "confidence": []}, "gold is empty"),
        ({"gold": [[]], "predicted": [[]], "confidence": [[]]}, "gold is empty"),
        ({"gold": ["O"]}, "got 'O': split it"),
        ({"aggregate": "max"}, "aggregate must be one of 'product', 'mean', 'min', got 'max'"),
    ],
)
def test_a_bad_input_is_named_in_the_error(changed: dict[str, object], words: str) -> None:
    good = {"gold": [["O"]], "predicted": [["O"]], "confidence": [[0.5]]}

    with pytest.raises(InvalidInputError, match=words):
        score_entities(**(good | changed))
