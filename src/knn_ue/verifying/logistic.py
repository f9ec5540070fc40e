"""A logistic regression of a few coefficients, each with a Gaussian prior that says what it usually is."""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray

_STEPS = 50
_CLOSE = 1e-9


def fit_logistic(columns: FloatArray, right: BoolArray, *, means: FloatArray, spreads: FloatArray) -> FloatArray:
    """Return the coefficients (k,) of `columns` (m, k) with the highest posterior, by damped Newton steps.

    Each coefficient is normal around its mean (k,) with its spread (k,) before any row is seen.
    """
    coefficients = means.astype(np.float64).copy()
    precision = 1.0 / spreads**2
    loss = _loss(columns, right, coefficients, means, precision)
    for _ in range(_STEPS):
        probs = sigmoid(columns @ coefficients)
        gradient = columns.T @ (probs - right) + precision * (coefficients - means)
        curvature = (columns * (probs * (1.0 - probs))[:, None]).T @ columns + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (tried := _loss(columns, right, coefficients - length * step, means, precision)) > loss + 1e-12:
            length /= 2
            if length < _CLOSE:
                return coefficients
        coefficients, loss = coefficients - length * step, tried
        if np.abs(length * step).max() < _CLOSE:
            break
    return coefficients


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-logits)), which never overflows."""
    small = np.exp(-np.abs(logits))
    probs: FloatArray = np.where(logits >= 0, 1.0, small) / (1.0 + small)
    return probs


def log_odds(probs: FloatArray, *, least: float = 1e-4) -> FloatArray:
    """Return log(p / (1 - p)), p kept `least` away from 0 and 1."""
    kept = np.clip(probs, least, 1.0 - least)
    odds: FloatArray = np.log(kept) - np.log1p(-kept)
    return odds


def _loss(
    columns: FloatArray, right: BoolArray, coefficients: FloatArray, means: FloatArray, precision: FloatArray
) -> float:
    logits = columns @ coefficients
    log_loss = np.logaddexp(0.0, np.where(right, -logits, logits)).sum()
    return float(log_loss + 0.5 * (precision * (coefficients - means) ** 2).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelLogistic:
    """`weights` (m,) and `bias` of a logistic regression on inner products with the m rows it was fitted on."""

    weights: FloatArray
    bias: float

    def predict(self, inner: FloatArray) -> FloatArray:
        """Return probabilities (n,) of rows with these inner products (n, m)."""
        return sigmoid(inner @ self.weights + self.bias)


def fit_kernel_logistic(gram: FloatArray, right: BoolArray) -> KernelLogistic:
    """Fit an L2-regularized logistic regression (C = 1, free intercept) on inner products (m, m), by Newton steps."""
    share = (np.count_nonzero(right) + 1.0) / (len(right) + 2.0)
    weights, bias = np.zeros(len(right)), float(np.log(share / (1.0 - share)))
    for _ in range(_STEPS):
        logits = gram @ weights + bias
        probs = sigmoid(logits)
        curvature = np.maximum(probs * (1.0 - probs), 1e-6)
        target = logits + (right - probs) / curvature
        solved = np.linalg.solve(gram + np.diag(1.0 / curvature), np.column_stack([target, np.ones(len(right))]))
        bias = float(solved[:, 0].sum() / solved[:, 1].sum())
        changed = solved[:, 0] - bias * solved[:, 1]
        close = np.abs(changed - weights).max() < 1e-7
        weights = changed
        if close:
            break
    return KernelLogistic(weights=weights, bias=bias)
