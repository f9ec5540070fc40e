"""One writer of a folder at a time, among threads and processes."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _HeldLocks(threading.local):
    """The folders that this thread has locked."""

    def __init__(self) -> None:
        self.places: set[tuple[int, int]] = set()


_held = _HeldLocks()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers, in this process or another, out of `folder`; a thread that has the lock may take it again."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        found = os.fstat(descriptor)
        place = (found.st_dev, found.st_ino)
        if place in _held.places:
            yield
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _held.places.add(place)
        try:
            yield
        finally:
            _held.places.remove(place)
    finally:
        os.close(descriptor)
