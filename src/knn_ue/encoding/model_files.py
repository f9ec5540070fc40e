"""The model inside a UE folder: its files copied or linked, each with size and SHA-256, and verified when opened.

model.<generation>/meta.json    the record of the files
model.<generation>/files/       config.json, model.safetensors, tokenizer.json, ... under their own names
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.errors import StorageError
from knn_ue.storage import fingerprint, read_folder, storage_errors, write_folder
from knn_ue.storage.atomic import sync, sync_tree
from knn_ue.storage.schema import Within, as_written, read_plain

KIND = "model"
RECORD = "knn_ue_training.json"  # how a model of ours was trained, beside its weights
_FILES = "files"
_SAFE = ".safetensors"
_INDEX, _BIN_INDEX = ".safetensors.index.json", ".bin.index.json"
_HEAD_FILE = "knn_ue_head.safetensors"  # of heads/files.py, which needs torch
# States of a training run and weights for other frameworks: transformers reads none of them to predict.
_NOT_NEEDED = {".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".ckpt"}
_NOT_NEEDED_NAMES = {"training_args.bin", "optimizer.bin", "scheduler.bin", "trainer_state.json"}
# Pickles, and files that make transformers look for weights elsewhere: never in a UE folder.
_NEVER = _NOT_NEEDED | {".bin", ".pkl", ".pickle", ".gguf"}
_NEVER_NAMES = {"adapter_config.json"}
# A hard link takes no space, but changes with the original where that is written in place. Small files, which people
# edit, are copied; weights are linked, and their checksum tells if someone wrote over them.
_COPIED_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a pipeline's model came from: the `name` of a model on the hub, with its commit, or a `folder`.

    `state` are the names, sizes and times of the folder's files when the model was loaded; it `is_safe` where its
    weights are safetensors, and not a pickle.
    """

    name: str | None = None
    commit: str | None = None
    folder: Path | None = None
    state: tuple[tuple[str, int, int], ...] = ()
    is_safe: bool = False

    @classmethod
    def of(cls, path: str | Path) -> "ModelSource":
        """Return the source of a model about to be loaded from `path`: a folder if there is one, else the hub."""
        folder = Path(path).expanduser()
        if not folder.is_dir():
            return cls(name=str(path))
        state = _state(folder)
        names = {name for name, _, _ in state}
        is_safe = _has_safe_weights(names)
        for name in names:
            if name.endswith((_INDEX,) if is_safe else (_INDEX, _BIN_INDEX)):
                _check_index(folder / name, names)
        return cls(folder=folder.resolve(), state=state, is_safe=is_safe)


@dataclass(frozen=True, kw_only=True)
class _StoredFile:
    """What is recorded of a file."""

    size: Annotated[int, Within(0, 1 << 62)]
    sha256: Annotated[str, Within(64, 64)]


@dataclass(frozen=True, kw_only=True)
class _StoredModel:
    """What the meta.json of a model's folder holds: its files by name."""

    files: dict[str, _StoredFile]


@dataclass(frozen=True, kw_only=True)
class _TrainingRecord:
    """What our own parts of a training record may be; the rest is for people."""

    method: Annotated[str, Within(1, 100)]
    task: Annotated[str, Within(1, 100)] | None = None


def read_record(path: str | Path) -> dict[str, Any] | None:
    """Return how the model in the folder was trained; None where it is not one of ours, such as a hub name."""
    file = Path(path) / RECORD
    if not file.is_file():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{file} cannot be read ({error}): restore it, or retrain the model") from None
    if not isinstance(record, dict) or not isinstance(record.get("method"), str):
        raise StorageError(f"{file} names no method: restore it, or retrain the model")
    with as_written(file, "training record"):
        read_plain(_TrainingRecord, {key: record[key] for key in ("method", "task") if key in record})
    return record


def copy_model(source: ModelSource, target: Path) -> str:
    """Write the model to the new folder `target` and return its identity."""
    folder = source.folder
    assert folder is not None
    names = [name for name, _, _ in source.state]
    _check_unchanged(source)
    identity = write_folder(
        target,
        kind=KIND,
        # The source may be a link, as in the hub's cache; our own copy never is.
        options={"files": {name: fingerprint((folder / name).resolve()) for name in names}},
        arrays={},
    )
    (target / _FILES).mkdir()
    for name in names:
        copy = target / _FILES / name
        if (folder / name).stat().st_size > _COPIED_BYTES:
            with suppress(OSError):  # another disk, or a file system without links
                os.link((folder / name).resolve(), copy)
        if not copy.exists():
            shutil.copyfile(folder / name, copy)
    sync_tree(target)  # linked files too: their owner may never have asked the disk to keep them
    _check_unchanged(source)
    return identity


def write_model(write: Callable[[Path], None], target: Path) -> str:
    """Let `write` fill the new folder `target` with a model that is only in memory, and return its identity."""
    files = target.parent / f"{target.name}.{_FILES}"  # write_folder makes the folder itself
    files.mkdir()
    try:
        write(files)
        names = [name for name, _, _ in _state(files)]
        sync_tree(files)  # before anything names them
        sync(files.parent)
        recorded = {name: fingerprint(files / name) for name in names}
        identity = write_folder(target, kind=KIND, options={"files": recorded}, arrays={})
        files.rename(target / _FILES)
    except BaseException:
        shutil.rmtree(files, ignore_errors=True)
        raise
    sync_tree(target)
    return identity


