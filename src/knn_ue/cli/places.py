"""Whether a folder may be written, asked before the work begins and not when it is done."""

import os
from pathlib import Path

from knn_ue.errors import StorageError
from knn_ue.storage import check_replaceable


def check_ue_folder(out: Path, *, overwrite: bool) -> None:
    """Raise unless a UE folder may be written to `out`."""
    check_writable(out)
    if not out.exists() or not any(out.iterdir()):
        return
    if not overwrite:
        raise StorageError(f"{out} already exists: pass --overwrite or choose another folder")
    check_replaceable(out)


def check_writable(out: Path) -> None:
    """Raise unless `out` is a folder one may write to, or can be made."""
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise StorageError(f"{out} cannot be written, since {nearest} is a file: choose another folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise StorageError(f"{out} cannot be written, since {nearest} does not allow it: choose another folder")
