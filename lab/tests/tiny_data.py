"""Tiny data sets laid out as the real folder, and scales that tiny models finish in seconds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from knn_ue.training import TrainingOptions
from knn_ue_lab.reproduce.scales import SMALL, Scale
from tiny_models import ROWS

TINY_OPTIONS = TrainingOptions(learning_rate=3e-3, epochs=2, max_length=32)
TASKS = {"sentiment": "text-classification", "nli": "text-pair", "ner": "token-classification"}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_data(folder: Path, *, tasks: tuple[str, ...] = tuple(TASKS)) -> Path:
    """Write home (train, val, test) and away (test) of each task."""
    for task in tasks:
        make = ROWS[TASKS[task]]
        for name, n_rows, start in (("train", 96, 0), ("val", 40, 300), ("test", 40, 500)):
            write_rows(folder / task / "home" / f"{name}.jsonl", make(n_rows, start=start))
        write_rows(folder / task / "away" / "test.jsonl", make(30, start=700))
    return folder


def tiny_scale(base: Scale = SMALL) -> Scale:
    """Return a scale of the same kind that a tiny model finishes in seconds."""
    options = dict.fromkeys(base.options, TINY_OPTIONS)
    return replace(
        base, options=options, n_seeds=2, train_rows={}, timed_rows=8, repeats=2, passes_rows=8, epsilons=(0.1, 0.3)
    )
