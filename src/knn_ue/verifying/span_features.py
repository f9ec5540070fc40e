"""What a probe's tag probabilities say of spans that somebody else marked: nine numbers each, and its length."""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.entities import Spans, TagSet
from knn_ue.verifying.logistic import log_odds

# Log-odds of: its type at the least certain word, and on average; B at its first word; I at the least certain word
# after it; its type right before it, and I of its type right after it; O before and after it; the best other type.
FEATURES = (
    "type",
    "mean_type",
    "begins",
    "continues",
    "type_before",
    "continues_after",
    "outside_before",
    "outside_after",
    "other_type",
    "length",
)


def span_features(probs: FloatArray, spans: Spans, tags: TagSet) -> FloatArray:
    """Return the features (m, 10) of spans from the probability of each tag (n, tags) at each word.

    A span's `kind` is a place in `tags.names`; one beyond them is a type that the probe does not know, with probability
    zero. At the edges of a sentence everything is O. The length counts as its logarithm.
    """
    n_types = len(tags.names)
    begin, inside = (_by_type(probs, tags, chosen) for chosen in (tags.begins, tags.continues))
    of_type = begin + inside
    outside = probs[:, tags.kind < 0].sum(axis=1)
    features = np.zeros((len(spans), len(FEATURES)))
    n_words = spans.last - spans.first + 1
    means = _sums(of_type, spans) / n_words[:, None]
    for kind in np.unique(spans.kind).tolist():
        rows, column = spans.kind == kind, min(kind, n_types)
        mine = Spans(
            kind=spans.kind[rows],
            first=spans.first[rows],
            last=spans.last[rows],
            starts=spans.starts,
            n_words=spans.n_words,
        )
        continued = np.ones(len(mine))
        longer = mine.last > mine.first
        continued[longer] = Spans(
            kind=mine.kind[longer],
            first=mine.first[longer] + 1,
            last=mine.last[longer],
            starts=spans.starts,
            n_words=spans.n_words,
        ).lowest(inside[:, column])
        others = np.delete(means[rows], [column, n_types], axis=1)
        features[rows, :9] = np.column_stack(
            [
                mine.lowest(of_type[:, column]),
                means[rows, column],
                begin[mine.first, column],
                continued,
                _edge(mine.before(of_type[:, column]), 0.0),
                _edge(mine.after(inside[:, column]), 0.0),
                _edge(mine.before(outside), 1.0),
                _edge(mine.after(outside), 1.0),
                others.max(axis=1, initial=0.0),
            ]
        )
    features[:, :9] = log_odds(features[:, :9])
    features[:, 9] = np.log(n_words)
    return features


def _by_type(probs: FloatArray, tags: TagSet, chosen: BoolArray) -> FloatArray:
    """Return the probability (n, types + 1) of the `chosen` tags of each type; the last column is zero."""
    summed = np.zeros((len(probs), len(tags.names) + 1))
    for tag in np.flatnonzero(chosen):
        summed[:, tags.kind[tag]] += probs[:, tag]
    return summed


def _sums(values: FloatArray, spans: Spans) -> FloatArray:
    """Return the sum (m, columns) of `values` (n, columns) over the words of each span."""
    # reduceat needs every bound inside the array; the row of zeros only ever ends a span.
    bounds = np.stack((spans.first, spans.last + 1), axis=1).ravel()
    padded = np.vstack([values, np.zeros((1, values.shape[1]))])
    sums: FloatArray = np.add.reduceat(padded, bounds, axis=0)[::2] if len(spans) else np.zeros((0, values.shape[1]))
    return sums


def _edge(values: FloatArray, beyond: float) -> FloatArray:
    return np.where(np.isinf(values), beyond, values)
