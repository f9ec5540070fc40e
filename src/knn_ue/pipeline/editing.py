"""Changes to the datastores of a UE folder; where there is one a layer, in all layers at once or in none."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from knn_ue.arrays import IntArray
from knn_ue.calibrators import DensityAwareCalibration
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline.folder import save_unless_changed
from knn_ue.pipeline.pipeline import UncertaintyPipeline
from knn_ue.storage import generation_of
from knn_ue.storage.locks import locked
from knn_ue.stores import Datastore
from knn_ue.types import Outputs

Changed = TypeVar("Changed")


def add_rows(stores: Sequence[Datastore], outputs: Outputs) -> IntArray:
    """Store labelled outputs in the one datastore of a method, or in those of all layers; return their ids."""
    labels = outputs.require_labels("adding examples")
    texts = None if outputs.texts is None else list(outputs.texts)
    if len(stores) == 1:
        return stores[0].add(outputs.require_features("adding examples"), labels, texts=texts)
    *lower, last = outputs.layers or ()
    for store, layer in zip(stores[:-1], lower, strict=True):
        store.add(layer, labels)
    return stores[-1].add(last, labels, texts=texts)


def change_layers(
    path: str | Path, change: Callable[[list[Datastore]], Changed], *, pipe: UncertaintyPipeline | None = None
) -> Changed:
    """Load the UE folder `path`, let `change` alter the datastores of all layers, write them in one step.

    A journal a layer could not do it: a crash between two of them would leave layers that hold different examples.
    Where `pipe` made what is stored, the folder must still hold its model.
    """
    with locked(Path(path)):  # servers of the folder wait meanwhile, so that nobody has to begin again
        generation = generation_of(path)
        now = UncertaintyPipeline.load(path, device="cpu") if pipe is None else with_same_model(pipe, path)
        calibrator = now.calibrator_
        if not isinstance(calibrator, DensityAwareCalibration):
            raise InvalidInputError(f"{path} was fitted with {now.method_!r}, which has no datastore for each layer")
        changed = copy(calibrator)
        stores = [store.detached() for store in calibrator.stores if isinstance(store, Datastore)]
        changed.stores = stores
        result = change(stores)

        fitted = replace(now.fitted_, calibrator=changed)
        save_unless_changed(path, now.encoder, fitted, before=now.fitted_, generation=generation)
    return result


def with_same_model(pipe: UncertaintyPipeline, path: str | Path) -> UncertaintyPipeline:
    """Return what the folder `path` holds now; raise where its model is no longer that of `pipe`."""
    now = pipe.reloaded(path)
    if now.encoder is not pipe.encoder:
        raise StorageError(f"{path} was given another model meanwhile: nothing was changed, repeat it with that one")
    return now
