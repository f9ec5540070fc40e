"""Smooth calibration error: a calibration error without bins. Blasiok and Nakkiran (2023)."""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.metrics.inputs import top_label
from knn_ue.metrics.weights import checked_weights

_STEPS = 10  # halvings of the bandwidth's interval
_LEAST = 1e-3
_POINTS = 200


def smooth_calibration_error(
    *,
    probs: FloatArray | None = None,
    labels: IntArray | None = None,
    confidence: FloatArray | None = None,
    correct: BoolArray | None = None,
    sample_weight: FloatArray | None = None,
) -> float:
    """smECE: the integral of |smoothed (confidence - correct)|, at the bandwidth where it equals that bandwidth.

    The kernel is a Gaussian reflected at 0 and 1. The bandwidth is found by bisection, ten steps, down to 0.001, and
    the integral is a sum over at least 200 points. 0 is best.

    >>> round(smooth_calibration_error(confidence=[0.8] * 10, correct=[True] * 8 + [False] * 2), 9)
    0.0
    """
    scores, hits = top_label(probs, labels, confidence, correct)

    def error(column: FloatArray | None) -> float:
        return _error(scores, scores - hits, np.ones(len(scores)) if column is None else column)

    weights = checked_weights(sample_weight, len(scores))
    return error(None) if weights is None else weights.each(error)


def _error(confidence: FloatArray, residual: FloatArray, weights: FloatArray) -> float:
    smaller, larger = 0.0, 1.0
    if _smoothed(confidence, residual, weights, larger) > larger:
        return _smoothed(confidence, residual, weights, larger)
    for _ in range(_STEPS):
        middle = (smaller + larger) / 2
        if middle < _LEAST or middle < _smoothed(confidence, residual, weights, middle):
            smaller = middle
        else:
            larger = middle
    return _smoothed(confidence, residual, weights, larger)


def _smoothed(confidence: FloatArray, residual: FloatArray, weights: FloatArray, width: float) -> float:
    """Return the integral over [0, 1] of the absolute value of the smoothed residuals, per unit of weight."""
    n_grid = max(2000, round(20 / width)) // 2 + 1
    grid = _on_grid(confidence, np.stack([residual * weights, weights]), n_grid)
    at = np.linspace(0.0, 1.0, max(round(10 / width), _POINTS))
    places = np.linspace(0.0, 1.0, n_grid)
    sums, mass = (np.interp(at, places, row) for row in _convolved(grid, width))
    return float(np.abs(sums).sum() / mass.sum())


def _convolved(grid: FloatArray, width: float) -> FloatArray:
    """Return rows (rows, n) convolved with a Gaussian over a unit of length, reflected at both ends."""
    n_grid = grid.shape[1]
    kernel = np.exp(-0.5 * (np.linspace(-0.5, 0.5, n_grid) / width) ** 2)
    reflected = np.concatenate([grid[:, :0:-1], grid, grid[:, -2::-1]], axis=1)
    length = 1 << (reflected.shape[1] + n_grid - 1).bit_length()
    spectrum = np.fft.rfft(reflected, length) * np.fft.rfft(kernel, length)
    start = n_grid - 1 + n_grid // 2  # where the kernel lies within the rows, and its middle on the first point
    convolved: FloatArray = np.fft.irfft(spectrum, length)[:, start : start + n_grid]
    return convolved


def _on_grid(confidence: FloatArray, values: FloatArray, n_grid: int) -> FloatArray:
    """Return sums (rows, n_grid) of `values` (rows, n), each split between the two nearest points of the grid."""
    position = confidence * (n_grid - 1)
    below = np.clip(position.astype(np.int64), 0, n_grid - 2)
    share = position - below
    return np.stack(
        [
            np.bincount(below, row * (1 - share), minlength=n_grid)
            + np.bincount(below + 1, row * share, minlength=n_grid)
            for row in values
        ]
    )
