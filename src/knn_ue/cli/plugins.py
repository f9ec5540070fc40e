"""Commands of other packages: entry points of the group `knn_ue.commands`, and what to say where one is missing."""

import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from knn_ue.cli.terminal import PlainCommand
from knn_ue.errors import MissingExtraError


def help_of(command: Callable[..., Any]) -> str:
    """Return the docstring of a command with each paragraph on one line.

    >>> help_of(help_of).split("\\n\\n")[0]
    'Return the docstring of a command with each paragraph on one line.'
    """
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n"))


GROUP = "knn_ue.commands"

# Commands that people know and that are not part of the library: what each does, and how to install it.
KNOWN = {
    "reproduce": (
        "Reproduce the paper's tables and figures.",
        "knn-ue reproduce needs the package knn-ue-lab. Install it from a clone of the repository with: "
        "pip install ./lab",
    )
}


def plugin_commands(installed: Iterable[EntryPoint] | None = None) -> dict[str, Any]:
    """Return the click commands of installed packages by name; a known one that is missing says how to install it."""
    entries = {entry.name: entry for entry in (entry_points(group=GROUP) if installed is None else installed)}
    commands = {name: _missing(*words) for name, words in KNOWN.items()}
    for name, entry in entries.items():
        try:
            command = entry.load()
        except (ImportError, AttributeError) as error:  # a broken package costs its own command, no other
            commands[name] = _missing("Not available.", f"knn-ue {name} cannot be loaded from {entry.value}: {error}")
        else:
            commands[name] = _click(command, help_of(command))
    return commands


def _missing(summary: str, sentence: str) -> Any:
    def missing() -> None:
        raise MissingExtraError(sentence)

    # Whatever is asked of it, the answer is the same sentence.
    return _click(missing, f"{summary}\n\n{sentence}", allow_extra_args=True, ignore_unknown_options=True)


def _click(command: Callable[..., Any], text: str, **settings: Any) -> Any:
    """Return the command as click sees it, with the settings of the app."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    shown = {"help_option_names": ["-h", "--help"], **settings}
    app.command(help=text, rich_help_panel="More", context_settings=shown, cls=PlainCommand)(command)
    return typer.main.get_command(app)
