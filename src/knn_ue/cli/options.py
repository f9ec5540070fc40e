"""Options that several commands share, each said once."""

from pathlib import Path
from typing import Annotated

import typer

from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS
from knn_ue.tasks import TASKS, task_name

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


Ue = Annotated[Path, typer.Argument(metavar="UE", help="A folder that [bold]knn-ue fit[/bold] wrote.")]
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
Top = Annotated[int, typer.Option(min=0, metavar="N", help="How many neighbors to give with each answer.")]
