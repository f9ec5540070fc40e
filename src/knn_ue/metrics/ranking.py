"""Rows from the highest score down, equal scores as one step: what AURC, AUROC, AUPR and FPR@95 are made of."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """One step for each distinct score, highest first, so that the order of ties cannot matter.

    `threshold` (steps,) are the scores, `n_kept` (steps,) the rows that score at least that, `n_flagged` (steps,) the
    flagged ones among them.
    """

    threshold: FloatArray
    n_kept: IntArray
    n_flagged: IntArray


def rank(scores: FloatArray, flagged: BoolArray) -> Ranking:
    """Count rows and flagged rows down the ranking of finite `scores` (n,), n >= 1."""
    ordered, flags = _sort_down(scores, flagged)
    ends_step = np.append(ordered[1:] != ordered[:-1], True)
    n_flagged = np.cumsum(flags, dtype=np.int64)
    if ends_step.all():
        return Ranking(threshold=ordered, n_kept=np.arange(1, len(ordered) + 1), n_flagged=n_flagged)
    (last,) = np.nonzero(ends_step)
    return Ranking(threshold=ordered[last], n_kept=last + 1, n_flagged=n_flagged[last])


def area_under_roc(ranking: Ranking) -> float:
    """Chance that a flagged row ranks above one that is not, ties counting half; NaN unless there are both."""
    n_flagged, n_other = ranking.n_flagged, ranking.n_kept - ranking.n_flagged
    pairs = int(n_flagged[-1]) * int(n_other[-1])
    if pairs == 0:
        return math.nan
    twice_won = np.diff(n_other, prepend=0) @ (n_flagged + _shift(n_flagged))
    return float(twice_won / (2 * pairs))


def average_precision(ranking: Ranking) -> float:
    """Precision at each step, weighted by the recall it adds; some row must be flagged."""
    gained = np.diff(ranking.n_flagged, prepend=0)
    return float(gained @ (ranking.n_flagged / ranking.n_kept) / ranking.n_flagged[-1])


def _shift(counts: IntArray) -> IntArray:
    return np.concatenate(([0], counts[:-1]))


def _sort_down(scores: FloatArray, flagged: BoolArray) -> tuple[FloatArray, BoolArray]:
    if scores.min() >= 0.0 and scores.max() <= 1.0:
        # Such floats order as their bits do and leave the top two bits free. With the flag packed in as the last
        # bit, one sort of integers replaces an argsort and two gathers, several times slower. (+ 0.0 undoes -0.0.)
        packed: npt.NDArray[Any] = (scores + 0.0).view(np.int64)
        packed <<= 1
        packed |= flagged
        packed.sort()
        flags = packed.astype(np.uint8) & 1 != 0
        packed >>= 1
        return packed.view(np.float64)[::-1], flags[::-1]
    order = np.argsort(scores)[::-1]
    return scores[order], flagged[order]
