"""What calibrators have in common that search one store with the features of the rows."""

from collections.abc import Mapping
from typing import ClassVar, Self

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import LogitScaling, Stores
from knn_ue.stores import NeighborStore
from knn_ue.types import Outputs

STORE = "store"


class OneStoreScaling(LogitScaling):
    """A weight for each row from its nearest examples in `store`."""

    searches: ClassVar[bool] = True

    store: NeighborStore

    @property
    def stores(self) -> Stores:
        """Its one store."""
        return {STORE: self.store}

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy that searches this store; what was fitted is kept."""
        changed = super().with_stores(stores)
        changed.store = stores[STORE]
        return changed

    @classmethod
    def queries(cls, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the features (n, d)."""
        return {STORE: outputs.require_features(cls.__name__)}
