"""The verifier of given spans: what it must learn, what it must not depend on, and what comes back from its state."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.entities import Spans
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import extract_entities
from knn_ue.verifying.span_features import FEATURES
from knn_ue.verifying.spans import SpanParams, SpanVerifier, fit_spans, right_spans
from verifying.spans import TYPES, marked_sentences


@pytest.fixture(scope="module")
def labeled():
    return marked_sentences(120, seed=0)


@pytest.fixture(scope="module")
def new():
    return marked_sentences(400, seed=1)


@pytest.fixture(scope="module")
def fitted(labeled):
    return fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES)


def auroc(scores, right):
    return metrics.ood_detection(id_confidence=scores[right], ood_confidence=scores[~right]).auroc


def shifted(spans, by):
    return replace(spans, first=spans.first + by, last=spans.last + by)


def test_right_spans_rank_above_wrong_ones(fitted, new):
    right = right_spans(new.tags, new.spans, TYPES)

    assert auroc(fitted.probabilities(new.vectors, new.spans), right) > 0.9


def test_scores_are_as_high_as_spans_are_often_right(fitted, new):
    scores, right = fitted.probabilities(new.vectors, new.spans), right_spans(new.tags, new.spans, TYPES)

    assert abs(scores.mean() - right.mean()) < 0.05
    sure = scores > 0.9
    assert right[sure].mean() > 0.88


def test_which_spans_are_right_is_what_a_loop_says(new):
    gold = {
        (kind, start + first, start + last)
        for start in new.spans.starts.tolist()
        for kind, first, last in extract_entities(new.tags[start : start + 8])
    }

    found = right_spans(new.tags, new.spans, TYPES)

    rows = zip(new.spans.kind.tolist(), new.spans.first.tolist(), new.spans.last.tolist(), strict=True)
    assert found.tolist() == [(TYPES[kind], first, last) in gold for kind, first, last in rows]


def test_a_span_is_scored_alike_alone_and_among_others(fitted, new):
    together = fitted.probabilities(new.vectors, new.spans)

    rest = new.from_sentence(300)

    np.testing.assert_allclose(
        fitted.probabilities(rest.vectors, rest.spans), together[new.spans.first >= 2400], atol=1e-6
    )


def test_left_out_scores_know_nothing_of_their_own_sentence(labeled):
    noise = np.random.default_rng(0).normal(size=(len(labeled.tags), 3000))

    fitted = fit_spans(noise, labeled.tags, labeled.spans, TYPES)

    learned = np.array(fitted.params.tags)[fitted.tag_probs(noise).argmax(axis=1)]
    assert (learned == labeled.tags).mean() > 0.95  # by heart
    assert abs(auroc(fitted.left_out, fitted.right) - 0.5) < 0.1


def test_own_evidence_helps_where_it_knows_something():
    labeled, new = (marked_sentences(120, seed, noise=8.0) for seed in (3, 4))
    right = right_spans(new.tags, new.spans, TYPES)

    without = fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES)
    with_own = fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES, labeled.own)

    assert auroc(with_own.probabilities(new.vectors, new.spans, new.own), right) > 0.02 + auroc(
        without.probabilities(new.vectors, new.spans), right
    )


def test_unknown_own_evidence_counts_as_the_usual(labeled, new):
    fitted = fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES, labeled.own)

    unknown = fitted.log_odds(new.vectors, new.spans, np.full(len(new.spans), np.nan))
    usual = fitted.log_odds(new.vectors, new.spans, np.full(len(new.spans), labeled.own.mean()))

    np.testing.assert_allclose(unknown, usual)


def test_missing_own_evidence_is_refused(labeled, new):
    fitted = fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES, labeled.own)

    with pytest.raises(InvalidInputError, match="pass own, NaN where unknown"):
        fitted.probabilities(new.vectors, new.spans)


def test_spans_may_overlap(fitted, new):
    spans = Spans(
        kind=np.array([0, 1, 0]),
        first=np.array([0, 0, 1]),
        last=np.array([1, 0, 2]),
        starts=new.spans.starts,
        n_words=3200,
    )

    scores = fitted.probabilities(new.vectors, spans)

    assert ((scores > 0) & (scores < 1)).all()


def test_no_spans_have_no_scores(fitted, new):
    none = Spans(
        **{key: np.zeros(0, dtype=np.int64) for key in ("kind", "first", "last")}, starts=new.spans.starts, n_words=3200
    )

    assert fitted.probabilities(new.vectors, none).shape == (0,)


def test_a_model_that_marks_nothing_can_be_judged_when_it_begins_to(labeled, new):
    none = Spans(
        **{key: np.zeros(0, dtype=np.int64) for key in ("kind", "first", "last")},
        starts=labeled.spans.starts,
        n_words=labeled.spans.n_words,
    )

    fitted = fit_spans(labeled.vectors, labeled.tags, none, TYPES)

    right = right_spans(new.tags, new.spans, TYPES)
    assert auroc(fitted.probabilities(new.vectors, new.spans), right) > 0.85


def test_a_type_that_gold_never_has_is_wrong(labeled):
    kind = np.where(np.arange(len(labeled.spans)) % 2 == 0, labeled.spans.kind, 2)

    fitted = fit_spans(labeled.vectors, labeled.tags, replace(labeled.spans, kind=kind), (*TYPES, "ODD"))

    assert fitted.left_out[kind == 2].max() < 0.3


def test_words_of_missed_entities_are_hidden_with_a_high_probability(fitted, new):
    kept = new.spans.sentence % 2 == 0
    half = replace(new.spans, kind=new.spans.kind[kept], first=new.spans.first[kept], last=new.spans.last[kept])

    hidden = fitted.hidden(fitted.tag_probs(new.vectors), half)

    missed = np.array([tag != "O" for tag in new.tags]) & ~half.covered
    assert (hidden[half.covered] == 0).all()
    assert auroc(hidden[~half.covered], missed[~half.covered]) > 0.95


def test_the_same_rows_give_the_same_verifier(labeled, fitted):
    again = fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES)

    assert again.params == fitted.params
    np.testing.assert_array_equal(again.weights, fitted.weights)


def test_its_state_is_all_of_it(fitted, new):
    plain, arrays = fitted.state()

    restored = SpanVerifier.restored(SpanParams(**plain), arrays)

    np.testing.assert_array_equal(
        restored.probabilities(new.vectors, new.spans), fitted.probabilities(new.vectors, new.spans)
    )


def test_nothing_it_was_given_is_changed(labeled):
    before = labeled.vectors.copy(), list(labeled.tags), labeled.spans.kind.copy()

    fit_spans(labeled.vectors, labeled.tags, labeled.spans, TYPES)

    np.testing.assert_array_equal(labeled.vectors, before[0])
    assert labeled.tags == before[1]
    np.testing.assert_array_equal(labeled.spans.kind, before[2])


def test_too_few_sentences_are_refused_with_the_reason():
    few = marked_sentences(49, seed=0)

    with pytest.raises(InvalidInputError, match="at least 50 labeled sentences, got 49"):
        fit_spans(few.vectors, few.tags, few.spans, TYPES)


def test_vectors_of_another_reader_are_refused(fitted, new):
    with pytest.raises(InvalidInputError, match="must have 16 columns, got 15: use the reader it was fitted with"):
        fitted.probabilities(new.vectors[:, 1:], new.spans)


def test_there_is_a_slope_for_each_feature_and_type(fitted):
    assert len(fitted.params.slopes) == len(FEATURES) + len(TYPES)
