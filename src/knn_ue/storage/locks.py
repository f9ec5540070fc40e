"""One writer of a folder or file at a time, among threads and processes; the system frees the lock of one that dies."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knn_ue.errors import StorageError

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
