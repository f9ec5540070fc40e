"""SIGTERM, which schedulers and `kill` send, ends a command as cleanly as Ctrl-C does."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; whatever cleans up after Ctrl-C cleans up after it too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return what a shell reports for the signal: 128 and its number.

    >>> exit_code(KeyboardInterrupt()), exit_code(Terminated())
    (130, 143)
    """
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Raise `Terminated` where the block is when SIGTERM arrives."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread set a handler
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
