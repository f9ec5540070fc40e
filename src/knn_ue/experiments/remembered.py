"""The exact neighbors of a set, searched once and kept: methods and numbers of neighbors share them."""

import hashlib
from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.demo.cache import key_of
from knn_ue.errors import StorageError
from knn_ue.experiments.cells import CellStore
from knn_ue.storage import read_folder, write_folder
from knn_ue.types import Neighbors, NeighborSearch

MOST_NEIGHBORS = 128  # the largest number that the paper tries

_KIND = "neighbors"


class RememberedSearch:
    """Answers as `store` does, which searches exactly and whose content `key` names.

    Fewer neighbors are the first of more: so one search for the most serves all.
    """

    def __init__(self, store: NeighborSearch, cells: CellStore, key: str) -> None:
        self._store, self._cells, self._key = store, cells, key
        self._n_kept = min(MOST_NEIGHBORS, len(store))

    def __len__(self) -> int:
        return len(self._store)

    def texts_of(self, ids: Sequence[int]) -> list[str | None]:
        """Return the text stored with each id, None where there is none."""
        return self._store.texts_of(ids)

    def search(self, features: FloatArray, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest stored examples of each row of `features`, padded with id -1."""
        if n_neighbors > self._n_kept:
            return self._store.search(features, n_neighbors)
        found = self._kept(np.ascontiguousarray(features))
        return Neighbors(
            ids=found.ids[:, :n_neighbors],
            distances=found.distances[:, :n_neighbors],
            labels=found.labels[:, :n_neighbors],
        )

    def _kept(self, features: FloatArray) -> Neighbors:
        content = hashlib.sha256(features.data).hexdigest()
        key = key_of(self._key, content, features.shape, features.dtype.str, self._n_kept)
        path = self._cells.work / "neighbors" / key
        with self._cells.reserved(key, wait=True):
            try:
                arrays = read_folder(path, kind=_KIND).arrays
                return Neighbors(ids=arrays["ids"], distances=arrays["distances"], labels=arrays["labels"])
            except StorageError:
                found = self._store.search(features, self._n_kept)
                arrays = {"ids": found.ids, "distances": found.distances, "labels": found.labels}
                write_folder(path, kind=_KIND, options={}, arrays=arrays)
                return found
