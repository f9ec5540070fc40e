"""DAC: a temperature that grows with the distance to the neighbors in every layer. Tomani et al. (2023)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Found, LogitScaling, Stores
from knn_ue.errors import InvalidInputError
from knn_ue.stores import IndexOptions, NeighborStore, build_store
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import TemperatureMap, fit_temperature_map


class DensityAwareCalibration(LogitScaling):
    """softmax(logits / T), T = w0 + sum_l w_l s_l, all w >= 0; s_l is the mean distance to the K neighbors in layer l.

    There is one store for each layer, in the order of `Outputs.layers`; `from_layers` builds them. A layer whose
    vectors are all equal has s_l = 0 and no influence. The mean is over the neighbors that were found; where none was,
    T is infinite and the answer uniform. Tomani et al. (2023).
    """

    kind: ClassVar[str] = "dac"
    searches: ClassVar[bool] = True
    many_stores: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside one store for each slope."""

        n_neighbors: int
        temperature_map_: TemperatureMap

    temperature_map_: TemperatureMap

    def __init__(self, stores: Sequence[NeighborStore], *, n_neighbors: int = 32) -> None:
        self._layers = tuple(stores)
        self.n_neighbors = n_neighbors

    @classmethod
    def from_layers(
        cls,
        train: Outputs,
        *,
        n_neighbors: int = 32,
        index: str | IndexOptions = "exact",
        address: str | None = None,
    ) -> Self:
        """Build one store for each layer of labeled training outputs; the last one also holds the texts.

        With an `address` (see `knn_ue.stores.registry`) they are built there, each under its own name.
        """
        labels = train.require_labels("DensityAwareCalibration.from_layers")
        texts = None if train.texts is None else list(train.texts)
        queries = cls.queries(train)
        last = list(queries)[-1]
        stores = [
            build_store(
                layer,
                labels,
                texts=texts if name == last else None,
                index=index,
                address=None if address is None else f"{address}_{name}",
            )
            for name, layer in queries.items()
        ]
        return cls(stores, n_neighbors=n_neighbors)

    @property
    def stores(self) -> Stores:
        """One for each layer, the last layer's last."""
        return {_name(number): store for number, store in enumerate(self._layers)}

    def _take_stores(self, stores: Stores) -> None:
        self._layers = tuple(stores[_name(number)] for number in range(len(stores)))

    @classmethod
    def queries(cls, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the features (n, d) of each layer."""
        if not outputs.layers:
            raise InvalidInputError(
                "DAC needs the features of every layer, these Outputs have none: pass Outputs(layers=...)"
            )
        return {_name(number): layer for number, layer in enumerate(outputs.layers)}

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        labels = validation.require_labels("DensityAwareCalibration.fit")
        self.temperature_map_ = fit_temperature_map(validation.logits, labels, self._mean_distances(found))

    def _weight(self, _outputs: Outputs, found: Found, /) -> FloatArray:
        return self.temperature_map_.weight(self._mean_distances(found))

    def _mean_distances(self, found: Found) -> FloatArray:
        """Return the mean distance (n, layers) to the neighbors found, inf where none was."""
        return np.column_stack([_mean_distance(found[name]) for name in self.stores])

    def _check_restored(self) -> None:
        if not 1 <= len(self.temperature_map_.slopes) == len(self._layers):
            raise ValueError(f"it has {len(self.temperature_map_.slopes)} slopes for {len(self._layers)} stores")


def _name(layer: int) -> str:
    return f"layer{layer}"


def _mean_distance(neighbors: Neighbors) -> FloatArray:
    present = neighbors.ids >= 0
    total = np.where(present, neighbors.distances, 0.0).sum(axis=1)
    counts = present.sum(axis=1)
    mean: FloatArray = np.divide(total, counts, where=counts > 0, out=np.full(len(neighbors), np.inf))
    return mean
