"""What people see in a terminal: sentences, progress and tables."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from knn_ue.progress import LogLines

if TYPE_CHECKING:
    from knn_ue.encoding import Encoder
    from knn_ue.evaluation import Evaluation

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
