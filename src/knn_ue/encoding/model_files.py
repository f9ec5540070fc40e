"""The model inside a UE folder: files are copied or linked, and looked at before they are loaded."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from annotated_types import Len

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.errors import StorageError
from knn_ue.folder import as_written, from_plain, storage_errors, to_plain
from knn_ue.folder.disk import link_or_copy

RECORD = "knn_ue_training.json"  # how a model of ours was trained, beside its weights
_SAFE = ".safetensors"
_INDEX, _BIN_INDEX = ".safetensors.index.json", ".bin.index.json"
_HEAD_FILE = "knn_ue_head.safetensors"  # of heads/files.py, which needs torch
EXPORTED = ("knn_ue_model.onnx", "knn_ue_tokenizer.json")  # the model and its tokenizer, for ONNX Runtime
# States of a training run and weights for other frameworks: transformers reads none of them to predict.
_NOT_NEEDED = {".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".ckpt"}
_NOT_NEEDED_NAMES = {"training_args.bin", "optimizer.bin", "scheduler.bin", "trainer_state.json", *EXPORTED}
# Pickles, and files that make transformers look for weights elsewhere: never in a UE folder.
_NEVER = _NOT_NEEDED | {".bin", ".pkl", ".pickle", ".gguf"}
_NEVER_NAMES = {"adapter_config.json"}


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a pipeline's model came from: the `name` of a model on the hub, with its commit, or a `folder`.

    `state` are the names, sizes and times of the folder's files when the model was loaded; it `is_safe` where its
    weights are safetensors, and not a pickle. `digests` are the SHA-256 of files that a UE folder held.
    """

    name: str | None = None
    commit: str | None = None
    folder: Path | None = None
    state: tuple[tuple[str, int, int], ...] = ()
    is_safe: bool = False
    digests: tuple[tuple[str, str], ...] = ()

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
class _TrainingRecord:
    """What our own parts of a training record may be; the rest is for people."""

    method: Annotated[str, Len(1, 100)]
    task: Annotated[str, Len(1, 100)] | None = None


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
        from_plain(_TrainingRecord, {key: record[key] for key in ("method", "task") if key in record})
    return record


def copy_model(source: ModelSource, target: Path) -> None:
    """Write the model into the folder `target`."""
    assert source.folder is not None
    _check_unchanged(source)
    for name, _, _ in source.state:
        # The source may be a link, as in the hub's cache; our own copy never is.
        link_or_copy((source.folder / name).resolve(), target / name)
    _check_unchanged(source)


def write_model(write: Callable[[Path], None], target: Path) -> None:
    """Let `write` fill the folder `target` with a model that is only in memory, and drop what no one needs of it."""
    write(target)
    needed = {name for name, _, _ in _state(target)}
    for path in target.iterdir():
        if path.name not in needed:
            path.unlink()


def open_model(part: EncoderPart) -> ModelSource:
    """Return the model whose files a UE folder holds; they must be weights and settings, and nothing that runs."""
    files = own_files(part)
    strange = next((name for name in files if name in _NEVER_NAMES or Path(name).suffix in _NEVER), None)
    if strange is not None or not _has_safe_weights(files):
        raise StorageError(
            f"{part.where} must hold its weights as safetensors, and no {strange or 'other ones'}: do not trust this "
            "folder"
        )
    (folder,) = {path.parent for path in files.values()}
    digests = {name: digest for name, digest in part.digests.items() if name in files}
    return replace(ModelSource.of(folder), digests=tuple(sorted(digests.items())))


def own_files(part: EncoderPart) -> dict[str, Path]:
    """Return the files of the model itself, without those of its export."""
    return {name: path for name, path in part.files.items() if name not in EXPORTED}


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

    name: Annotated[str, Len(1, 1000)] | None
    commit: Annotated[str, Len(1, 100)] | None

    @classmethod
    def of(cls, source: ModelSource | None) -> "HubModel":
        """Return where the model of an encoder came from."""
        return cls(name=None, commit=None) if source is None else cls(name=source.name, commit=source.commit)


class WithSource(Protocol):
    """An encoder that knows where its model came from."""

    source: ModelSource | None


ModelEncoder = TypeVar("ModelEncoder", bound=WithSource)


def part_with_model(
    encoder: Encoder, source: ModelSource | None, write_files: Callable[[Path], None], stored: Any
) -> EncoderPart:
    """Return an encoder's part of a UE folder: what it says of itself, `stored` in a dataclass, and its model.

    A model from the hub is recorded by name and commit. Files of one in a folder are copied where they are safe, else
    `write_files` fills a folder with them.
    """
    part = EncoderPart(kind=encoder.kind, task=encoder.task, class_names=encoder.class_names, plain=to_plain(stored))
    if source is None or (source.folder is not None and not source.is_safe):
        return replace(part, fill=partial(write_model, write_files))
    if source.folder is None:
        return part
    return replace(part, fill=partial(copy_model, source), digests=dict(source.digests))


def open_with_model(part: EncoderPart, recorded: HubModel, load: Callable[[str | Path], ModelEncoder]) -> ModelEncoder:
    """Let `load` open an encoder with the model of its part: files that were verified, or a commit on the hub."""
    if own_files(part):
        # What is wrong with files of the UE folder is the fault of that folder.
        with as_written(part.where, "pipeline"):
            source = open_model(part)
            if source.folder is None:  # another process compacted or tuned the folder just now
                raise ValueError("its model is missing")
            encoder = load(source.folder)
            encoder.source = source
            return encoder
    model = recorded.name
    if model is None:
        raise StorageError(f"{part.where} names no model: restore it from a backup")
    if Path(model).expanduser().exists():
        raise StorageError(
            f"{part.where} names the model {str(model)[:100]!r} on the hub, but here that is a path: open it from "
            "another working directory"
        )
    encoder = load(model)
    found = encoder.source and encoder.source.commit
    if None not in (recorded.commit, found) and recorded.commit != found:
        raise StorageError(
            f"{part.where} was fitted with {recorded.name} at {recorded.commit}, which is now at {found}: refit, "
            "or download the model to a folder and fit with that"
        )
    return encoder
