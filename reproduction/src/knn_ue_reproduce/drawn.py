"""Measures of drawn texts, all draws at once: a text that is drawn twice counts twice, and nothing is sorted again.

`counts` (answers, draws) say how often each answer is drawn. For each draw a function returns what the measure of the
same name returns for the drawn answers in the order of the data set, NaN where it is not defined.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.metrics.reliability import equal_width_bin
from knn_ue_reproduce.answers import Answers

Drawn = Callable[..., FloatArray]

_N_BINS = 10


def _given(answers: Answers, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return confidence and correctness of the answers that were given, and their counts."""
    assert answers.correct is not None
    correct = answers.correct.astype(np.float64)
    if answers.missed is None:
        return answers.confidence, correct, counts
    rows = np.flatnonzero(~answers.missed)
    return answers.confidence[rows], correct[rows], counts[rows]


def _undefined(counts: FloatArray) -> FloatArray:
    return np.full(counts.shape[1], np.nan)


def _of_known(function: Drawn) -> Drawn:
    """Return the function, not defined where the model does not know the labels of a set."""
    return lambda answers, counts: _undefined(counts) if answers.correct is None else function(answers, counts)


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    ratio: FloatArray = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0)
    return ratio


def _mean(values: FloatArray, counts: FloatArray) -> FloatArray:
    return _ratio(values @ counts, counts.sum(axis=0))


