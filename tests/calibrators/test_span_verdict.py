"""The verifier of given spans as a calibrator: scores, warnings, reasons, rivals, folders."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.calibrators import SpanVerdict
from knn_ue.encoding.given_spans import GivenSpans
from knn_ue.encoding.inputs import read_example
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.evaluation import evaluate
from knn_ue.verifying import READERS, WordVectors
from verifying.answered_spans import READER, answered_sentences


@pytest.fixture(scope="module")
def encoder():
    return GivenSpans(("LOC", "PER"))


@pytest.fixture(scope="module", autouse=True)
def registered():
    READERS["by-hand"] = lambda: READER
    yield
    del READERS["by-hand"]


@pytest.fixture(scope="module", params=[False, True], ids=["unstated", "confident"])
def confident(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(encoder, confident):
    return SpanVerdict(READER).fit(encoder.encode(answered_sentences(120, confident=confident)))


@pytest.fixture(scope="module")
def new(encoder, confident):
    return encoder.encode(answered_sentences(150, seed=1, confident=confident))


def right_of(reading, outputs):
    names = np.array(outputs.class_names)
    gold = names[outputs.labels]
    marked = names[outputs.predicted]
    return np.array(
        [
            (gold[first : last + 1] == marked[first : last + 1]).all()
            and (last + 1 == len(gold) or not gold[last + 1].startswith("I"))
            for first, last in zip(reading.spans.first, reading.spans.last, strict=True)
        ]
    )


def test_right_entities_rank_above_wrong_ones(fitted, new):
    reading = fitted.read(new)
    right = right_of(reading, new)

    found = metrics.ood_detection(id_confidence=reading.scores[right], ood_confidence=reading.scores[~right])

    assert found.auroc > 0.95


def test_words_have_the_scores_of_their_entities(fitted, new):
    reading, prediction = fitted.read(new), fitted.predict(new)

    np.testing.assert_allclose(prediction.confidence[reading.spans.first], reading.scores)
    np.testing.assert_allclose(prediction.confidence[reading.spans.last], reading.scores)
    np.testing.assert_allclose(prediction.probs.sum(axis=1), 1.0)
    np.testing.assert_array_equal(prediction.predicted, new.predicted)


def test_warnings_are_of_entities_that_were_missed(fitted, new):
    reading = fitted.read(new)
    gold = new.labels > 0

    assert len(reading.missed) > 20
    assert all(gold[each.first : each.last + 1].any() for each in reading.missed)


def test_a_sentence_is_never_surer_than_its_parts(fitted, new):
    reading = fitted.read(new)

    assert (reading.sentence_scores[reading.spans.sentence] <= reading.scores + 1e-12).all()
    assert (reading.sentence_scores <= reading.none_missed + 1e-12).all()


def test_reasons_agree_with_the_score(fitted, new):
    for why in fitted.answer(new).explanations:
        assert set(why.terms) == {"type", "borders", "record", "own"}
        total = sum(why.terms.values())
        if total > 0.25:
            assert why.raised_by
        if total < -0.25:
            assert why.lowered_by


def test_an_unstated_confidence_says_nothing(encoder):
    fitted = SpanVerdict(READER).fit(encoder.encode(answered_sentences(120, confident=True)))

    explained = fitted.answer(encoder.encode(answered_sentences(30, seed=2))).explanations

    np.testing.assert_allclose([why.terms["own"] for why in explained], 0.0, atol=1e-9)


def test_rivals_are_evaluated_beside_it(fitted, new, confident):
    found = evaluate({**fitted.rivals(), "span-verdict": fitted}, new)

    names = list(found.tables["test/entities"].scores)
    assert ("own score, Platt-scaled" in names) == confident
    assert {"constant per type", "regression on (span vector, type)", "span-verdict"} <= set(names)


def test_a_folder_gives_the_same_scores(fitted, new, tmp_path):
    fitted.save(tmp_path / "verdict")

    loaded = SpanVerdict.load(tmp_path / "verdict")

    np.testing.assert_array_equal(loaded.read(new).scores, fitted.read(new).scores)
    np.testing.assert_array_equal(loaded.read(new).sentence_scores, fitted.read(new).sentence_scores)
    for name, rival in fitted.rivals().items():
        np.testing.assert_array_equal(loaded.rivals()[name].read(new).scores, rival.read(new).scores)


def test_a_domain_changes_the_scores_and_nothing_else(fitted, new):
    scaled = fitted.with_log_scales({"entities": -1.0, "sentences": 0.0, "rows": 0.0})

    reading, plain = scaled.read(new), fitted.read(new)

    assert (reading.scores <= plain.scores).all() and not np.array_equal(reading.scores, plain.scores)
    np.testing.assert_array_equal(reading.spans.first, plain.spans.first)


def test_a_reader_without_words_is_refused(encoder):
    outputs = encoder.encode(answered_sentences(60))

    with pytest.raises(InvalidInputError, match="'instant' gives no word vectors"):
        SpanVerdict("instant").fit(outputs)


def test_no_words_have_no_entities(fitted, encoder):
    empty = encoder.encode([])

    assert fitted.predict(empty).confidence.shape == (0,)


def test_one_sentence_is_scored_alike_alone(fitted, encoder, confident):
    rows = answered_sentences(20, seed=3, confident=confident)
    together = fitted.read(encoder.encode(rows))

    alone = fitted.read(encoder.encode([read_example(rows[7], "token-classification")]))

    np.testing.assert_allclose(alone.scores, together.scores[together.spans.sentence == 7], rtol=1e-6)


def test_words_of_an_entity_have_its_reasons(fitted, new):
    full, words = fitted.answer(new), fitted.explain(new)

    assert [word.text for word in words] == list(new.words)
    for why in full.explanations:
        assert all(words[row].raised_by == why.raised_by for row in range(why.start, why.end))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda x: x * np.nan),
        ("weights", lambda x: x[:, 1:]),
        ("intercepts", lambda x: np.full_like(x, np.inf)),
        ("left_out", lambda x: x + 2),
        ("kinds", lambda x: x + 99),
        ("rivals.weights", lambda x: x[1:]),
        ("rivals.constant", lambda x: x[1:]),
        ("rivals.scale", lambda x: x * 0),
        ("right", None),
    ],
)
def test_arrays_that_do_not_go_together_are_refused(fitted, name, change):
    part = fitted.to_part()
    arrays = dict(part.arrays)
    changed = {} if change is None else {name: change(arrays[name])}
    del arrays[name]

    with pytest.raises(StorageError):
        SpanVerdict.from_part(replace(part, arrays=arrays | changed))


def test_warnings_begin_where_enough_of_them_are_right(encoder):
    careful = SpanVerdict(WordVectors("blurred", blurred)).fit(encoder.encode(answered_sentences(120)))
    sharp = SpanVerdict(READER).fit(encoder.encode(answered_sentences(120)))

    assert sharp.warn_from_ == 0.15 < careful.warn_from_


def blurred(sentences):
    """What the reader sees, behind as much noise that says nothing."""
    vectors = READER.read_words(sentences)
    return vectors + np.random.default_rng(0).normal(size=vectors.shape)
