"""The plain rivals of the verifier of spans, fitted on the same sentences; `evaluate` compares with them, always."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.entities import Spans
from knn_ue.verifying.logistic import fit_kernel_logistic, sigmoid
from knn_ue.verifying.probe import root_mean_square
from knn_ue.verifying.rivals import PlattScaling, fit_constant, fit_platt

CONSTANT, PLATT, DIRECT = "constant per type", "own score, Platt-scaled", "regression on (span vector, type)"


@dataclass(frozen=True, kw_only=True, eq=False)
class SpanRivals:
    """A `constant` per type (types,), the `weights` (d + types + 1,) of a logistic regression, and Platt scaling.

    The regression is on the mean word vector of a span, divided by `scale`, and its type; its bias comes last.
    """

    constant: FloatArray
    weights: FloatArray
    scale: float
    platt: PlattScaling | None = None

    def scores(self, vectors: FloatArray, spans: Spans, own: FloatArray | None = None) -> dict[str, FloatArray]:
        """Return the probability (m,) that each span is right, by the name of the rival."""
        columns = _columns(vectors, spans, len(self.constant), self.scale)
        scores = {CONSTANT: self.constant[spans.kind], DIRECT: sigmoid(columns @ self.weights[:-1] + self.weights[-1])}
        if self.platt is not None and own is not None:
            scores[PLATT] = self.platt.verdict(own)
        return scores

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of it as arrays by name."""
        arrays: dict[str, npt.NDArray[Any]] = {"constant": self.constant, "weights": self.weights}
        arrays["scale"] = np.array([self.scale])
        if (platt := self.platt) is not None:
            arrays["platt"] = np.array([platt.bias, platt.slope, platt.mean, platt.spread])
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore what `arrays` returned."""
        names = ("bias", "slope", "mean", "spread")
        found = dict(zip(names, map(float, arrays["platt"]), strict=True)) if "platt" in arrays else None
        return cls(
            constant=arrays["constant"],
            weights=arrays["weights"],
            scale=float(arrays["scale"][0]),
            platt=None if found is None else PlattScaling(**found),
        )


def fit_span_rivals(
    vectors: FloatArray, spans: Spans, right: BoolArray, n_types: int, own: FloatArray | None = None
) -> SpanRivals:
    """Fit all of them on the spans of labeled sentences; `own` (m,) is the model's own score, NaN where unknown."""
    scale = root_mean_square(vectors)
    columns = _columns(vectors, spans, n_types, scale)
    weights = np.zeros(columns.shape[1] + 1)
    if len(spans):
        found = fit_kernel_logistic(columns @ columns.T, right)
        weights = np.r_[columns.T @ found.weights, found.bias]
    known = own is not None and len(spans) and not np.isnan(own).all()
    return SpanRivals(
        constant=fit_constant(spans.kind, right, n_answers=n_types).scores if len(spans) else np.full(n_types, 0.5),
        weights=weights,
        scale=scale,
        platt=fit_platt(own, right) if known and own is not None else None,
    )


def span_means(vectors: FloatArray, spans: Spans) -> FloatArray:
    """Return the mean word vector (m, d) of each span."""
    if not len(spans):
        return np.zeros((0, vectors.shape[1]))
    bounds = np.stack((spans.first, spans.last + 1), axis=1).ravel()
    padded = np.vstack([vectors, np.zeros((1, vectors.shape[1]), dtype=vectors.dtype)]).astype(np.float64)
    means: FloatArray = np.add.reduceat(padded, bounds, axis=0)[::2] / (spans.last - spans.first + 1)[:, None]
    return means


def _columns(vectors: FloatArray, spans: Spans, n_types: int, scale: float) -> FloatArray:
    return np.hstack([span_means(vectors, spans) / scale, spans.kind[:, None] == np.arange(n_types)])
