"""Rankings of weighted rows, all draws at once: rows are sorted once, and weights are summed down the order.

The same numbers as those of `ranking` and `selective` with a row of weight 2 there twice; every function returns one
value per draw (draws,), NaN where it is not defined.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.metrics.weights import SUM_ROUNDING, Weights, ratio


class _Side:
    """Some rows from the highest score down; `total` (m + 1, draws) is the weight of all down to each."""

    def __init__(self, scores: FloatArray, weights: FloatArray, rows: IntArray | None = None) -> None:
        chosen = scores if rows is None else scores[rows]
        order = np.argsort(-chosen, kind="stable")
        self.scores = chosen[order]
        self.weights = weights[order if rows is None else rows[order]]
        self._ascending = self.scores[::-1]

    @cached_property
    def total(self) -> FloatArray:
        return _running(self.weights)

    def above(self, scores: FloatArray) -> IntArray:
        """Return how many of these rows have more than each score."""
        return len(self.scores) - np.searchsorted(self._ascending, scores, side="right")

    def at_least(self, scores: FloatArray) -> IntArray:
        """Return how many of these rows have at least each score."""
        return len(self.scores) - np.searchsorted(self._ascending, scores, side="left")


@dataclass(frozen=True, eq=False)
class WeightedRanking:
    """Rows to be found and the others, each from the highest score down."""

    found: _Side
    others: _Side

    @classmethod
    def of_rows(cls, scores: FloatArray, flagged: BoolArray, weights: Weights) -> "WeightedRanking":
        """Rank `scores` (n,), of which the `flagged` (n,) are to be found."""
        rows = np.flatnonzero(flagged), np.flatnonzero(~flagged)
        return cls(_Side(scores, weights.values, rows[0]), _Side(scores, weights.values, rows[1]))

    @classmethod
    def of_sides(
        cls, found: tuple[FloatArray, Weights], others: tuple[FloatArray, Weights], *, ascending: bool = False
    ) -> "WeightedRanking":
        """Rank two sets of scores with their weights; with `ascending` the lowest score comes first."""
        sign = -1.0 if ascending else 1.0
        return cls(_Side(sign * found[0], found[1].values), _Side(sign * others[0], others[1].values))

    def area_under_roc(self) -> FloatArray:
        """Chance that a row to be found has more than another one, ties counting half."""
        found, others = self.found, self.others
        above, at_least = found.above(others.scores), found.at_least(others.scores)
        won = _summed(others.weights, found.total[above])
        won = won + (won if (above == at_least).all() else _summed(others.weights, found.total[at_least]))
        return ratio(won, 2 * found.total[-1] * others.weights.sum(axis=0))

    def average_precision(self) -> FloatArray:
        """Precision at each row to be found, weighted by the recall it adds."""
        hits = self.found.total[self.found.at_least(self.found.scores)]
        kept = hits + self.others.total[self.others.at_least(self.found.scores)]
        precision = np.divide(hits, kept, out=np.zeros_like(hits), where=kept > 0)
        return self._where_both(ratio(_summed(self.found.weights, precision), self.found.total[-1]))

    def fpr95(self) -> FloatArray:
        """Share of the others that have at least the score which 95 % of those to be found have."""
        whole = self.found.total[-1]
        shares = self.found.total[self.found.at_least(self.found.scores)] / np.where(whole > 0, whole, 1.0)
        first = np.argmax(shares >= 0.95 - SUM_ROUNDING, axis=0)
        passing = self.others.at_least(self.found.scores)[first]
        rates = ratio(self.others.total[passing, np.arange(len(passing))], self.others.total[-1])
        return self._where_both(rates)

    def _where_both(self, values: FloatArray) -> FloatArray:
        return np.where((self.found.total[-1] > 0) & (self.others.total[-1] > 0), values, np.nan)


def weighted_aurc(confidence: FloatArray, correct: BoolArray, weights: Weights) -> FloatArray:
    """Mean over n of the error rate of the n most confident rows, ties averaged."""
    order = np.argsort(-confidence, kind="stable")
    step = np.cumsum(np.diff(confidence[order], prepend=np.inf) != 0)
    return ratio(_risk_area(order, step, ~correct, weights, 0), weights.total)


def weighted_published_aurc(confidence: FloatArray, correct: BoolArray, weights: Weights) -> FloatArray:
    """The same as in the published code: errors divided by n + 1 except at full coverage, of ties later rows first."""
    order = np.argsort(confidence, kind="stable")[::-1]
    area = _risk_area(order, np.arange(len(order)), ~correct, weights, 1)
    errors = (~correct).astype(np.float64) @ weights.values
    area += ratio(errors, weights.total) - errors / (weights.total + 1)
    return ratio(area, weights.total)


def _risk_area(order: IntArray, step: IntArray, wrong: BoolArray, weights: Weights, shift: int) -> FloatArray:
    """Return the sum over n of (errors among the n surest) / (n + shift).

    `order` (n,) puts the surest first, `step` (n,) numbers runs of equals in that order, within which errors grow
    evenly. An error at place m is in all sums from m on, H(N + shift) - H(m - 1 + shift) with the harmonic numbers H;
    their own sums, m (H(m) - 1), give those of a run of places. Both are defined between whole numbers too.
    """
    drawn = weights.values[order]
    kept = _running(drawn)
    rows = np.flatnonzero(wrong[order])
    if not len(rows):
        return np.zeros(kept.shape[1])
    hit, starts = np.unique(step[rows], return_index=True)
    errors = drawn[rows]
    if len(hit) < len(rows):
        errors = np.add.reduceat(errors, starts, axis=0)
    before, after = kept[np.searchsorted(step, hit)], kept[np.searchsorted(step, hit, side="right")]
    rates = np.divide(errors, after - before, out=np.zeros_like(errors), where=after > before)
    last = kept[-1]
    if weights.whole:  # a table is much faster than the function
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, int(last.max(initial=0)) + shift + 1)))
        summed = np.append(0.0, np.cumsum(harmonic))
        missed = summed[after.astype(np.intp) + shift] - summed[before.astype(np.intp) + shift]
        final = harmonic[last.astype(np.intp) + shift]
    else:
        missed = _summed_harmonic(after + shift) - _summed_harmonic(before + shift)
        final = _harmonic(last + shift)
    area: FloatArray = errors.sum(axis=0) * final - _summed(rates, missed)
    return area


def _harmonic(places: FloatArray) -> FloatArray:
    from scipy.special import digamma

    numbers: FloatArray = digamma(places + 1.0) + np.euler_gamma
    return numbers


def _summed_harmonic(places: FloatArray) -> FloatArray:
    return places * (_harmonic(places) - 1.0)


def _running(weights: FloatArray) -> FloatArray:
    total = np.zeros((len(weights) + 1, weights.shape[1]))
    np.cumsum(weights, axis=0, out=total[1:])
    return total


def _summed(weights: FloatArray, values: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("nd,nd->d", weights, values)
    return found
