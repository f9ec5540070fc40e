"""Proper scores in two parts: what a rising map of the confidence could mend, and what it could not.

The best rising map is isotonic regression on the same rows (Dimitriadis et al. 2021). The score after it is the
refinement error; what it saves is the calibration error, never negative. Both are of the predicted class: is the
answer right? Calibration and refinement sum to `brier_top_label` or `nll_top_label`.
"""

from collections.abc import Callable

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.metrics.calibration import log_losses
from knn_ue.metrics.inputs import top_label
from knn_ue.metrics.weights import checked_weights

Score = Callable[[FloatArray, BoolArray], FloatArray]


def brier_calibration(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """What recalibrating would take off the Brier score of the predicted class; 0 is best.

    >>> round(brier_calibration(confidence=[0.9, 0.9], correct=[True, False]), 4)
    0.16
    """
    return _part(_squared, top_label(probs, labels, confidence, correct), sample_weight, refined=False)


def brier_refinement(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """The Brier score of the predicted class after the best rising map of its confidence; 0 is best.

    >>> round(brier_refinement(confidence=[0.9, 0.9], correct=[True, False]), 4)
    0.25
    """
    return _part(_squared, top_label(probs, labels, confidence, correct), sample_weight, refined=True)


def nll_calibration(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """What recalibrating would take off the log-loss of "the prediction is right", in nats; 0 is best.

    >>> round(nll_calibration(confidence=[0.9, 0.9], correct=[True, False]), 4)
    0.5108
    """
    return _part(log_losses, top_label(probs, labels, confidence, correct), sample_weight, refined=False)


def nll_refinement(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """The log-loss of "the prediction is right", in nats, after the best rising map of the confidence; 0 is best.

    >>> round(nll_refinement(confidence=[0.9, 0.9], correct=[True, False]), 4)
    0.6931
    """
    return _part(log_losses, top_label(probs, labels, confidence, correct), sample_weight, refined=True)


def _part(
    score: Score, answers: tuple[FloatArray, BoolArray], sample_weight: FloatArray | None, *, refined: bool
) -> float:
    confidence, correct = answers

    def part(column: FloatArray) -> float:
        share = column / column.sum()
        total = float(share @ score(confidence, correct))
        refinement = min(total, float(share @ score(_recalibrated(confidence, correct, column), correct)))
        return refinement if refined else total - refinement

    weights = checked_weights(sample_weight, len(confidence))
    return part(np.ones(len(confidence))) if weights is None else weights.each(part)


def _recalibrated(confidence: FloatArray, correct: BoolArray, weights: FloatArray) -> FloatArray:
    """Return the isotonic regression (n,) of `correct` on `confidence`; equal confidences get equal values."""
    from scipy.optimize import isotonic_regression

    values, position = np.unique(confidence, return_inverse=True)
    mass = np.bincount(position, weights, minlength=len(values))
    right = np.bincount(position, weights * correct, minlength=len(values))
    kept = mass > 0
    fitted = np.zeros(len(values))
    fitted[kept] = isotonic_regression(right[kept] / mass[kept], weights=mass[kept]).x
    recalibrated: FloatArray = np.clip(fitted, 0.0, 1.0)[position]
    return recalibrated


def _squared(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    squared: FloatArray = np.square(confidence - correct)
    return squared
