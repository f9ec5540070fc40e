"""index="auto" in a pipeline: chosen by the validation rows, where the method searches at all."""

from dataclasses import replace

import numpy as np

from knn_ue.arrays import float_matrix
from knn_ue.calibrators import DensityAwareCalibration, KnnUE
from knn_ue.datastore import IndexOptions
from knn_ue.methods import METHODS
from knn_ue.pipeline.answers import scored_answers
from knn_ue.tuning import Tuning, tune_index
from knn_ue.tuning.choose import Progress
from knn_ue.types import Outputs


def searches(method: str) -> bool:
    """Say whether the method looks for neighbors."""
    return issubclass(METHODS[method].calibrator, (KnnUE, DensityAwareCalibration))


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
    if issubclass(METHODS[method].calibrator, DensityAwareCalibration):
        train, validation = _last_layer(train), _last_layer(validation)
    return tune_outputs(
        train, validation, n_neighbors=n_neighbors, use_labels=method == "knn-ue", seed=seed, progress=progress
    ).chosen


def tune_outputs(
    train: Outputs,
    validation: Outputs,
    *,
    n_neighbors: int,
    use_labels: bool,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuning:
    """Tune over training outputs; an answer is what the user is given, entities in tagging."""
    vectors = float_matrix(train.require_features("index"), "features", dtype=np.float32)
    return tune_index(
        vectors,
        train.require_labels("index"),
        validation,
        n_neighbors=n_neighbors,
        use_labels=use_labels,
        scored=scored_answers,
        seed=seed,
        progress=progress,
    )


def _last_layer(outputs: Outputs) -> Outputs:
    return replace(outputs, features=None if outputs.layers is None else outputs.layers[-1], layers=None)
