"""Ridge regression on inner products, with exact leave-one-out: as good for (m, d) views as for sparse ones.

Everything comes from one eigendecomposition of the (m, m) inner products K = U diag(s) U': the fit F = H Y with
H = U diag(s / (s + lambda)) U', and what a fit without row i predicts there, Y - (Y - F) / (1 - h_i), h = diag(H).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray

LAMBDAS = (0.3, 1.0, 3.0, 10.0, 30.0)  # rows have unit length on the mean
_LARGEST_LEVERAGE = 0.95  # a row that nearly determines its own fit says nothing of it when left out


@dataclass(frozen=True, kw_only=True, eq=False)
class DualRidge:
    """`weights` (m, k), with which inner products (n, m) predict k targets; `left_out` (m, k) without each row."""

    penalty: float
    weights: FloatArray
    left_out: FloatArray

    def predict(self, inner: FloatArray) -> FloatArray:
        """Return the predicted targets (n, k) of rows with these inner products (n, m)."""
        predicted: FloatArray = inner @ self.weights
        return predicted


def fit_ridge(gram: FloatArray, targets: FloatArray) -> DualRidge:
    """Fit targets (m, k) of zero mean on inner products (m, m); the penalty has the least leave-one-out error."""
    return min(ridge_path(gram, targets, LAMBDAS), key=lambda ridge: float(((targets - ridge.left_out) ** 2).sum()))


def ridge_path(gram: FloatArray, targets: FloatArray, penalties: Sequence[float]) -> list[DualRidge]:
    """Return the fit of each penalty."""
    eigenvalues, vectors = np.linalg.eigh(gram)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    turned = vectors.T @ targets
    return [_fit(eigenvalues, vectors, turned, targets, penalty) for penalty in penalties]


def _fit(
    eigenvalues: FloatArray, vectors: FloatArray, turned: FloatArray, targets: FloatArray, penalty: float
) -> DualRidge:
    kept = eigenvalues / (eigenvalues + penalty)
    leverage = np.minimum((vectors**2) @ kept, _LARGEST_LEVERAGE)
    fitted = vectors @ (kept[:, None] * turned)
    return DualRidge(
        penalty=penalty,
        weights=vectors @ (turned / (eigenvalues + penalty)[:, None]),
        left_out=targets - (targets - fitted) / (1.0 - leverage)[:, None],
    )
