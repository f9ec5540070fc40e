"""The model of an encoder as a part of a UE folder: a folder of files, or a name on the hub with its commit."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from knn_ue.encoding.contract import EncoderPart
from knn_ue.encoding.model_files import ModelSource, copy_model, open_model, write_model
from knn_ue.errors import StorageError
from knn_ue.storage.schema import Within, as_written


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """The `name` of a model on the hub and its commit; both None where the UE folder holds the model."""

    name: Annotated[str, Within(1, 1000)] | None
    commit: Annotated[str, Within(1, 100)] | None


def model_plain(source: ModelSource | None) -> dict[str, Any]:
    """Return what meta.json records of where the model came from: a `HubModel`."""
    return {"name": source and source.name, "commit": source and source.commit}


def with_model(part: EncoderPart, source: ModelSource | None, write_files: Callable[[Path], None]) -> EncoderPart:
    """Add the model's files to the part: copied where they are safe, else as `write_files` fills a folder with them."""
    if source is None or (source.folder is not None and not source.is_safe):
        return replace(part, write=partial(write_model, write_files))
    if source.folder is None:
        return part
    return replace(part, folder=source.folder.parent, write=partial(copy_model, source))


def model_of(part: EncoderPart, recorded: HubModel) -> str | Path:
    """Return the folder of the model after verifying its files, or its name on the hub."""
    model = recorded.name if part.folder is None else open_model(part.folder).folder
    if model is None:
        raise StorageError(f"{part.where} names no model: restore it from a copy")
    if part.folder is None and Path(model).expanduser().exists():
        raise StorageError(
            f"{part.where} names the model {str(model)[:100]!r} on the hub, but here that is a path: open it from "
            "another working directory"
        )
    return model


def blaming_folder(part: EncoderPart) -> AbstractContextManager[None]:
    """While a model is opened: what is wrong with files of the UE folder is the fault of that folder."""
    return as_written(Path(part.where), "pipeline") if part.folder else nullcontext()


def check_commit(part: EncoderPart, recorded: HubModel, source: ModelSource | None) -> None:
    """Raise where the model on the hub is not the one that was fitted with."""
    found = source and source.commit
    if None not in (recorded.commit, found) and recorded.commit != found:
        raise StorageError(
            f"{part.where} was fitted with {recorded.name} at {recorded.commit}, which is now at {found}: fit again, "
            "or download the model to a folder and fit with that"
        )
