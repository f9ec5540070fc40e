"""The distance to the k-th nearest training row, features of length 1. Sun et al. (2022)."""

import numpy as np

from knn_ue.arrays import FloatArray, check_positive
from knn_ue.detection.contract import Detector
from knn_ue.stores import Datastore
from knn_ue.types import Outputs


class NearestNeighbor(Detector):
    """Minus the distance to the `n_neighbors`-th nearest training row, of all of them where there are fewer."""

    def __init__(self, *, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _fit(self, train: Outputs, /) -> None:
        check_positive(self.n_neighbors, "n_neighbors")
        features = unit_rows(train.require_features("NearestNeighbor"))
        self._store = Datastore.build(features, np.zeros(len(features), dtype=np.int64), index="exact")

    def _score(self, outputs: Outputs, /) -> FloatArray:
        queries = unit_rows(outputs.require_features("NearestNeighbor"))
        found = self._store.search(queries, min(self.n_neighbors, len(self._store)))
        return -np.asarray(found.distances[:, -1])


def unit_rows(features: FloatArray) -> FloatArray:
    """Return the rows (n, d) with length 1; a row of zeros stays."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    scaled: FloatArray = np.divide(features, length, out=np.zeros_like(features), where=length > 0)
    return scaled
