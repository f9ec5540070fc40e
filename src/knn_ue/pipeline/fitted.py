"""What `fit` leaves behind: one frozen record, which is also what a UE folder holds beside the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, read_only
from knn_ue.calibrators import DensityAwareCalibration, KnnUE, LogitScaling
from knn_ue.calibrators.contract import Found
from knn_ue.decisions import Decision, RiskThreshold
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors, NeighborSearch, Outputs

_LEVELS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftQuantiles:
    """How near and how agreeing the neighbors of the validation rows are: what later inputs are compared with.

    `distance` (101,) and `agreement` (101,) are the percentiles 0 .. 100 of the mean distance to the neighbors found,
    infinite where none was, and of the share of all neighbors asked for that carry the predicted label.
    """

    distance: FloatArray
    agreement: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A fitted pipeline without its model.

    `validation` are the outputs of all validation rows; `held_out` (n,) marks those kept for the `decisions`, which the
    calibrator has not seen. `drift` is None where the method has no neighbors.
    """

    method: str
    calibrator: LogitScaling
    validation: Outputs
    held_out: BoolArray
    decisions: tuple[Decision, ...]
    drift: DriftQuantiles | None

    @property
    def threshold(self) -> RiskThreshold | None:
        """The decision that keeps a target risk; None where no risk was named."""
        return next((found for found in self.decisions if isinstance(found, RiskThreshold)), None)


def store_of(calibrator: LogitScaling) -> NeighborSearch | None:
    """Return the datastore in which answers find their neighbors, None where the method has none."""
    if isinstance(calibrator, KnnUE):
        return calibrator.store
    if isinstance(calibrator, DensityAwareCalibration):
        return calibrator.layer_stores[-1]
    return None


def stores_of(calibrator: LogitScaling) -> list[Datastore]:
    """Return every datastore of the calibrator, one a layer in DAC."""
    found: Sequence[NeighborSearch] = []
    if isinstance(calibrator, KnnUE):
        found = [calibrator.store]
    elif isinstance(calibrator, DensityAwareCalibration):
        found = calibrator.layer_stores
    return [store for store in found if isinstance(store, Datastore)]


def shown_neighbors(found: Found) -> Neighbors | None:
    """Return the neighbors that answers show, of all that was `found`: those of the last store."""
    return next(reversed(list(found.values())), None)


def search_neighbors(calibrator: LogitScaling, outputs: Outputs, n_neighbors: int) -> Neighbors | None:
    """Return the nearest training examples of each row; in DAC those of its last layer."""
    store = store_of(calibrator)
    if store is None:
        return None
    by_layer = isinstance(calibrator, DensityAwareCalibration) and outputs.layers
    features = outputs.layers[-1] if by_layer and outputs.layers else outputs.require_features("neighbors")
    return store.search(features, n_neighbors)


def closeness(neighbors: Neighbors, predicted: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what drift is measured by: the mean distance (n,) to the neighbors found, inf where none was, and the
    share (n,) of all neighbors asked for that carry the `predicted` label."""
    found = neighbors.ids >= 0
    total = np.where(found, neighbors.distances, 0.0).sum(axis=1)
    n_found = found.sum(axis=1)
    distance = np.divide(total, n_found, out=np.full(len(total), np.inf), where=n_found > 0)
    return distance, (neighbors.labels == predicted[:, None]).mean(axis=1)


def drift_quantiles(calibrator: LogitScaling, validation: Outputs) -> DriftQuantiles | None:
    """Return the percentiles over the validation rows, None where the method looks at no neighbors."""
    n_neighbors: int = getattr(calibrator, "n_neighbors", 0)
    neighbors = search_neighbors(calibrator, validation, n_neighbors)
    if neighbors is None:
        return None
    distance, agreement = closeness(neighbors, validation.predicted)
    # Percentiles are values of rows, without interpolation, which between two infinite ones is undefined.
    return DriftQuantiles(
        distance=read_only(np.quantile(distance, _LEVELS, method="inverted_cdf")),
        agreement=read_only(np.quantile(agreement, _LEVELS, method="inverted_cdf")),
    )
