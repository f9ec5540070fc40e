"""The features of spans, against plain loops."""

import numpy as np
import pytest

from knn_ue.entities import Spans, TagSet
from knn_ue.verifying.span_features import FEATURES, span_features

TAGS = TagSet.of(["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])


def spans_of(rows, starts, n_words):
    kind, first, last = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Spans(kind=kind, first=first, last=last, starts=np.array(starts), n_words=n_words)


def slow(probs, kind, first, last, sentence):
    """The ten numbers of one span; `sentence` is a range of words."""

    def of_type(word, number):
        return probs[word, 1 + 2 * number] + probs[word, 2 + 2 * number] if number < 2 else 0.0

    def log_odds(p):
        p = min(max(p, 1e-4), 1 - 1e-4)
        return np.log(p / (1 - p))

    words = range(first, last + 1)
    before, after = first - 1 in sentence, last + 1 in sentence
    known = kind < 2
    others = [np.mean([of_type(word, other) for word in words]) for other in range(2) if other != kind]
    plain = [
        min(of_type(word, kind) for word in words),
        np.mean([of_type(word, kind) for word in words]),
        probs[first, 1 + 2 * kind] if known else 0.0,
        min([(probs[word, 2 + 2 * kind] if known else 0.0) for word in words[1:]], default=1.0),
        of_type(first - 1, kind) if before else 0.0,
        (probs[last + 1, 2 + 2 * kind] if known else 0.0) if after else 0.0,
        probs[first - 1, 0] if before else 1.0,
        probs[last + 1, 0] if after else 1.0,
        max(others),
    ]
    return [*map(log_odds, plain), np.log(len(words))]


@pytest.fixture(scope="module")
def probs():
    return np.random.default_rng(0).dirichlet(np.ones(5), size=9)


ROWS = [(0, 0, 0), (1, 1, 3), (0, 2, 3), (1, 4, 4), (0, 5, 8), (2, 6, 7), (1, 8, 8)]


def test_each_feature_is_what_a_loop_says(probs):
    starts = [0, 4, 5]
    sentences = [range(0, 4), range(4, 5), range(5, 9)]

    found = span_features(probs, spans_of(ROWS, starts, 9), TAGS)

    expected = [slow(probs, *row, next(own for own in sentences if row[1] in own)) for row in ROWS]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_no_spans_have_no_features(probs):
    assert span_features(probs, spans_of([], [0], 9), TAGS).shape == (0, len(FEATURES))


def test_another_type_is_as_good_as_certain_or_impossible_never_infinite():
    probs = np.tile([0.0, 1.0, 0.0, 0.0, 0.0], (2, 1))

    assert np.isfinite(span_features(probs, spans_of([(0, 0, 0), (2, 1, 1)], [0], 2), TAGS)).all()


def test_nothing_beyond_the_sentence_counts(probs):
    changed = probs.copy()
    changed[:4], changed[5:] = changed[3::-1], changed[:4:-1]

    one, other = (span_features(p, spans_of([(1, 4, 4)], [0, 4, 5], 9), TAGS) for p in (probs, changed))

    np.testing.assert_array_equal(one, other)
