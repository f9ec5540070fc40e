"""What people see in a terminal: help, sentences, progress and tables; and how they stop a command."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from knn_ue.progress import LogLines
from knn_ue.shown import visible

if TYPE_CHECKING:
    from knn_ue.encoding import Encoder
    from knn_ue.evaluation import Evaluation
    from knn_ue.evaluation import Table as ScoreTable

_BRACES = str.maketrans("", "", "{}")
_WIDEST = 1000  # columns; no table of ours is wider

# (what is being done, how much of it, of how much or None)
Report = Callable[[str, int, int | None], None]


@contextmanager
def progress_bars() -> Iterator[Report]:
    """Yield what shows progress on stderr: a bar for each kind of work in a terminal, a line per minute in a log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield LogLines(say)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        started: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in started:
                started[name] = bars.add_task(name, total=total)
            bars.update(started[name], completed=done, total=total)

        yield report


@contextmanager
def loading(what: object) -> Iterator[None]:
    """Say in a terminal that a model is being loaded, as long as it takes; a log needs no such line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"loading the model of {what} ..."):
        yield


def announce(sentence: str) -> None:
    """Show a person the one line to look for among log lines; a log gets nothing, so that each line of it is JSON."""
    for stream, is_err in ((sys.stderr, True), (sys.stdout, False)):
        if stream.isatty():
            typer.secho(f"\n  {sentence}\n", bold=True, err=is_err)
            return


def echo(said: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, or JSON, in which nothing can steer the terminal."""
    typer.echo(visible(said), err=err, nl=nl)


def say(sentence: str) -> None:
    """Tell a person something that is not data."""
    echo(sentence, err=True)


def cut_note(encoder: "Encoder", *, before: int = 0) -> str:
    """Return how many texts were cut since `before` of them were, to end a sentence with; nothing where none was."""
    n_cut = encoder.n_truncated - before
    length = getattr(encoder.options, "max_length", None)
    return f", {n_cut} texts cut at {length} sub-words" if n_cut else ""


def print_table(heading: Sequence[str], lines: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table whose first column is text and whose other columns are numbers."""
    table = Table(title=None if title is None else visible(title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*map(visible, line))
    # A number cut to fit a narrow terminal is no number: let the lines wrap there instead.
    needed = Console(width=_WIDEST).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)


def print_evaluation(evaluation: "Evaluation") -> None:
    """Print every table of an evaluation, one line per metric and one column per method, with intervals if drawn."""
    from knn_ue.evaluation import STYLES, UNDEFINED, bounds_of

    def cell(table: "ScoreTable", method: str, metric: str) -> str:
        shown = STYLES[metric].show(table.scores[method][metric])
        if not table.intervals or shown == UNDEFINED:
            return shown
        return f"{shown} ({bounds_of(STYLES[metric], table.intervals[method][metric])})"

    for table in evaluation.tables.values():
        methods = list(table.scores)
        metrics = list(table.scores[methods[0]])
        lines = [[STYLES[metric].heading, *(cell(table, method, metric) for method in methods)] for metric in metrics]
        print_table(["", *methods], lines, title=table.caption)
    for note in evaluation.notes:
        echo(note)


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


class _PlainHelp:
    """Shows a flag without a type (`--json`, not `--json <bool>`) and an argument without braces (`UE`, not `{UE}`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; a flag has an empty metavar, because it takes no value."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [piece.translate(_BRACES) for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with this help."""


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with this help."""
