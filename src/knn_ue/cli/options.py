"""What commands share: their options, checks before the work begins, what people see, and how a command is stopped."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.methods import METHODS
from knn_ue.storage import check_replaceable
from knn_ue.tasks import TASKS, task_name

if TYPE_CHECKING:
    from knn_ue.data.columns import ColumnNames
    from knn_ue.encoding import Encoder
    from knn_ue.evaluation import Evaluation

import signal
import sys
import threading
from types import FrameType

MINILM = "minilm"
TASK_METAVAR = "|".join(record.cli_name for record in TASKS.values())


def known_task(name: str | None) -> str | None:
    """Return the full name of a task that people typed in either form."""
    try:
        return None if name is None else task_name(name)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(METHODS)}")
    return name


def _share(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise typer.BadParameter(f"{value} is not within 0 and 1")
    return value


def _ue_folder(path: Path) -> Path:
    """Return the UE folder; that of a spaCy pipeline is the folder of our component in it."""
    if not (path / "config.cfg").is_file():
        return path
    found = [meta.parent for meta in sorted(path.glob("*/meta.json"))]
    return found[0] if len(found) == 1 else path


Ue = Annotated[
    Path,
    typer.Argument(
        metavar="UE",
        callback=_ue_folder,
        help="A folder that [bold]knn-ue fit[/bold] or [bold]knn-ue spacy fit[/bold] wrote.",
    ),
]
TrainRows = Annotated[str, typer.Option("--train", metavar="F", help="The labeled texts to learn from.")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=_known_method,
        help=f"{', '.join(METHODS)}; see docs/methods.md.",
    ),
]
Device = Annotated[str, typer.Option(metavar="D", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ...")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, for machines.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
AbstainBelow = Annotated[
    float | None,
    typer.Option(metavar="C", callback=_share, help="Abstain where the score is lower; default: the fitted threshold."),
]
Domain = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Domain whose scores to give; 'general' is without any (default: as adapted)."),
]
TopK = Annotated[
    int | None,
    typer.Option(min=1, metavar="K", help="Also give the K most likely labels with their calibrated probabilities."),
]
_COLUMN_HELP = "The column of the {}, where it is not called so."


def _column(key: str, what: str) -> Any:
    return typer.Option(f"--{key}-column", metavar="C", help=_COLUMN_HELP.format(what), rich_help_panel="Columns")


TextName = Annotated[str | None, _column("text", "text")]
LabelName = Annotated[str | None, _column("label", "label")]
PremiseName = Annotated[str | None, _column("premise", "premise")]
HypothesisName = Annotated[str | None, _column("hypothesis", "hypothesis")]
TokensName = Annotated[str | None, _column("tokens", "words")]
TagsName = Annotated[str | None, _column("tags", "tags")]


def given_columns(**names: str | None) -> "ColumnNames":
    """Return the columns that were named."""
    return cast("ColumnNames", {key: name for key, name in names.items() if name is not None})


Top = Annotated[int, typer.Option(min=0, metavar="N", help="How many neighbors to give with each answer.")]


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


_LOG_SECONDS = 60.0
_WIDEST = 1000  # columns; no table of ours is wider

# (what is being done, how much of it, of how much or None)
Report = Callable[[str, int, int | None], None]


@contextmanager
def progress_bars() -> Iterator[Report]:
    """Yield what shows progress on stderr: a bar for each kind of work in a terminal, a line per minute in a log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LogLines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        started: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in started:
                started[name] = bars.add_task(name, total=total)
            bars.update(started[name], completed=done, total=total)

        yield report


class _LogLines:
    """Says how far the work is, at most once a minute: a log that stays silent looks like a process that hangs."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, name: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._last < _LOG_SECONDS:
            return
        self._last = time.monotonic()
        say(f"{name}: {done}" if total is None else f"{name}: {done} of {total}")


def say(sentence: str) -> None:
    """Tell a person something that is not data."""
    typer.echo(sentence, err=True)


def cut_note(encoder: "Encoder", *, before: int = 0) -> str:
    """Return how many texts were cut since `before` of them were, to end a sentence with; nothing where none was."""
    n_cut = encoder.n_truncated - before
    length = getattr(encoder.options, "max_length", None)
    return f", {n_cut} texts cut at {length} sub-words" if n_cut else ""


def print_table(heading: Sequence[str], lines: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table whose first column is text and whose other columns are numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    # A number cut to fit a narrow terminal is no number: let the lines wrap there instead.
    needed = Console(width=_WIDEST).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)


def print_evaluation(evaluation: "Evaluation") -> None:
    """Print every table of an evaluation, one line per metric and one column per method."""
    from knn_ue.evaluation import STYLES

    for table in evaluation.tables.values():
        methods = list(table.scores)
        metrics = list(table.scores[methods[0]])
        lines = [
            [STYLES[metric].heading, *(STYLES[metric].show(table.scores[method][metric]) for method in methods)]
            for metric in metrics
        ]
        print_table(["", *methods], lines, title=table.caption)


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
