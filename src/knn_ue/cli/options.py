"""The options that commands share, and the checks of what was given before the work begins."""

import inspect
import os
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import DATABASE, check_replaceable
from knn_ue.methods import IN_THE_LAB, METHODS, check_method
from knn_ue.tasks import TASKS, task_name

MINILM = "minilm"
TASK_METAVAR = "|".join(record.cli_name for record in TASKS.values())


def known_task(name: str | None) -> str | None:
    """Return the full name of a task that people typed in either form."""
    try:
        return None if name is None else task_name(name)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return what checks that an option is one of these names; those of a registry may still grow."""

    def check(name: str) -> str:
        if name not in names:
            meant = get_close_matches(name, names, n=1)
            hint = f" (did you mean {meant[0]!r}?)" if meant else ""
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}{hint}")
        return name

    return check


def _known_method(name: str) -> str:
    if name in IN_THE_LAB:
        check_method(name)
    return one_of(METHODS)(name)


def _ue_folder(path: Path) -> Path:
    """Return the UE folder; that of a spaCy pipeline is the folder of our component in it.

    A model folder is refused here, with what to do first.
    """
    if (path / "config.json").is_file() and not (path / DATABASE).is_file():
        raise InvalidInputError(
            f"{path} is a model folder, not a UE folder: run knn-ue fit {path} --train F --validation F --out ue first"
        )
    if not (path / "config.cfg").is_file():
        return path
    found = [database.parent for database in sorted(path.glob(f"*/{DATABASE}"))]
    return found[0] if len(found) == 1 else path


Ue = Annotated[
    Path,
    typer.Argument(
        metavar="UE",
        callback=_ue_folder,
        help="A folder that [bold]knn-ue fit[/bold] or [bold]knn-ue spacy fit[/bold] wrote.",
    ),
]
TrainRows = Annotated[str, typer.Option("--train", metavar="F", help="Labeled training texts.", rich_help_panel="Data")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=_known_method,
        help=f"Method: {', '.join(METHODS)}.",
        rich_help_panel="Method",
    ),
]
_GENERAL = "General"  # what every command has comes after its own options
Device = Annotated[
    str,
    typer.Option(
        metavar="D", help="Device: auto (a GPU if there is one), cpu, cuda, cuda:1, ...", rich_help_panel=_GENERAL
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout.", rich_help_panel=_GENERAL)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.", rich_help_panel=_GENERAL)]
AbstainBelow = Annotated[
    float | None,
    typer.Option(
        metavar="C",
        min=0,
        max=1,
        help="Minimum score to answer (default: the fitted threshold, if any).",
        rich_help_panel="Answers",
    ),
]
Domain = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Domain to use; 'general' means none (default: the domain 'default', if adapted).",
        rich_help_panel="Answers",
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Also return the K most likely labels with their calibrated probabilities.",
        rich_help_panel="Answers",
    ),
]
Top = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Number of neighbors to return with each answer.", rich_help_panel="Answers"),
]


_COLUMNS = {
    "text": "text",
    "label": "label",
    "premise": "premise",
    "hypothesis": "hypothesis",
    "tokens": "words",
    "tags": "tags",
    "answer": "model's answers",
    "confidence": "model's own confidence",
}


def takes_columns(*keys: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options --text-column, --label-column, ...; it gets those that were named as `columns`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_columns(**given: Any) -> None:
            named = {key: given.pop(f"{key}_column") for key in keys}
            command(**given, columns={key: name for key, name in named.items() if name is not None})

        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "columns"]
        added = [
            inspect.Parameter(
                f"{key}_column", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_column_option(key)
            )
            for key in keys
        ]
        with_columns.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        with_columns.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
        return with_columns

    return decorate


def _column_option(key: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(
            f"--{key}-column",
            metavar="C",
            help=f"Column of the {_COLUMNS[key]} (default: {key}).",
            rich_help_panel="Columns",
        ),
    ]


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
