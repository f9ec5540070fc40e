"""The ground below folders: files that appear whole or not at all, plain files, locks, and errors in one sentence."""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from knn_ue.errors import KnnUeError, StorageError

RESTORE = "restore the folder from a backup"
_LINKED_BYTES = 1 << 22
_LOOK_AGAIN = 0.005  # seconds between two looks at a lock


def library_version() -> str:
    """Return the version of knn-ue that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("knn-ue")
    except PackageNotFoundError:  # used from a source tree that was never installed
        return "unknown"


@contextmanager
def storage_errors(what: str, way_out: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StorageError` of one sentence."""
    try:
        yield
    except KnnUeError:
        raise
    except OSError as error:
        raise StorageError(f"{what} ({error.strerror or error}): {way_out}") from error


def write_file(path: Path, content: bytes) -> None:
    """Replace the file `path` in one step; an error or a crash leaves what was there."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files: all are written beside their places before the first is moved."""
    drafts = {path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft"): path for path in contents}
    try:
        for draft, path in drafts.items():
            with draft.open("xb") as file:
                file.write(contents[path])
                file.flush()
                os.fsync(file.fileno())
        for draft, path in drafts.items():
            draft.replace(path)
            sync(path.parent)
    except BaseException:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Return once the content of a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Return once a folder is on disk with all that is in it, hard links to files of others included."""
    for path in [*folder.rglob("*"), folder]:
        sync(path)


def move_new(source: Path, target: Path) -> None:
    """Move a synced file to a name that is not taken; FileExistsError where it is, and nothing is moved."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        source.rename(target)
    else:
        source.unlink()
    sync(target.parent)


def replace_folder(draft: Path, target: Path) -> None:
    """Move the folder `draft` to `target`; what `target` held is put back where that fails, else removed."""
    sync_tree(draft)
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    if target.exists():
        target.rename(old)
    try:
        draft.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Put the content of `source` at `target`, by a hard link where it is large.

    A link takes no space, but changes with the original where that is written in place. Small files, which people
    edit, are copied; of large ones the checksum tells if someone wrote over them.
    """
    if source.stat().st_size >= _LINKED_BYTES:
        with suppress(OSError):  # another disk, or a file system without links
            os.link(source.resolve(), target)
            return
    shutil.copyfile(source, target)


def create_folder(folder: Path) -> list[Path]:
    """Create the folder and its parents where missing, and return those that are new, once they are on disk."""
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in new:
        with suppress(PermissionError):  # one may write to a folder that one may not open
            sync(path.parent)
    return new


@contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Create the folder and its parents where missing; if the block fails, those that are new and empty are removed."""
    new = create_folder(folder)
    try:
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


def open_plain_file(path: Path) -> BufferedReader:
    """Open a plain file to read: never a link out of the folder, a pipe that blocks, or an endless device."""
    with storage_errors(f"{path} cannot be read", RESTORE):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StorageError(f"{path} is not a plain file: do not trust this folder")
        return path.open("rb")


def fingerprint(path: Path) -> dict[str, Any]:
    """Return the size and SHA-256 of a plain file."""
    with open_plain_file(path) as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def file_state(path: Path) -> tuple[int, int, int, int] | None:
    """Return which file stands there and when it was last written, None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def take_lock(descriptor: int, *, seconds: float) -> bool:
    """Lock an open file or folder and return whether that worked within `seconds`; closing it ends the lock."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_LOOK_AGAIN)
        else:
            return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs of ours out of a folder of results; at once a `StorageError` where one is at work there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not take_lock(descriptor, seconds=0):
            raise StorageError(f"{folder} is being written by another process: wait for it, or choose another folder")
        yield
    finally:
        os.close(descriptor)
