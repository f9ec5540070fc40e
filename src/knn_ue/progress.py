"""How long work tells people how far it is: a bar in a notebook, a line that moves in a terminal, lines in a log."""

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

from knn_ue.types import Progress

_LOG_SECONDS = 60.0
_SHOWN_SECONDS = 0.2  # between two pictures


class LogLines:
    """Says how far the work is, at most once a minute: a log that stays silent looks like a process that hangs."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last = time.monotonic()

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Report `done` of `total` rows of what is called `name`."""
        if time.monotonic() - self._last < _LOG_SECONDS:
            return
        self._last = time.monotonic()
        self._say(counted(name, done, total))


class NotebookBars:
    """A bar for each kind of work under the cell of a notebook; `display` is IPython's, with its `display_id`."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._bars: dict[str, tuple[int, int | None]] = {}
        self._last = 0.0

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Report `done` of `total` rows of what is called `name`."""
        self._bars[name] = (done, total)
        if done != total and time.monotonic() - self._last < _SHOWN_SECONDS:
            return
        self._last = time.monotonic()
        page = {"text/html": self._page(), "text/plain": "; ".join(counted(n, *bar) for n, bar in self._bars.items())}
        if self._handle is None:
            self._handle = self._display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)

    def _page(self) -> str:
        lines = []
        for name, (done, total) in self._bars.items():
            bar = "" if total is None else f'<progress max="{total}" value="{done}"></progress> '
            lines.append(f"<div>{bar}{escape(counted(name, done, total))}</div>")
        return "".join(lines)


class _MovingLine:
    """One line of a terminal, written over."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, name: str, done: int, total: int | None) -> None:
        ends = done == total
        if ends or time.monotonic() - self._last >= _SHOWN_SECONDS:
            self._last = time.monotonic()
            sys.stderr.write(f"\r{counted(name, done, total)}\x1b[K" + ("\n" if ends else ""))
            sys.stderr.flush()


def shown_progress() -> Progress:
    """Return what shows progress where this runs."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":  # a kernel, not the IPython prompt
        from IPython.display import display

        return NotebookBars(display)
    return _MovingLine() if sys.stderr.isatty() else LogLines(lambda line: print(line, file=sys.stderr))  # noqa: T201


def as_progress(given: Progress | bool | None) -> Progress | None:
    """Return what to call: `given`, or for True what shows progress where this runs."""
    if given is True:
        return shown_progress()
    return None if given is False else given


def counted(name: str, done: int, total: int | None) -> str:
    """Return how far a kind of work is.

    >>> counted("training", 3, 10), counted("training", 3, None)
    ('training: 3 of 10', 'training: 3')
    """
    return f"{name}: {done}" if total is None else f"{name}: {done} of {total}"
