"""Structured vector and matrix scaling: an affine map of the logits, shrunk towards temperature scaling.

With z the logits after temperature scaling, k classes and n validation rows, W and b minimize the mean log-loss of
softmax(z + W z + b) + (k / n) |b|^2 + (k / n) |diag W|^2 + (k (k - 1) / n) |off-diagonal W|^2. Berta et al. (2026).

The authors' package probmetrics takes as z the log of the tempered probabilities (mixed with 1 / (n + 1) of an even
distribution); we take logits / T, centered in each row. W and the penalties see the difference: scores are near, not
equal.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.folder import ArrayRule
from knn_ue.types import Outputs
from knn_ue.weighting import Temperature, fit_temperature

_LARGEST = 1e30


class _AffineScaling(Calibrator):
    """softmax(z + W z + b) of tempered, centered logits z; a subclass says which of W may differ from 0."""

    keeps_prediction: ClassVar[bool] = False

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays."""

        temperature_: Temperature

    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "matrix_": ArrayRule(dtype=np.float64, shape=("classes", "classes"), least=-_LARGEST, most=_LARGEST),
        "bias_": ArrayRule(dtype=np.float64, shape=("classes",), least=-_LARGEST, most=_LARGEST),
    }

    temperature_: float
    matrix_: FloatArray
    bias_: FloatArray

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        labels = validation.require_labels(f"{type(self).__name__}.fit")
        self.temperature_ = fit_temperature(validation.logits, labels)
        self.matrix_, self.bias_ = fit_affine(
            self._tempered(validation), labels, free=self._free_entries(validation.n_classes)
        )

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        tempered = self._tempered(outputs)
        return softmax(tempered + tempered @ self.matrix_.T + self.bias_)

    def _tempered(self, outputs: Outputs) -> FloatArray:
        """Return logits / T with mean 0 in each row: adding a number to all logits of a row must change nothing."""
        tempered = outputs.logits.astype(np.float64) / self.temperature_
        centered: FloatArray = tempered - tempered.mean(axis=1, keepdims=True)
        return centered

    @classmethod
    @abstractmethod
    def _free_entries(cls, n_classes: int) -> FloatArray:
        """Return 1 where W (k, k) may differ from 0, else 0."""


class VectorScaling(_AffineScaling):
    """Structured vector scaling: W is diagonal, one scale and one bias for each class."""

    kind: ClassVar[str] = "vector-scaling"

    @classmethod
    def _free_entries(cls, n_classes: int) -> FloatArray:
        return np.eye(n_classes)


class MatrixScaling(_AffineScaling):
    """Structured matrix scaling: W is full, its off-diagonal entries are shrunk the most."""

    kind: ClassVar[str] = "matrix-scaling"

    @classmethod
    def _free_entries(cls, n_classes: int) -> FloatArray:
        return np.ones((n_classes, n_classes))


def fit_affine(logits: FloatArray, labels: IntArray, *, free: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return W (k, k), 0 where `free` is 0, and b (k,) that minimize the penalized log-loss; the problem is convex."""
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    diagonal = n_classes / n_rows
    off_diagonal = n_classes * (n_classes - 1) / n_rows
    penalty = np.where(np.eye(n_classes) > 0, diagonal, off_diagonal)
    rows = np.arange(n_rows)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        matrix, bias = flat[: n_classes**2].reshape(n_classes, n_classes) * free, flat[n_classes**2 :]
        moved = logits + logits @ matrix.T + bias
        probs = softmax(moved)
        value = -np.log(np.maximum(probs[rows, labels], 1e-300)).mean()
        value += (penalty * matrix**2).sum() + diagonal * (bias**2).sum()
        residual = probs
        residual[rows, labels] -= 1.0
        slope = residual.T @ logits / n_rows + 2 * penalty * matrix
        bias_slope = residual.mean(axis=0) + 2 * diagonal * bias
        return float(value), np.concatenate([(slope * free).ravel(), bias_slope])

    start = np.zeros(n_classes**2 + n_classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "gtol": 1e-8, "ftol": 1e-13})
    best = found.x if found.fun <= loss(start)[0] else start
    return best[: n_classes**2].reshape(n_classes, n_classes) * free, best[n_classes**2 :]