def _binned(answers: Answers, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return |right answers - summed confidence| and the number of answers of each bin, (bins, draws)."""
    confidence, correct, drawn = _given(answers, counts)
    confidence = np.minimum(confidence, 1.0)  # float32 may round above
    bins = equal_width_bin(confidence, np.linspace(0.0, 1.0, _N_BINS + 1))
    belongs = (np.arange(_N_BINS)[:, None] == bins).astype(np.float64)
    return np.abs((belongs * (correct - confidence)) @ drawn), belongs @ drawn


def _ece(answers: Answers, counts: FloatArray) -> FloatArray:
    gaps, sizes = _binned(answers, counts)
    return _ratio(gaps.sum(axis=0), sizes.sum(axis=0))


def _mce(answers: Answers, counts: FloatArray) -> FloatArray:
    gaps, sizes = _binned(answers, counts)
    largest = np.divide(gaps, sizes, out=np.zeros_like(gaps), where=sizes > 0).max(axis=0)
    return np.where(sizes.sum(axis=0) > 0, largest, np.nan)


def _brier(answers: Answers, counts: FloatArray) -> FloatArray:
    confidence, correct, drawn = _given(answers, counts)
    return _mean(np.square(np.minimum(confidence, 1.0) - correct), drawn)


def _right(answers: Answers, counts: FloatArray) -> FloatArray:
    _, correct, drawn = _given(answers, counts)
    return _mean(correct, drawn)


def _confidence(answers: Answers, counts: FloatArray, *, right: bool) -> FloatArray:
    confidence, correct, drawn = _given(answers, counts)
    rows = np.flatnonzero(correct == right)
    return _mean(confidence[rows], drawn[rows])


def _f1(answers: Answers, counts: FloatArray) -> FloatArray:
    if answers.missed is None or answers.correct is None:
        return _undefined(counts)
    n_right = answers.correct.astype(np.float64) @ counts
    f1: FloatArray = 2 * n_right / np.maximum(1, counts.sum(axis=0) + n_right)
    return f1


def _human(answers: Answers, counts: FloatArray) -> FloatArray:
    if answers.human is None:
        return _undefined(counts)
    rows = np.flatnonzero(~np.isnan(answers.human))
    return _mean(answers.human[rows], counts[rows])


class _Ranked:
    """Scores (n,) from the highest down, with how often all down to each are drawn, `total` (n + 1, draws)."""

    def __init__(self, scores: FloatArray, counts: FloatArray) -> None:
        order = np.argsort(-scores, kind="stable")
        self.scores, self.counts = scores[order], counts[order]
        self.total = _running(self.counts)
        self._ascending = self.scores[::-1]

    def above(self, scores: FloatArray) -> IntArray:
        """Return how many of these have more than each score."""
        return len(self.scores) - np.searchsorted(self._ascending, scores, side="right")

    def at_least(self, scores: FloatArray) -> IntArray:
        """Return how many of these have at least each score."""
        return len(self.scores) - np.searchsorted(self._ascending, scores, side="left")


def _running(counts: FloatArray) -> FloatArray:
    total = np.zeros((len(counts) + 1, counts.shape[1]))
    np.cumsum(counts, axis=0, out=total[1:])
    return total


def _weighted(counts: FloatArray, values: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("nd,nd->d", counts, values)
    return found


def _risk_area(order: IntArray, step: IntArray, wrong: BoolArray, counts: FloatArray, shift: int) -> FloatArray:
    """Return the sum over n of (errors among the n surest) / (n + shift).

    `order` (n,) puts the surest first, `step` (n,) numbers runs of equals in that order, within which errors grow
    evenly. An error at place m is in all sums from m on, H(N + shift) - H(m - 1 + shift) with the harmonic numbers H;
    their own sums give those of a run of places.
    """
    drawn = counts[order]
    kept = _running(drawn)
    rows = np.flatnonzero(wrong[order])
    hit, starts = np.unique(step[rows], return_index=True)
    errors = drawn[rows]
    if len(hit) < len(rows):
        errors = np.add.reduceat(errors, starts, axis=0)
    first = np.searchsorted(step, hit)
    before, after = kept[first], kept[np.searchsorted(step, hit, side="right")]
    rates = np.divide(errors, after - before, out=np.zeros_like(errors), where=after > before)
    harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, int(kept[-1].max(initial=0)) + shift + 1)))
    summed = np.append(0.0, np.cumsum(harmonic))
    missed = summed[after.astype(np.intp) + shift] - summed[before.astype(np.intp) + shift]
    area: FloatArray = errors.sum(axis=0) * harmonic[kept[-1].astype(np.intp) + shift] - _weighted(rates, missed)
    return area


def _best_area(risk: FloatArray) -> FloatArray:
    below = np.minimum(risk, np.nextafter(1.0, 0.0))
    return np.where(risk < 1.0, risk + (1.0 - risk) * np.log1p(-below), 1.0)


def _e_aurc(answers: Answers, counts: FloatArray) -> FloatArray:
    confidence, correct, drawn = _given(answers, counts)
    order = np.argsort(-confidence, kind="stable")
    step = np.cumsum(np.diff(confidence[order], prepend=np.inf) != 0)
    area = _risk_area(order, step, correct == 0.0, drawn, 0)
    total = drawn.sum(axis=0)
    return _ratio(area, total) - _best_area(_mean(1.0 - correct, drawn))


def _e_aurc_published(answers: Answers, counts: FloatArray) -> FloatArray:
    assert answers.correct is not None
    wrong = ~answers.correct
    order = np.argsort(answers.confidence, kind="stable")[::-1]  # of equals the later rows first, as published
    area = _risk_area(order, np.arange(len(order)), wrong, counts, 1)
    total, n_wrong = counts.sum(axis=0), wrong.astype(np.float64) @ counts
    area += _ratio(n_wrong, total) - n_wrong / (total + 1)  # full coverage alone is divided by n
    return _ratio(area, total) - _best_area(_ratio(n_wrong, total))


def _roc_area(scores: FloatArray, flagged: BoolArray, counts: FloatArray) -> FloatArray:
    """Return the chance that a flagged answer has more than another, ties counting half."""
    higher, others, drawn = _Ranked(scores[flagged], counts[flagged]), scores[~flagged], counts[~flagged]
    above, at_least = higher.above(others), higher.at_least(others)
    won = _weighted(drawn, higher.total[above])
    won = won + (won if (above == at_least).all() else _weighted(drawn, higher.total[at_least]))
    return _ratio(won, 2 * higher.total[-1] * drawn.sum(axis=0))


def _auroc(answers: Answers, counts: FloatArray) -> FloatArray:
    confidence, correct, drawn = _given(answers, counts)
    return _roc_area(confidence, correct > 0.0, drawn)


def _class_auroc(answers: Answers, counts: FloatArray) -> FloatArray:
    if answers.probs is None or answers.labels is None:
        return _undefined(counts)
    n_classes = answers.probs.shape[1]
    areas = np.stack(
        [
            _roc_area(answers.probs[:, number], answers.labels == number, counts)
            for number in ((1,) if n_classes == 2 else range(n_classes))
        ]
    )
    known = ~np.isnan(areas)
    return _ratio(np.where(known, areas, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _detection(
    inside: Answers, outside: Answers, inside_counts: FloatArray, outside_counts: FloatArray, *, field: str
) -> FloatArray:
    sides = []
    for answers, counts in ((inside, inside_counts), (outside, outside_counts)):
        rows = np.arange(len(answers.confidence)) if answers.missed is None else np.flatnonzero(~answers.missed)
        sides.append((answers.confidence[rows], counts[rows]))
    if field == "auroc":
        scores, drawn = (np.concatenate(both) for both in zip(*sides, strict=True))
        return _roc_area(scores, np.arange(len(scores)) < len(sides[0][0]), drawn)
    if field == "aupr_out":
        sides = [(-scores, counts) for scores, counts in sides[::-1]]
    found, others = (_Ranked(*side) for side in sides)
    both = (found.total[-1] > 0) & (others.total[-1] > 0)
    if not both.any():
        return _undefined(inside_counts)
    value = _fpr95(found, others) if field == "fpr95" else _average_precision(found, others)
    return np.where(both, value, np.nan)


def _fpr95(found: _Ranked, others: _Ranked) -> FloatArray:
    """Return the share of the others that have at least the score which 95 % of those to be found have."""
    shares = found.total[found.at_least(found.scores)] / np.maximum(found.total[-1], 1)
    first = np.argmax(shares >= 0.95, axis=0)
    passing = others.at_least(found.scores)[first]
    return _ratio(others.total[passing, np.arange(len(passing))], others.total[-1])


def _average_precision(found: _Ranked, others: _Ranked) -> FloatArray:
    hits = found.total[found.at_least(found.scores)]
    kept = hits + others.total[others.at_least(found.scores)]
    precision = np.divide(hits, kept, out=np.zeros_like(hits), where=kept > 0)
    return _ratio(_weighted(found.counts, precision), found.total[-1])


# By the name of the measure; those of detection read in-domain answers and others, and the counts of both.
DRAWN: Mapping[str, Drawn] = {
    "right": _of_known(_right),
    "f1": _f1,
    "ece": _of_known(_ece),
    "mce": _of_known(_mce),
    "class_auroc": _class_auroc,
    "auroc": _of_known(_auroc),
    "e_aurc_published": _of_known(_e_aurc_published),
    "e_aurc": _of_known(_e_aurc),
    "brier": _of_known(_brier),
    "confidence_right": _of_known(partial(_confidence, right=True)),
    "confidence_wrong": _of_known(partial(_confidence, right=False)),
    "human": _human,
    "fpr95": partial(_detection, field="fpr95"),
    "detection_auroc": partial(_detection, field="auroc"),
    "aupr_in": partial(_detection, field="aupr_in"),
    "aupr_out": partial(_detection, field="aupr_out"),
    "aupr_in_published": partial(_detection, field="aupr_out"),
    "aupr_out_published": partial(_detection, field="aupr_in"),
}
