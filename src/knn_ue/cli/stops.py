"""How a command is stopped: Ctrl-C and SIGTERM."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A stop that is raised inside compiled code may be thrown away there (numpy does so while it inspects a list: measured,
# one Ctrl-C in twenty in the toy demo). So it is raised again, this many seconds later, until the command unwinds.
_AGAIN = 0.3


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; whatever cleans up after Ctrl-C cleans up after it too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return what a shell reports for the signal: 128 and its number.

    >>> exit_code(KeyboardInterrupt()), exit_code(Terminated())
    (130, 143)
    """
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def stops_raise() -> Iterator[None]:
    """Raise where the block is when a stop arrives: `KeyboardInterrupt` for Ctrl-C, `Terminated` for SIGTERM.

    A Ctrl-C that the process was told to ignore, as a shell's background jobs are, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread set a handler
        yield
        return
    raised: list[type[KeyboardInterrupt]] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        raised.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        raise raised[-1]

    def stop_again(_number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        if not _cleaning_up():
            raise raised[-1]

    handlers = {signal.SIGTERM: stop, signal.SIGALRM: stop_again}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = stop
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _cleaning_up() -> bool:
    """Return whether the stop is under way: an `except`, a `finally` or an `__exit__` works on it right now."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
