"""What speaks for an entity and against it: against loops, and at the edges."""

import numpy as np
import pytest

import reference
from knn_ue.entities import INGREDIENTS, find_entities, is_tagged
from knn_ue.entities.evidence import Usual, case_of, find_usual, gather_evidence, log_odds
from knn_ue.errors import InvalidInputError
from knn_ue.toy import tagged_sentences
from knn_ue.types import Neighbors, Outputs

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def sentence(*tags, sure=3.0, groups=None):
    """Outputs whose model is `sure` of the tags given."""
    logits = np.zeros((len(tags), len(NAMES)))
    logits[np.arange(len(tags)), [NAMES.index(tag) for tag in tags]] = sure
    return Outputs(
        logits=logits, groups=np.zeros(len(tags), dtype=int) if groups is None else groups, class_names=NAMES
    )


def neighbors_of(n, *, distance=1.0, label=1, k=4):
    return Neighbors(ids=np.zeros((n, k)), distances=np.full((n, k), distance), labels=np.full((n, k), label))


def evidence_of(outputs, neighbors, usual=None):
    spans = find_entities(outputs, outputs.predicted)
    return gather_evidence(
        outputs, neighbors, spans, usual or Usual(distance=1.0, beside=2.0), case_of(outputs, spans)
    ).values


@pytest.mark.parametrize("seed", range(5))
def test_ingredients_equal_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    _, outputs, _ = tagged_sentences(n_validation=30, n_words=6, seed=seed)
    labels = rng.integers(len(NAMES), size=(len(outputs), 7))
    distances = np.sort(rng.gamma(2.0, size=(len(outputs), 7)), axis=1)
    spans = find_entities(outputs, outputs.predicted)
    places = [(6 * s, 6 * s + 5) for s in range(30)]
    listed = [
        (int(s), ("PER", "LOC")[k], int(a), int(b))
        for s, k, a, b in zip(spans.sentence, spans.kind, spans.first, spans.last, strict=True)
    ]

    found = evidence_of(
        outputs, Neighbors(ids=labels * 0, distances=distances, labels=labels), Usual(distance=1.5, beside=2.0)
    )

    expected = reference.entity_evidence(outputs.logits, NAMES, places, listed, distances[:, 0], labels, 1.5, 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_an_entity_that_is_the_whole_sentence_has_the_usual_words_beside_it():
    values = evidence_of(sentence("B-PER", "I-PER"), neighbors_of(2))

    assert values[0, INGREDIENTS.index("beside")] == 2.0


def test_an_entity_that_touches_another_is_not_apart_and_is_judged_by_the_words_tagged_o():
    lone = evidence_of(sentence("O", "B-PER", "O"), neighbors_of(3))
    touching = evidence_of(sentence("O", "B-PER", "B-LOC", "B-PER", "O"), neighbors_of(5))
    apart, beside = touching[:, INGREDIENTS.index("apart")], touching[:, INGREDIENTS.index("beside")]

    assert lone[0, INGREDIENTS.index("apart")] == 1.0
    np.testing.assert_array_equal(apart, [0.0, 0.0, 0.0])
    # The one in the middle has no word tagged O beside it: it gets the usual value.
    np.testing.assert_array_equal(beside, [lone[0, INGREDIENTS.index("beside")], 2.0, beside[0]])


def test_an_entity_of_the_next_sentence_does_not_touch():
    values = evidence_of(sentence("B-PER", "B-PER", groups=[0, 1]), neighbors_of(2))

    np.testing.assert_array_equal(values[:, INGREDIENTS.index("apart")], [1.0, 1.0])


def test_the_words_of_the_next_sentence_are_not_beside_an_entity():
    alone = evidence_of(sentence("O", "B-PER"), neighbors_of(2))
    followed = evidence_of(sentence("O", "B-PER", "I-LOC", groups=[0, 0, 1]), neighbors_of(3))

    np.testing.assert_array_equal(followed[0], alone[0])


def test_a_neighbor_that_was_not_found_is_far_and_disagrees():
    missing = Neighbors(ids=[[-1]], distances=[[np.inf]], labels=[[-1]])

    values = evidence_of(sentence("B-PER"), missing)

    assert values[0, INGREDIENTS.index("distance")] == 3.0
    assert values[0, INGREDIENTS.index("agreement")] == 0.0


def test_an_example_at_distance_zero_is_as_near_as_it_gets():
    assert evidence_of(sentence("B-PER"), neighbors_of(1, distance=0.0))[0, INGREDIENTS.index("distance")] == -1.0


def test_a_label_the_model_does_not_know_disagrees():
    assert evidence_of(sentence("B-PER"), neighbors_of(1, label=99))[0, INGREDIENTS.index("agreement")] == 0.0


def test_both_tags_of_a_type_agree_with_it():
    assert evidence_of(sentence("B-PER"), neighbors_of(1, label=2))[0, INGREDIENTS.index("agreement")] == 1.0


def test_log_odds_of_huge_logits_are_clipped_and_finite():
    odds = log_odds(np.array([[1e30, -1e30], [-3e38, 3e38]], dtype=np.float32), [True, False])

    np.testing.assert_array_equal(odds, [12.0, -12.0])


def test_tags_without_a_b_class_have_no_start_to_doubt():
    outputs = Outputs(logits=[[0.0, 3.0], [0.0, 3.0]], groups=[0, 0], class_names=["O", "I-PER"])

    values = evidence_of(outputs, neighbors_of(2))

    assert values[0, 1] == values[0, 0] == pytest.approx(3.0)


def test_what_is_usual_are_medians_over_the_words_of_entities_and_the_words_beside_them():
    logits = sentence("O", "B-PER", "I-PER", "O", "B-LOC", "O", "O").logits.copy()
    logits[[0, 3, 5], 0] = [2.0, 5.0, 4.0]  # how sure the model is of O, beside the entities
    outputs = Outputs(logits=logits, groups=np.zeros(7, dtype=int), class_names=NAMES)
    nearest = np.array([9.0, 1.0, 2.0, 9.0, 4.0, 9.0, 9.0])
    neighbors = Neighbors(ids=np.zeros((7, 1)), distances=nearest[:, None], labels=np.zeros((7, 1)))

    usual = find_usual(outputs, neighbors, find_entities(outputs, outputs.predicted))

    # Each entity counts the less sure of its two sides: 2 and 4; the odds are against four other classes.
    assert usual.distance == 2.0
    assert usual.beside == pytest.approx(3.0 - np.log(4))


def test_nothing_usual_is_found_without_entities_and_stays_finite():
    outputs = sentence("O", "O")

    usual = find_usual(outputs, neighbors_of(2, distance=0.0), find_entities(outputs, outputs.predicted))

    assert usual == Usual(distance=1.0, beside=0.0)


@pytest.mark.parametrize(
    "outputs",
    [
        Outputs(logits=[[0.0, 1.0]], class_names=["O", "B-PER"]),
        Outputs(logits=[[0.0, 1.0]], groups=[0]),
        Outputs(logits=[[0.0, 1.0]], groups=[0], class_names=["NOUN", "VERB"]),
    ],
)
def test_what_is_no_tagged_sentence_is_refused(outputs):
    assert not is_tagged(outputs)
    with pytest.raises(InvalidInputError, match="entities need Outputs with groups and IOB2 class_names"):
        find_entities(outputs, outputs.predicted)
