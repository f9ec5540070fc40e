"""A model folder: written beside its place and moved there whole, with a record of how the model was trained."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from knn_ue.encoding.model_files import RECORD, read_record
from knn_ue.errors import StorageError
from knn_ue.folder.disk import create_folder, locked, replace_folder, take_lock

__all__ = ["RECORD", "check_target", "disk_errors", "new_model_folder", "read_record", "write_record"]


@contextmanager
def new_model_folder(out: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder to write to, which becomes `out` if the block ends well and disappears if it does not.

    What a killed run left beside `out` is removed; a lock tells it from the folder of a run that goes on.
    `out` may be missing, empty, or, with `overwrite`, a model folder of ours; nothing else is ever replaced.
    """
    target = Path(out).resolve()
    check_target(target, overwrite=overwrite)
    draft = target.parent / f".{target.name}.{secrets.token_hex(4)}.draft"
    try:
        with disk_errors(target):
            create_folder(target.parent)
            _remove_abandoned(target)
            draft.mkdir()
        with locked(draft):
            yield draft
            with disk_errors(target):
                check_target(target, overwrite=overwrite)  # much may have happened during the training
                replace_folder(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise unless a model may be written to `target`."""
    if not target.exists():
        return
    if not target.is_dir():
        raise StorageError(f"{target} is a file: choose a folder for the model")
    if not any(target.iterdir()):
        return
    if not (target / RECORD).is_file():
        raise StorageError(f"{target} holds other files and no {RECORD}: choose a new or empty folder")
    if not overwrite:
        raise StorageError(
            f"{target} already holds a model: pass overwrite=True or choose another folder",
            shell=f"{target} already holds a model: pass --overwrite or choose another folder",
        )


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write how the model was trained beside its weights."""
    (folder / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn what the disk says into one sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, StorageError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{target} cannot be written ({reason}): nothing was left behind") from error


def _remove_abandoned(target: Path) -> None:
    for draft in target.parent.glob(f".{escape(target.name)}.{'[0-9a-f]' * 8}.draft"):
        with suppress(OSError):
            descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if take_lock(descriptor, seconds=0):
                    shutil.rmtree(draft, ignore_errors=True)
            finally:
                os.close(descriptor)
