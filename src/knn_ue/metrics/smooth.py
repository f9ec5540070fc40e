"""Smooth calibration error: a calibration error without bins. Blasiok and Nakkiran (2023)."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

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
    values = np.stack([residual * weights, weights])
    spectra: dict[int, npt.NDArray[np.complex128]] = {}  # most widths share one grid
    smaller, larger = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (smaller + larger) / 2
        if middle < _LEAST or middle < _smoothed(confidence, values, middle, spectra):
            smaller = middle
        else:
            larger = middle
    return _smoothed(confidence, values, larger, spectra)


def _smoothed(
    confidence: FloatArray, values: FloatArray, width: float, spectra: dict[int, npt.NDArray[np.complex128]]
) -> float:
    """Return the integral over [0, 1] of the absolute value of the smoothed residuals, per unit of weight.

    `values` (2, n) are weighted residuals and weights; `spectra` keeps their transform for each size of the grid.
    """
    n_grid = max(2000, round(20 / width)) // 2 + 1
    if n_grid not in spectra:
        grid = _on_grid(confidence, values, n_grid)
        reflected = np.concatenate([grid[:, :0:-1], grid, grid[:, -2::-1]], axis=1)
        spectra[n_grid] = np.fft.rfft(reflected, _length(n_grid))
    start = n_grid - 1 + n_grid // 2  # where the kernel lies within the rows, and its middle on the first point
    convolved = np.fft.irfft(spectra[n_grid] * _kernel(n_grid, width), _length(n_grid))[:, start : start + n_grid]
    at = np.linspace(0.0, 1.0, max(round(10 / width), _POINTS))
    places = np.linspace(0.0, 1.0, n_grid)
    sums, mass = (np.interp(at, places, row) for row in convolved)
    return float(np.abs(sums).sum() / mass.sum())


@lru_cache(maxsize=64)  # halving meets the same widths again and again
def _kernel(n_grid: int, width: float) -> npt.NDArray[np.complex128]:
    """Return the transform of a Gaussian over a unit of length, for rows reflected at both ends."""
    kernel = np.exp(-0.5 * (np.linspace(-0.5, 0.5, n_grid) / width) ** 2)
    spectrum = np.fft.rfft(kernel, _length(n_grid))
    spectrum.flags.writeable = False
    return spectrum


def _length(n_grid: int) -> int:
    """Return a length for transforms that holds the reflected rows and the kernel: a power of two."""
    return 1 << (4 * n_grid - 3).bit_length()


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
