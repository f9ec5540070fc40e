"""Docstrings as help: rich keeps every line end, so that a terminal of another width would show torn lines."""

import inspect
from collections.abc import Callable
from typing import Any


def help_of(command: Callable[..., Any]) -> str:
    """Return the docstring of a command with each paragraph on one line.

    >>> help_of(help_of).split("\\n\\n")[0]
    'Return the docstring of a command with each paragraph on one line.'
    """
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(command) or "").split("\n\n"))
