"""One exact search serves all methods: the neighbors of a set are found once, as many as any table asks for.

In tagging an exact search is most of the work of a cell, and seven cells of a seed make the same one.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.demo.cache import key_of
from knn_ue.folder import Part
from knn_ue.stores import TunableStore
from knn_ue.types import Neighbors
from knn_ue_lab.reproduce.cells import CellName, CellStore

MOST = 128  # the largest number of neighbors in the paper; fewer are the first of these


class SharedSearch:
    """An exact datastore whose findings are kept beside the arrays of cells, under the content of both sides.

    What times are measured of must search for itself.
    """

    def __init__(self, store: TunableStore, kept: CellStore, setup: str) -> None:
        self.store, self.kept, self.setup = store, kept, setup

    def __len__(self) -> int:
        return len(self.store)

    @property
    def where(self) -> str:
        """Where the datastore is."""
        return self.store.where

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return self.store.n_columns

    def texts_of(self, ids: Sequence[int] | npt.NDArray[Any]) -> list[str | None]:
        """Return the text stored with each id."""
        return self.store.texts_of(ids)

    def vectors_of(self, ids: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return the vectors of ids."""
        return self.store.vectors_of(ids)

    def normalized(self, features: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return features as the datastore compares them."""
        return self.store.normalized(features)

    def to_part(self) -> Part:
        """Return what a folder holds of the datastore, without what was found."""
        return self.store.to_part()

    def detached(self) -> "SharedSearch":
        """Return itself: nobody changes it."""
        return self

    def search(self, features: npt.NDArray[Any], n_neighbors: int) -> Neighbors:
        """Return the nearest stored examples, found now or before."""
        most = min(MOST, len(self.store))
        if n_neighbors > most:
            return self.store.search(features, n_neighbors)
        name = CellName(self.setup, "neighbors", self._key)
        part = _digest(features)
        with self.kept.reserved(key_of(name.key, part), wait=True):
            arrays = self.kept.read_arrays(name, part)
            if arrays is None:
                found = self.store.search(features, most)
                arrays = {"ids": found.ids, "distances": found.distances, "labels": found.labels}
                self.kept.write_arrays(name, part, arrays)
        ids, distances, labels = (arrays[field][:, :n_neighbors] for field in ("ids", "distances", "labels"))
        return Neighbors(ids=ids, distances=distances, labels=labels)

    @cached_property
    def _key(self) -> str:
        vectors, labels = self.store.arrays()
        return key_of(_digest(vectors), _digest(labels), _digest(self.store.ids))


def _digest(values: npt.NDArray[Any]) -> str:
    array = np.ascontiguousarray(values)
    content = hashlib.sha256(array.view(np.uint8).reshape(-1).data)
    return key_of(content.hexdigest(), str(array.dtype), array.shape)
