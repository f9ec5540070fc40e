"""Hooks of mkdocs: the command line page is made from the commands themselves, links out of docs/ become code."""

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of all commands."""
    files.append(File.generated(config, "cli.md", content=_commands()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name files of the repository that the site does not hold instead of linking to them."""
    return _OUTSIDE.sub(lambda found: f"{found[1]} (`{found[2]}`)", markdown)


def _commands() -> str:
    """Return the help of every command, as it is printed in a terminal of 100 columns."""
    from typer.main import get_command

    from knn_ue.cli import app

    parts = ["# Command line", "Every command prints this with `--help`."]
    root = get_command(app)
    todo: list[tuple[str, Any]] = [("knn-ue", root)]
    while todo:
        name, command = todo.pop(0)
        inner = [(f"{name} {key}", x) for key, x in sorted(getattr(command, "commands", {}).items()) if not x.hidden]
        todo[:0] = inner
        parts.append(f"## {name}\n\n```text\n{_help(name)}\n```")
    return "\n\n".join(parts) + "\n"


def _help(name: str) -> str:
    from typer.testing import CliRunner

    from knn_ue.cli import app

    shown = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).output
    return "\n".join(line.rstrip() for line in _ANSI.sub("", shown).strip("\n").splitlines())
