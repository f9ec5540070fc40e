"""Does a confidence of 0.8 mean correct in 8 of 10 cases? Errors of calibration, and proper scores.

All numbers are fractions, never percent; 0 is best, except for accuracy. Functions of the top label alone take either
`probs` (n, classes) with `labels` (n,), or `confidence` (n,) with `correct` (n,). `sample_weight` (n,) says how much
each row counts: a weight of 2 is the row twice.
"""

import math

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.metrics.inputs import checked_probs, top_label
from knn_ue.metrics.reliability import bin_rows, weighted_gaps
from knn_ue.metrics.weights import Weights, checked_weights, weighted_mean


def expected_calibration_error(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Mean |accuracy - mean confidence| over equal-width bins, weighted by their rows. Naeini et al. (2015).

    Bins are right-closed, (lo, hi], and confidence exactly 0 belongs to the first: see `reliability_bins`.

    >>> round(expected_calibration_error(probs=[[0.2, 0.8], [0.4, 0.6]], labels=[1, 0]), 9)
    0.4
    """
    scores, hits = top_label(probs, labels, confidence, correct)
    return _binned_error(scores, hits, n_bins, checked_weights(sample_weight, len(scores)))


def maximum_calibration_error(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Largest |accuracy - mean confidence| of any equal-width bin that holds a row. Naeini et al. (2015).

    >>> round(maximum_calibration_error(confidence=[0.8, 0.6], correct=[True, False]), 9)
    0.6
    """
    scores, hits = top_label(probs, labels, confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    if weights is None:
        return float(bin_rows(scores, hits, n_bins=n_bins).gap.max())
    share, gap = weighted_gaps(scores, hits, n_bins=n_bins, weights=weights)
    return weights.number(np.where(np.isnan(share[0]), np.nan, gap.max(axis=0)))


def adaptive_calibration_error(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Expected calibration error over bins of about equally many rows. Nguyen and O'Connor (2015).

    Equal confidences share a bin, so that row order never matters. This is the top-label error; the error of the
    same name in Nixon et al. (2019) also averages over classes.

    >>> round(adaptive_calibration_error(confidence=[0.91, 0.97, 0.98, 0.99], correct=[0, 1, 1, 1], n_bins=2), 9)
    0.2275
    """
    scores, hits = top_label(probs, labels, confidence, correct)

    def error(column: FloatArray | None) -> float:
        bins = bin_rows(scores, hits, n_bins=n_bins, binning="mass", weights=column)
        return float(bins.share @ bins.gap)

    weights = checked_weights(sample_weight, len(scores))
    return error(None) if weights is None else weights.each(error)


def debiased_calibration_error(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Expected calibration error minus the part that few rows a bin would cause by chance. Kumar et al. (2019).

    Plain ECE is above 0 even for a perfectly calibrated model. With the accuracy of a bin of m rows taken as
    Normal(acc, acc (1 - acc) / m), its gap is a folded normal, whose mean minus the observed gap is the bias; the
    paper samples that mean, here it is in closed form. Clipped at 0.

    >>> debiased_calibration_error(confidence=[0.75] * 4, correct=[True, True, True, False])
    0.0
    """
    scores, hits = top_label(probs, labels, confidence, correct)

    def error(column: FloatArray | None) -> float:
        bins = bin_rows(scores, hits, n_bins=n_bins, weights=column)
        expected = 0.0
        for share, gap, accuracy, count in zip(bins.share, bins.gap, bins.accuracy, bins.count, strict=True):
            if count:
                expected += share * _folded_normal_mean(gap, math.sqrt(accuracy * (1.0 - accuracy) / count))
        return max(0.0, float(2.0 * (bins.share @ bins.gap) - expected))

    weights = checked_weights(sample_weight, len(scores))
    return error(None) if weights is None else weights.each(error)


def class_wise_calibration_error(
    *, probs: FloatArray, labels: IntArray, n_bins: int = 10, sample_weight: FloatArray | None = None
) -> float:
    """Mean over classes c of the equal-width binned gap between p[:, c] and how often c is true. Kull et al. (2019).

    `probs` (n, classes), `labels` (n,). Every class counts alike, also one that never occurs.

    >>> class_wise_calibration_error(probs=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1])
    0.0
    """
    matrix, truth = checked_probs(probs, labels)
    weights = checked_weights(sample_weight, len(matrix))
    errors = [
        _binned_error(np.minimum(column, 1.0), truth == number, n_bins, weights)
        for number, column in enumerate(matrix.T)
    ]
    mean = np.mean(errors, axis=0)
    return float(mean) if weights is None else weights.number(np.atleast_1d(mean))


def brier_top_label(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """Mean squared difference between the confidence in the predicted class and 1 if it is correct, else 0.

    The Brier (1950) score of the question "is the prediction correct?".

    >>> brier_top_label(confidence=[1.0, 0.5], correct=[True, False])
    0.125
    """
    scores, hits = top_label(probs, labels, confidence, correct)
    return _mean(np.square(scores - hits), sample_weight)


def nll_top_label(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """Mean -ln probability of what was the case, the prediction right or wrong, in nats.

    The log-loss of the question "is the prediction correct?". Probabilities are floored as in
    `negative_log_likelihood`, which is of all classes: with two of them both are equal.

    >>> round(nll_top_label(confidence=[0.9, 0.5], correct=[True, False]), 4)
    0.3993
    """
    scores, hits = top_label(probs, labels, confidence, correct)
    return _mean(log_losses(scores, hits), sample_weight)


def log_losses(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """Return -ln probability (n,) of what was the case, right or wrong, at most 708.4."""
    likelihood = np.where(correct, confidence, 1.0 - confidence)
    losses: FloatArray = np.abs(np.log(np.maximum(likelihood, np.finfo(np.float64).tiny)))
    return losses


def brier_multiclass(*, probs: FloatArray, labels: IntArray, sample_weight: FloatArray | None = None) -> float:
    """Mean over rows of the squared distance between the probabilities and the one-hot truth. Brier (1950).

    `probs` (n, classes), `labels` (n,); from 0 to 2. For two classes it is twice the score of class 1 alone.

    >>> brier_multiclass(probs=[[1.0, 0.0], [0.5, 0.5]], labels=[0, 0])
    0.25
    """
    matrix, truth = checked_probs(probs, labels)
    difference = matrix.copy()
    difference[np.arange(len(truth)), truth] -= 1.0
    return _mean(np.einsum("ij,ij->i", difference, difference), sample_weight)


def negative_log_likelihood(*, probs: FloatArray, labels: IntArray, sample_weight: FloatArray | None = None) -> float:
    """Mean of -ln p(true class), in nats; `probs` (n, classes), `labels` (n,).

    Probabilities are floored at the smallest normal float64, 2.2e-308, so that a certain mistake costs 708.4, not inf.

    >>> round(negative_log_likelihood(probs=[[0.5, 0.5], [1.0, 0.0]], labels=[0, 1]), 2)
    354.54
    """
    matrix, truth = checked_probs(probs, labels)
    likelihood = matrix[np.arange(len(truth)), truth].clip(np.finfo(np.float64).tiny, 1.0)
    return _mean(np.abs(np.log(likelihood)), sample_weight)  # abs: a perfect model scores 0.0, not -0.0


def accuracy(*, probs: FloatArray, labels: IntArray, sample_weight: FloatArray | None = None) -> float:
    """Share of rows whose first largest probability is the true class; `probs` (n, classes), `labels` (n,).

    >>> accuracy(probs=[[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
    0.5
    """
    matrix, truth = checked_probs(probs, labels)
    return _mean(matrix.argmax(axis=1) == truth, sample_weight)


def _mean(values: FloatArray | BoolArray, sample_weight: FloatArray | None) -> float:
    weights = checked_weights(sample_weight, len(values))
    if weights is None:
        return float(values.mean())
    return weights.number(weighted_mean(values.astype(np.float64, copy=False), weights))


def _binned_error(confidence: FloatArray, correct: BoolArray, n_bins: int, weights: Weights | None) -> float:
    """Return the mean gap over equal-width bins."""
    if weights is None:
        bins = bin_rows(confidence, correct, n_bins=n_bins)
        return float(bins.share @ bins.gap)
    share, gap = weighted_gaps(confidence, correct, n_bins=n_bins, weights=weights)
    return weights.number(np.einsum("bd,bd->d", share, gap))


def _folded_normal_mean(mean: float, deviation: float) -> float:
    """E|X| of X ~ Normal(mean, deviation^2), mean >= 0."""
    if deviation == 0.0:
        return mean
    z = mean / deviation
    return deviation * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + mean * math.erf(z / math.sqrt(2.0))
