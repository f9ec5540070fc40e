"""Data files and a fitted folder for the tests of the command line, on tiny models."""

import json
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner, Result

from knn_ue.cli import app
from tiny_models import ROWS

TASKS = {"text": "text-classification", "pair": "text-pair", "ner": "token-classification"}
ENV = {"COLUMNS": "200", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}


def run(*arguments: object) -> Result:
    # The runner of typer builds all commands again for each call.
    with patch("typer.testing._get_command", _built):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env=ENV)


_built = cache(get_command)


def start(*arguments: object) -> "subprocess.Popen[str]":
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-c", "from knn_ue.cli import app; app()", *map(str, arguments)]
    # A shell gives its background jobs, and so the tests it runs there, an ignored Ctrl-C to pass on.
    return subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def data_of(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """Return files of training, validation and test rows of the task `name`."""
    make = ROWS[TASKS[name]]
    return (
        write_rows(folder / "train.jsonl", make(60)),
        write_rows(folder / "validation.jsonl", make(30, start=60)),
        write_rows(folder / "test.jsonl", make(30, start=90)),
    )
