"""Changes to a UE folder whose method keeps one datastore a layer: made in all layers at once, or in none."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from knn_ue.calibrators import DensityAwareCalibration
from knn_ue.datastore import Datastore
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline.core import UncertaintyPipeline
from knn_ue.pipeline.folder import save_unless_changed
from knn_ue.storage import generation_of

Changed = TypeVar("Changed")


def change_layers(
    path: str | Path, change: Callable[[UncertaintyPipeline, list[Datastore]], Changed], *, device: str = "cpu"
) -> Changed:
    """Load the UE folder `path`, let `change` alter the datastores of all layers, write them in one step.

    A journal a layer could not do it: a crash between two of them would leave layers that hold different examples.
    """
    generation = generation_of(path)
    pipe = UncertaintyPipeline.load(path, device=device)
    calibrator = pipe.calibrator_
    if not isinstance(calibrator, DensityAwareCalibration):
        raise InvalidInputError(f"{path} was fitted with {pipe.method_!r}, which has no datastore for each layer")
    changed = copy(calibrator)
    stores = [store.detached() for store in calibrator.stores if isinstance(store, Datastore)]
    changed.stores = stores
    result = change(pipe, stores)

    fitted = replace(pipe.fitted_, calibrator=changed)
    save_unless_changed(path, pipe.encoder, pipe.source, fitted, before=pipe.fitted_, generation=generation)
    return result
