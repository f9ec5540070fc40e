"""Confidence cut into bins: what calibration errors and reliability diagrams are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_choice, check_positive, read_only
from knn_ue.metrics.inputs import top_label
from knn_ue.metrics.weights import SUM_ROUNDING, Weights, checked_weights, ratio

Binning = Literal["width", "mass"]

# Rows binned at a time: the temporaries of a block stay in the processor's cache.
_BLOCK_ROWS = 1 << 15


@dataclass(frozen=True, kw_only=True, eq=False)
class ReliabilityBins:
    """Right-closed bins (edges[b], edges[b + 1]] of confidence; confidence exactly 0 belongs to the first.

    `edges` (bins + 1,); `count`, `confidence` (mean) and `accuracy` (bins,), the last two NaN where a bin is empty.
    `count` is the sum of the weights where rows are weighted.
    """

    edges: FloatArray
    count: IntArray | FloatArray
    confidence: FloatArray
    accuracy: FloatArray

    @property
    def share(self) -> FloatArray:
        """The part of all rows that lies in each bin (bins,)."""
        share: FloatArray = self.count / self.count.sum()
        return share

    @property
    def gap(self) -> FloatArray:
        """|accuracy - mean confidence| of each bin (bins,), 0 where the bin is empty."""
        return np.where(self.count > 0, np.abs(self.accuracy - self.confidence), 0.0)


def reliability_bins(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    n_bins: int = 10,
    binning: Binning = "width",
    sample_weight: FloatArray | None = None,
) -> ReliabilityBins:
    """Return how often the predicted class is correct in each bin of confidence. Guo et al. (2017).

    Takes `probs` (n, classes) with `labels` (n,), or `confidence` (n,) with `correct` (n,). Bins have equal width
    ("width"), or about equally many rows ("mass"); equal confidences share a bin, so "mass" may return fewer bins.
    `sample_weight` (n,) says how much each row counts.

    >>> bins = reliability_bins(confidence=[0.3, 0.9, 1.0], correct=[False, True, True], n_bins=2)
    >>> bins.count, bins.confidence, bins.accuracy
    (array([1, 2]), array([0.3 , 0.95]), array([0., 1.]))
    """
    scores, hits = top_label(probs, labels, confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    column = None if weights is None else weights.values[:, 0]
    return bin_rows(scores, hits, n_bins=n_bins, binning=binning, weights=column)


def bin_rows(
    confidence: FloatArray,
    correct: BoolArray,
    *,
    n_bins: int,
    binning: Binning = "width",
    weights: FloatArray | None = None,
) -> ReliabilityBins:
    """Bin checked `confidence` (n,) within [0, 1] and `correct` (n,), n >= 1, with checked `weights` (n,) if any."""
    check_positive(n_bins, "n_bins")
    check_choice(binning, "binning", get_args(Binning))
    if weights is not None:
        (rows,) = np.nonzero(weights)
        confidence, correct, weights = confidence[rows], correct[rows], weights[rows]
    if binning == "width":
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        return _count(confidence, correct, weights, edges, lambda block: equal_width_bin(block, edges))
    # The last row of each of n_bins runs of the sorted rows; a run that ends inside a tie takes the whole tie.
    if weights is None:
        last = -(-len(confidence) * np.arange(1, n_bins + 1) // n_bins) - 1
        upper = np.unique(np.partition(confidence, np.unique(last))[last])
    else:
        order = np.argsort(confidence)
        reached = np.cumsum(weights[order])
        parts = np.arange(1, n_bins) / n_bins * (1 - SUM_ROUNDING)
        last = np.append(np.searchsorted(reached, reached[-1] * parts), len(order) - 1)
        upper = np.unique(confidence[order[last]])
    edges = np.concatenate(([0.0], upper))
    return _count(confidence, correct, weights, edges, lambda block: np.searchsorted(upper, block))


def weighted_gaps(
    confidence: FloatArray, correct: BoolArray, *, n_bins: int, weights: Weights
) -> tuple[FloatArray, FloatArray]:
    """Return the share and the gap of each equal-width bin for each draw, (bins, draws); shares NaN without any row."""
    check_positive(n_bins, "n_bins")
    number = equal_width_bin(confidence, np.linspace(0.0, 1.0, n_bins + 1))
    # One product of matrices needs no array of the size of the weights, whose allocation would cost more than the sums.
    terms = np.zeros((2 * n_bins, len(number)))
    terms[number, np.arange(len(number))] = 1.0
    terms[n_bins + number, np.arange(len(number))] = correct - confidence
    count, excess = np.split(terms @ weights.values, 2)
    gap = np.divide(np.abs(excess), count, out=np.zeros_like(count), where=count > 0)
    return ratio(count, np.broadcast_to(count.sum(axis=0), count.shape)), gap


def equal_width_bin(confidence: FloatArray, edges: FloatArray) -> IntArray:
    """Return the number, from 0, of the right-closed bin each confidence within [0, 1] belongs to (n,)."""
    n_bins = len(edges) - 1
    number = np.maximum(np.ceil(confidence * n_bins).astype(np.int64), 1)
    # The product may round to the wrong side of an edge: the edges decide, as they do for whoever draws them.
    number += confidence > edges[number]
    lower = edges.copy()
    lower[0] = -1.0
    number -= confidence <= lower[number - 1]
    return number - 1


def _count(
    confidence: FloatArray,
    correct: BoolArray,
    weights: FloatArray | None,
    edges: FloatArray,
    bin_of: Callable[[FloatArray], IntArray],
) -> ReliabilityBins:
    n_bins = len(edges) - 1
    counts, total = np.zeros((n_bins, 2), dtype=np.int64 if weights is None else np.float64), np.zeros(n_bins)
    for start in range(0, len(confidence), _BLOCK_ROWS):
        block, hits = confidence[start : start + _BLOCK_ROWS], correct[start : start + _BLOCK_ROWS]
        drawn = None if weights is None else weights[start : start + _BLOCK_ROWS]
        number = bin_of(block)
        total += np.bincount(number, weights=block if drawn is None else block * drawn, minlength=n_bins)
        counts += np.bincount(2 * number + hits, weights=drawn, minlength=2 * n_bins).reshape(n_bins, 2)
    count = counts.sum(axis=1)
    filled = np.where(count > 0, count, np.nan)
    return ReliabilityBins(
        edges=read_only(edges),
        count=read_only(count),
        confidence=read_only(total / filled),
        accuracy=read_only(counts[:, 1] / filled),
    )
