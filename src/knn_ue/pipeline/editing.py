"""The only way to change a UE folder: lock it, read what it holds now, change that, save it in one step."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from knn_ue.arrays import IntArray
from knn_ue.calibrators import Calibrator
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline.adjusting import with_index
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import read_fitted, replace_fitted
from knn_ue.pipeline.pipeline import UncertaintyPipeline
from knn_ue.storage import generation_of, storage_errors
from knn_ue.storage.atomic import locked
from knn_ue.stores import IndexOptions, NeighborStore, WritableStore, folder_of, tunable, writable
from knn_ue.types import Outputs

Result = TypeVar("Result")
Version = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedFolder:
    """What a UE folder held at `version`, in memory; its stores alone change, by their own journals."""

    path: Path
    version: Version
    fitted: Fitted

    def check_unchanged(self) -> None:
        """Raise if another process has written to the folder since it was read."""
        if version_of(self.path) != self.version:
            raise StorageError(f"{self.path} was changed by another process meanwhile: nothing was changed, try again")
        for store in self.fitted.calibrator.stores.values():
            if isinstance(store, WritableStore):
                store.check_unchanged()

    def is_stale(self) -> bool:
        """Whether another process has written to the folder since it was read, or it cannot be read any more."""
        try:
            self.check_unchanged()
        except (StorageError, OSError):
            return True
        return False


def version_of(path: str | Path) -> Version:
    """Return what tells two states of a folder apart; taken before it is read, a change meanwhile leaves us stale.

    A link may be turned to another folder, even to a copy: so which folder it is counts too.
    """
    generation = generation_of(path)
    place = Path(path).stat()
    return generation, place.st_dev, place.st_ino


def open_folder(path: str | Path, read: Callable[[str | Path], Fitted] = read_fitted) -> OpenedFolder:
    """Read a UE folder, without its model, in our turn: writers could otherwise outrun us forever."""
    generation_of(path)  # a folder that is not ours is refused before it is locked
    with locked(Path(path)):
        version = version_of(path)
        return OpenedFolder(path=Path(path), version=version, fitted=read(path))


def edit(
    path: str | Path,
    change: Callable[[Fitted], tuple[Fitted, Result]],
    *,
    opened: OpenedFolder | None = None,
    read: Callable[[str | Path], Fitted] = read_fitted,
) -> Result:
    """Let `change` turn what the folder holds into what it shall hold, and return its result.

    Other writers wait meanwhile. If `change` returns the record it was given, nothing is saved; any other record
    replaces the old one in one step, and an error leaves the folder as it was. Where the caller has the folder in
    memory, as `opened`, it is not read again; it is an error if it is stale.
    """
    generation_of(path)  # a folder that is not ours is refused before it is locked
    with locked(Path(path)):
        if opened is None:
            opened = open_folder(path, read)
        else:
            opened.check_unchanged()
        changed, result = change(opened.fitted)
        if changed is not opened.fitted:
            _replace(opened, changed)
    return result


def edit_stores(
    path: str | Path,
    change: Callable[[Calibrator], Result],
    *,
    opened: OpenedFolder | None = None,
    read: Callable[[str | Path], Fitted] = read_fitted,
) -> Result:
    """Let `change` alter the stores of a calibrator: a single one in place, several all together or not at all.

    Several journals could not do it: a crash between two of them would leave stores that hold different examples. So
    copies are changed, and the folder is saved with them in one step.
    """

    def changed(fitted: Fitted) -> tuple[Fitted, Result]:
        calibrator = _changeable(fitted)
        result = change(calibrator)
        return (fitted if calibrator is fitted.calibrator else replace(fitted, calibrator=calibrator)), result

    return edit(path, changed, opened=opened, read=read)


def save_tuned(opened: OpenedFolder, calibrator: Calibrator, index: IndexOptions) -> None:
    """Fit and save a `calibrator` whose stores were given another `index` since the folder was opened.

    Where servers stored examples meanwhile, the index is built over those too.
    """
    tuned = refit(opened.fitted, calibrator)
    with locked(opened.path):
        if not opened.is_stale():
            edit(opened.path, lambda _: (tuned, None), opened=opened)
        else:
            edit(opened.path, lambda now: (refit(now, with_index(now, index)), None))


def add_rows(calibrator: Calibrator, outputs: Outputs) -> IntArray:
    """Store labeled outputs in every store of a calibrator and return their ids; the last store holds the texts."""
    labels = outputs.require_labels("adding examples")
    texts = None if outputs.texts is None else list(outputs.texts)
    queries = calibrator.queries(outputs)
    stores = {name: writable(store) for name, store in calibrator.stores.items()}
    *others, last = stores
    for name in others:
        stores[name].add(queries[name], labels)
    return stores[last].add(queries[last], labels, texts=texts)


def remove_rows(stores: Iterable[NeighborStore], ids: Sequence[int]) -> None:
    """Forget examples by id in every store; an unknown id is an error."""
    for store in [writable(store) for store in stores]:
        store.remove(ids)


def compact_stores(stores: Iterable[NeighborStore]) -> None:
    """Rebuild the index of every store over what it holds now."""
    for store in [tunable(store) for store in stores]:
        store.compact()


def with_same_model(pipe: UncertaintyPipeline, path: str | Path) -> UncertaintyPipeline:
    """Return what the folder `path` holds now; raise where its model is no longer that of `pipe`."""
    now = pipe.reloaded(path)
    if now.encoder is not pipe.encoder:
        raise StorageError(f"{path} was given another model meanwhile: nothing was changed, repeat it with that one")
    return now


def _changeable(fitted: Fitted) -> Calibrator:
    """Return the calibrator itself where it has one store, else one over copies that only a save makes durable."""
    calibrator = fitted.calibrator
    if not calibrator.stores:
        raise InvalidInputError(f"{fitted.method} stores no examples: fit with knn-ue to store some")
    if len(calibrator.stores) == 1:
        return calibrator
    copies = {name: store.snapshot() for name, store in calibrator.stores.items()}
    for name, store in calibrator.stores.items():
        if copies[name] is store:
            raise InvalidInputError(
                f"the {len(copies)} stores of {fitted.method} must change together, which {store.where!r} cannot: fit "
                "again with other training rows"
            )
    return calibrator.with_stores(copies)


def _replace(opened: OpenedFolder, fitted: Fitted) -> None:
    """Save `fitted` in the place of what was opened; raise where another process changed the folder.

    Until the new folder is committed nobody else may write to the stores it replaces: an example acknowledged between
    the check and the commit would be lost.
    """
    folders = {folder_of(store) for store in opened.fitted.calibrator.stores.values()}
    with ExitStack() as stack:
        with storage_errors(
            f"{opened.path} was changed by another process meanwhile", "nothing was changed, try again"
        ):
            # Always the whole before its parts: two writers with one of them each would wait forever.
            for folder in (opened.path, *sorted(folder for folder in folders if folder is not None)):
                stack.enter_context(locked(folder))
        same = fitted.calibrator is opened.fitted.calibrator
        replace_fitted(opened.path, fitted, precondition=opened.check_unchanged, same_calibrator=same)