def open_model(path: Path) -> ModelSource:
    """Return the model in the folder `path` after verifying every file; a file more or less is refused."""
    stored = read_folder(path, kind=KIND)
    with as_written(path, KIND):
        recorded = read_plain(_StoredModel, stored.options).files
    folder = path / _FILES
    if folder.is_symlink() or not folder.is_dir():
        raise StorageError(f"{path} does not hold a model written by knn-ue: restore it from a backup")
    present = {entry.name for entry in folder.iterdir()}
    if present != set(recorded):
        name = min(present ^ set(recorded))
        raise StorageError(f"{folder} should {'not ' if name in present else ''}hold {name}: restore it from a backup")
    strange = next((name for name in recorded if name in _NEVER_NAMES or Path(name).suffix in _NEVER), None)
    if strange is not None or not _has_safe_weights(recorded):
        raise StorageError(
            f"{folder} must hold its weights as safetensors, and no {strange or 'other ones'}: do not trust this folder"
        )
    for name, expected in recorded.items():
        if (folder / name).is_symlink() or fingerprint(folder / name) != asdict(expected):
            raise StorageError(f"{folder / name} does not match its checksum: it was altered; restore it from a backup")
    return ModelSource.of(folder)


def _check_index(path: Path, names: set[str]) -> None:
    """Raise unless the index of sharded weights names files of its folder only."""
    with as_written(path, "list of weights"):
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        outside = sorted(str(name)[:100] for name in set(weight_map.values()) - names)
    if outside:
        raise StorageError(
            f"{path} names weights that are not in its folder ({outside[0]}): give a folder that save_pretrained wrote"
        )


def _has_safe_weights(names: Iterable[str]) -> bool:
    return any(Path(name).suffix == _SAFE and name != _HEAD_FILE for name in names)


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    with storage_errors(f"{folder} cannot be read", "check its permissions"):
        files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        safe = _has_safe_weights(path.name for path in files)
        kept = [
            path
            for path in files
            if path.suffix not in _NOT_NEEDED
            and path.name not in _NOT_NEEDED_NAMES
            and not (safe and path.suffix == ".bin")  # the same weights as a pickle
        ]
        found = [(path.name, path.stat()) for path in sorted(kept)]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def _check_unchanged(source: ModelSource) -> None:
    assert source.folder is not None
    gone = not source.folder.is_dir()
    if gone or _state(source.folder) != source.state:
        raise StorageError(
            f"the model in {source.folder} was {'removed' if gone else 'changed'} after it was loaded, so it cannot be "
            "saved with what was fitted: load it again and fit"
        )


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """The `name` of a model on the hub and its commit; both None where the UE folder holds the model."""

    name: Annotated[str, Within(1, 1000)] | None
    commit: Annotated[str, Within(1, 100)] | None


class WithSource(Protocol):
    """An encoder that knows where its model came from."""

    source: ModelSource | None


ModelEncoder = TypeVar("ModelEncoder", bound=WithSource)


def part_with_model(
    encoder: Encoder, source: ModelSource | None, write_files: Callable[[Path], None], **plain: object
) -> EncoderPart:
    """Return an encoder's part of a UE folder: what it says of itself (`plain`), its options and its model.

    A model from the hub is recorded by name and commit. Files of one in a folder are copied where they are safe, else
    `write_files` fills a folder with them.
    """
    said = {
        **plain,
        "options": asdict(encoder.options),
        "model": {"name": source and source.name, "commit": source and source.commit},
    }
    part = EncoderPart(kind=encoder.kind, task=encoder.task, class_names=encoder.class_names, plain=said)
    if source is None or (source.folder is not None and not source.is_safe):
        return replace(part, write=partial(write_model, write_files))
    if source.folder is None:
        return part
    return replace(part, folder=source.folder.parent, write=partial(copy_model, source))


def open_with_model(part: EncoderPart, recorded: HubModel, load: Callable[[str | Path], ModelEncoder]) -> ModelEncoder:
    """Let `load` open an encoder with the model of its part, whose files are verified before, or its commit after."""
    model = recorded.name if part.folder is None else open_model(part.folder).folder
    if model is None:
        raise StorageError(f"{part.where} names no model: restore it from a backup")
    if part.folder is None and Path(model).expanduser().exists():
        raise StorageError(
            f"{part.where} names the model {str(model)[:100]!r} on the hub, but here that is a path: open it from "
            "another working directory"
        )
    # What is wrong with files of the UE folder is the fault of that folder.
    with as_written(Path(part.where), "pipeline") if part.folder else nullcontext():
        encoder = load(model)
    found = encoder.source and encoder.source.commit
    if None not in (recorded.commit, found) and recorded.commit != found:
        raise StorageError(
            f"{part.where} was fitted with {recorded.name} at {recorded.commit}, which is now at {found}: refit, "
            "or download the model to a folder and fit with that"
        )
    return encoder
