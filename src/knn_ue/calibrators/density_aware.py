"""DAC: a temperature that grows with the distance to the neighbors in every layer. Tomani et al. (2023)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import FloatArray, check_positive
from knn_ue.calibrators.base import LogitScaling, SavedState, search_for_fit
from knn_ue.calibrators.contract import Found, Stores
from knn_ue.errors import InvalidInputError
from knn_ue.storage import FolderContent
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.types import Neighbors, NeighborSearch, Outputs
from knn_ue.weighting import TemperatureMap, fit_temperature_map


class DensityAwareCalibration(LogitScaling):
    """softmax(logits / T), T = w0 + sum_l w_l s_l, all w >= 0; s_l is the mean distance to the K neighbors in layer l.

    `stores` holds one datastore a layer, in the order of `Outputs.layers`; `from_layers` builds them. A layer whose
    vectors are all alike has s_l = 0 and no influence. The mean is over the neighbors that were found; where none was,
    T is infinite and the answer uniform.
    """

    kind: ClassVar[str] = "dac"

    temperature_map_: TemperatureMap

    def __init__(self, stores: Sequence[NeighborSearch], *, n_neighbors: int = 32) -> None:
        self.layer_stores = stores
        self.n_neighbors = n_neighbors

    @classmethod
    def from_layers(cls, train: Outputs, *, n_neighbors: int = 32, index: str | IndexOptions = "exact") -> Self:
        """Build one datastore for each layer of labelled training outputs; the last one also holds the texts."""
        labels = train.require_labels("DensityAwareCalibration.from_layers")
        *lower, last = _layers_of(train)
        texts = None if train.texts is None else list(train.texts)
        stores = [Datastore.build(layer, labels, index=index) for layer in lower]
        stores.append(Datastore.build(last, labels, texts=texts, index=index))
        return cls(stores, n_neighbors=n_neighbors)

    def _fit(self, validation: Outputs) -> None:
        check_positive(self.n_neighbors, "n_neighbors")
        labels = validation.require_labels("DensityAwareCalibration.fit")
        layers = self._checked_layers(validation)
        found = [
            search_for_fit(store, layer, self.n_neighbors)
            for store, layer in zip(self.layer_stores, layers, strict=True)
        ]
        self.temperature_map_ = fit_temperature_map(validation.logits, labels, _mean_distances(found))

    @property
    def stores(self) -> Stores:
        """The store of each layer."""
        return {f"layer{number}": store for number, store in enumerate(self.layer_stores)}

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy that searches these stores; what was fitted is kept."""
        changed = super().with_stores(stores)
        changed.layer_stores = list(stores.values())
        return changed

    def queries(self, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the features (n, d) of each layer."""
        return dict(zip(self.stores, self._checked_layers(outputs), strict=True))

    def _weight(self, _outputs: Outputs, found: Found, /) -> FloatArray:
        return self.temperature_map_.weight(_mean_distances(list(found.values())))

    def _checked_layers(self, outputs: Outputs) -> Sequence[FloatArray]:
        layers = _layers_of(outputs)
        if len(layers) != len(self.layer_stores):
            raise InvalidInputError(
                f"there are {len(self.layer_stores)} stores but {len(layers)} layers: pass the same layers"
            )
        return layers

    def _state(self) -> SavedState:
        fitted = self.temperature_map_
        return SavedState(
            options={"n_neighbors": self.n_neighbors, "intercept": fitted.intercept, "slopes": fitted.slopes},
            stores=self.stores,
        )

    @classmethod
    def _from_stored(cls, stored: FolderContent, stores: dict[str, Datastore]) -> Self:
        options = stored.options
        ordered = [stores[f"layer{number}"] for number in range(len(stores))]
        calibrator = cls(ordered, n_neighbors=options["n_neighbors"])
        calibrator.temperature_map_ = TemperatureMap(
            intercept=float(options["intercept"]), slopes=tuple(map(float, options["slopes"]))
        )
        return calibrator


def _layers_of(outputs: Outputs) -> Sequence[FloatArray]:
    if not outputs.layers:
        raise InvalidInputError(
            "DAC needs the features of every layer, these Outputs have none: pass Outputs(layers=...)"
        )
    return outputs.layers


def _mean_distances(found: Sequence[Neighbors]) -> FloatArray:
    """Return the mean distance (n, layers) to the neighbors found, inf where none was."""
    columns = []
    for neighbors in found:
        present = neighbors.ids >= 0
        total = np.where(present, neighbors.distances, 0.0).sum(axis=1)
        counts = present.sum(axis=1)
        columns.append(np.divide(total, counts, where=counts > 0, out=np.full(len(neighbors), np.inf)))
    return np.column_stack(columns)
