"""The index of a pipeline, chosen by its validation rows: index="auto" when it is fitted, `tune` afterwards."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, float_matrix
from knn_ue.calibrators import DensityAwareCalibration, KnnUE, LogitScaling
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS
from knn_ue.pipeline.answers import scored_answers
from knn_ue.pipeline.fitted import Fitted, stores_of
from knn_ue.stores import IndexOptions, index_options
from knn_ue.stores.faiss_index import check_index
from knn_ue.tuning import Tolerance, Tuning, tune_index
from knn_ue.types import Outputs

# (what is being done, how much of it, of how much)
Progress = Callable[[str, int, int | None], None]


def searches(method: str) -> bool:
    """Say whether the method looks for neighbors."""
    return issubclass(METHODS[method].calibrator, (KnnUE, DensityAwareCalibration))


def check_index_of(method: str, index: str | IndexOptions, empty: Outputs) -> None:
    """Raise where `index` could not be built or saved over features like those of `empty` outputs, without rows."""
    if searches(method):
        n_columns = _searched(method, empty).shape[1]
        check_index(index_options(index, 1, n_columns), n_columns)


def choose_index(
    method: str,
    index: str | IndexOptions,
    train: Outputs,
    validation: Outputs,
    *,
    n_neighbors: int,
    seed: int,
    progress: Progress | None,
) -> str | IndexOptions:
    """Return `index`, or what tuning chooses where it is "auto"; DAC takes for all layers what suits the last one."""
    if index != "auto" or not searches(method):
        return index
    vectors = float_matrix(_searched(method, train), "features", dtype=np.float32)
    tuning = _tune(
        method,
        vectors,
        train.require_labels("index"),
        validation,
        n_neighbors=n_neighbors,
        tolerance=Tolerance(),
        thorough=False,
        seed=seed,
        progress=progress,
    )
    return tuning.chosen


def tune_fitted(
    fitted: Fitted, *, tolerance: Tolerance, thorough: bool, progress: Progress | None
) -> tuple[LogitScaling, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet."""
    calibrator = _searching(fitted)
    vectors, labels = stores_of(calibrator)[-1].arrays()
    tuning = _tune(
        fitted.method,
        vectors,
        labels,
        fitted.validation.take(~fitted.held_out),
        n_neighbors=calibrator.n_neighbors,
        tolerance=tolerance,
        thorough=thorough,
        seed=0,
        progress=progress,
    )
    return with_index(fitted, tuning.chosen), tuning


def with_index(fitted: Fitted, index: str | IndexOptions) -> LogitScaling:
    """Return a calibrator over the same stored examples that is searched by another index, not fitted yet."""
    calibrator = _searching(fitted)
    changed = copy(calibrator)
    rebuilt = [store.reindexed(index) for store in stores_of(calibrator)]
    if isinstance(changed, KnnUE):
        changed.store = rebuilt[0]
    else:
        changed.layer_stores = rebuilt
    return changed


def _searching(fitted: Fitted) -> KnnUE | DensityAwareCalibration:
    calibrator = fitted.calibrator
    if not isinstance(calibrator, KnnUE | DensityAwareCalibration):
        raise InvalidInputError(f"{fitted.method} looks at no neighbors, so there is no index to tune")
    return calibrator


def _tune(
    method: str,
    vectors: FloatArray,
    labels: IntArray,
    validation: Outputs,
    *,
    n_neighbors: int,
    tolerance: Tolerance,
    thorough: bool,
    seed: int,
    progress: Progress | None,
) -> Tuning:
    return tune_index(
        vectors,
        labels,
        replace(validation, features=_searched(method, validation), layers=None),
        n_neighbors=n_neighbors,
        use_labels=method == "knn-ue",
        tolerance=tolerance,
        scored=scored_answers,
        thorough=thorough,
        seed=seed,
        progress=progress,
    )


def _searched(method: str, outputs: Outputs) -> FloatArray:
    """Return the features that the method searches with: in DAC, those of the last layer."""
    if issubclass(METHODS[method].calibrator, DensityAwareCalibration) and outputs.layers:
        return outputs.layers[-1]
    return outputs.require_features("index")
