"""Files and folders that appear whole or not at all, stay after a power loss, and have one writer at a time.

A new file is written beside its place, synced, and renamed; then the folder that names it is synced. Only then may a
caller report it as written. Locks hold among threads and processes; the system frees that of a process that dies.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from knn_ue.errors import KnnUeError, StorageError

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2


def write_file(path: Path, content: bytes, *, draft: Path | None = None) -> None:
    """Replace the file `path` in one step; an error or a crash leaves what was there.

    `draft` is where the content stands until then; by default a hidden name beside `path`, which an error removes.
    """
    _write_drafts({draft or _draft_of(path): (path, content)})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files: all are written beside their places before the first is moved."""
    _write_drafts({_draft_of(path): (path, content) for path, content in contents.items()})


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


def replace_folder(draft: Path, target: Path) -> None:
    """Move the whole folder `draft` to `target`, in one step where the system can exchange two folders.

    What `target` held is at `draft` afterwards, for the caller to remove; where `target` was missing or empty, nothing
    is.
    """
    sync_tree(draft)
    if not target.exists() or not any(target.iterdir()):
        draft.rename(target)
    elif not _renamed(draft, target, _RENAME_EXCHANGE):
        old = _draft_of(target)
        target.rename(old)
        try:
            draft.rename(target)
        except BaseException:
            old.rename(target)
            raise
        old.rename(draft)
    sync(target.parent)


def move_new(source: Path, target: Path) -> None:
    """Move a synced file to a name that is not taken; FileExistsError where it is, and nothing is moved."""
    if not _renamed(source, target, _RENAME_NOREPLACE):
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        source.rename(target)
    sync(target.parent)


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


@contextmanager
def storage_errors(what: str, way_out: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StorageError` of one sentence."""
    try:
        yield
    except KnnUeError:
        raise
    except OSError as error:
        raise StorageError(f"{what} ({error.strerror or error}): {way_out}") from error


def _write_drafts(drafts: Mapping[Path, tuple[Path, bytes]]) -> None:
    try:
        for draft, (_, content) in drafts.items():
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for draft, (path, _) in drafts.items():
            os.replace(draft, path)  # noqa: PTH105 (the commit; named as the documentation names it)
            with storage_errors(f"{path} was written, but the disk does not confirm it", "write it again"):
                sync(path.parent)
    except BaseException:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        raise


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")


def _renamed(source: Path, target: Path, flag: int) -> bool:
    """Rename with a `flag` that Python does not offer; False where the system does not know it."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(target))


@cache
def _renameat2() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


_LOOK_AGAIN = 0.005  # seconds between two looks at a lock


class _HeldLocks(threading.local):
    """The folders that this thread has locked, and until when it waits for others."""

    def __init__(self) -> None:
        self.places: set[tuple[int, int]] = set()
        self.deadline: float | None = None


_held = _HeldLocks()


def take_lock(descriptor: int, *, seconds: float | None) -> bool:
    """Lock an open file or folder and return whether that worked within `seconds`; None waits for as long as it takes.

    The lock ends when the descriptor is closed.
    """
    if seconds is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
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
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Let this thread wait no longer than `seconds`, all in all, for the locks that it takes inside the block."""
    before = _held.deadline
    _held.deadline = time.monotonic() + seconds if before is None else min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _held.deadline = before


@contextmanager
def locked(folder: Path, *, seconds: float | None = None) -> Iterator[None]:
    """Keep other writers, in this process or another, out of `folder`; a thread that has the lock may take it again.

    Waits for its turn, but no longer than `seconds` or `waiting_at_most` where given: a writer that hangs must not make
    others hang.
    """
    if _held.deadline is not None:
        left = max(0.0, _held.deadline - time.monotonic())
        seconds = left if seconds is None else min(seconds, left)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        found = os.fstat(descriptor)
        place = (found.st_dev, found.st_ino)
        if place in _held.places:
            yield
            return
        if not take_lock(descriptor, seconds=seconds):
            raise StorageError(
                f"{folder} is still being written by another process after {seconds:.3g} s: nothing was changed, "
                "try again"
            )
        _held.places.add(place)
        try:
            yield
        finally:
            _held.places.remove(place)
    finally:
        os.close(descriptor)
