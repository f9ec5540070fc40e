"""How near rows are to others: the mean of exp(-squared distance / d) over the 10 nearest, features standardized.

Xiong et al. (2023) measure it for ProCal and for PIECE (`metrics.proximity`).
"""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs

_NEIGHBORS = 10
_BLOCK = 512  # rows at a time: (rows, known rows) matrices stay small
_EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class ProximitySpace:
    """Rows that others are near to or far from: their features `standardized` (n, d) by `center` and `scale` (d,)."""

    center: FloatArray
    scale: FloatArray
    standardized: FloatArray

    @classmethod
    def measure(cls, known: Outputs) -> "ProximitySpace":
        """Return the space of the features of these rows."""
        features = known.require_features("proximity").astype(np.float64)
        center, scale = features.mean(axis=0), np.sqrt(features.var(axis=0) + _EPSILON)
        return cls(center=center, scale=scale, standardized=((features - center) / scale).astype(np.float32))

    def proximity(self, outputs: Outputs) -> FloatArray:
        """Return how near each row (n,) is to the rows of the space: in [0, 1], higher is nearer."""
        features = outputs.require_features("proximity")
        if features.shape[1] != len(self.center):
            raise InvalidInputError(
                f"features must have {len(self.center)} columns, got {features.shape[1]}: use the same encoder"
            )
        return self._proximity(((features - self.center) / self.scale).astype(np.float32), skip_self=False)

    def proximity_to_others(self) -> FloatArray:
        """Return how near each row of the space (rows,) is to the other ones."""
        return self._proximity(self.standardized, skip_self=True)

    def _proximity(self, queries: FloatArray, *, skip_self: bool) -> FloatArray:
        rows = self.standardized.astype(np.float64)
        n_kept = max(1, min(_NEIGHBORS, len(rows) - skip_self))
        norms = (rows**2).sum(axis=1)
        found = np.empty(len(queries))
        for start in range(0, len(queries), _BLOCK):
            part = queries[start : start + _BLOCK].astype(np.float64)
            squared = np.maximum((part**2).sum(axis=1)[:, None] + norms - 2 * part @ rows.T, 0.0)
            if skip_self and len(rows) > 1:
                squared[np.arange(len(part)), start + np.arange(len(part))] = np.inf
            nearest = np.partition(squared, n_kept - 1, axis=1)[:, :n_kept]
            found[start : start + _BLOCK] = np.exp(-nearest / rows.shape[1]).mean(axis=1)
        return found
