"""The demo of given answers: recorded ones of a real language model, no training, under a minute."""

import csv
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.demo.folder import demo_folder
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.evaluating import compared
from knn_ue.pipeline.triage import Scores, Triage, line_of, triage
from knn_ue.reasons import percent
from knn_ue.report import build_report
from knn_ue.report.queue import queue_page

RECORDED = "bank_answers.jsonl"
_LABELED = 200
_FOLDERS = ("ue", "answered.csv", "new.csv", "report.html", "report.md", "report.json", "queue.html")
_QUEUE_SHOWN = 50
_N_BOOTSTRAP = 100

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class AnswersDemo:
    """Where everything is, and what came of it in sentences; all numbers are counted on the new answers."""

    folder: Path
    report: Path
    queue: Path
    ue: Path
    sentences: tuple[str, ...]
    explanations: tuple[str, ...]
    seconds: float


def run_answers_demo(out: str | Path = "knn-ue-demo") -> AnswersDemo:
    """Learn from 200 labeled answers which of the others to trust; write a UE folder, a report and a review queue."""
    began = time.monotonic()
    rows = recorded_answers()
    labeled, new = rows[:_LABELED], rows[_LABELED:]
    with demo_folder(out, _FOLDERS) as folder:
        _write_table(folder / "answered.csv", labeled)
        _write_table(folder / "new.csv", [{name: row[name] for name in row if name != "label"} for row in new])
        pipe = UncertaintyPipeline.from_answers().fit(labeled)
        pipe.save(folder / "ue")
        answers = pipe(new, top=0, suggest=True)
        scores = Scores()
        for answer in answers:
            scores.add(answer)
        divided = triage(scores, pipe.fitted_)
        right = np.array([row["answer"] == row["label"] for row in new])
        own = np.array([row.get("confidence", 0.0) for row in new], dtype=np.float64)
        told = (_says(rows), *_trusted(divided, right, own), _first(divided, right))
        report = build_report(
            compared(pipe.calibrator_, pipe.method_),
            pipe.outputs(new),
            title="Which answers of a language model can be trusted?",
            lead=told,
            method=pipe.method_,
            n_bootstrap=_N_BOOTSTRAP,
            familiarity=pipe.familiarity_,
            context={"command": "knn-ue demo answers", "data": f"{len(labeled)} labeled answers, {len(new)} new ones"},
        ).write(folder)
        lines = [line_of(divided, row, n, {**new[row], **answers[row].to_dict()}) for n, row in _ranked(divided)]
        page = queue_page(
            "What to look at first", divided.sentences(), lines, more=0, made="Made by knn-ue demo answers."
        )
        (folder / "queue.html").write_text(page, encoding="utf-8")
        doubtful = [new[row] for _, row in _ranked(divided)[:2]]
        return AnswersDemo(
            folder=folder,
            report=report.html,
            queue=folder / "queue.html",
            ue=folder / "ue",
            sentences=told,
            explanations=tuple(str(why) for why in pipe.explain(doubtful, top=3)),
            seconds=time.monotonic() - began,
        )


def recorded_answers() -> list[dict[str, Any]]:
    """Return the answers that ship with the library: text, label, answer, confidence."""
    content = files("knn_ue.demo").joinpath(RECORDED).read_text(encoding="utf-8")
    return [json.loads(line) for line in content.splitlines()]


def _says(rows: Rows) -> str:
    stated = Counter(float(row["confidence"]) for row in rows if "confidence" in row)
    usual, count = stated.most_common(1)[0]
    right = float(np.mean([row["answer"] == row["label"] for row in rows]))
    return (
        f"Your LLM says that it is {percent(usual)} sure in {count} of {len(rows)} answers, and it is right "
        f"{percent(right)} of the time."
    )


def _trusted(divided: Triage, right: BoolArray, own: FloatArray) -> tuple[str, str]:
    """Return what is let through and how often it is right, and what as many of the surest answers would be."""
    n_through, n_rows = divided.n_through, len(right)
    surest = np.argsort(-own, kind="stable")[:n_through]
    kept, alone = right[divided.through], right[surest]
    return (
        f"Here is which {percent(n_through / n_rows)} of {n_rows} new answers you can trust at 95 % precision: "
        f"{int(kept.sum())} of these {n_through} are right ({percent(float(kept.mean()))}).",
        f"Of the {n_through} answers of which the LLM itself is surest, {percent(float(alone.mean()))} are right.",
    )


def _first(divided: Triage, right: BoolArray) -> str:
    first = divided.order[:_QUEUE_SHOWN]
    found, all_wrong = int((~right[first]).sum()), int((~right).sum())
    by_chance = _QUEUE_SHOWN * all_wrong / len(right)
    return (
        f"The first {_QUEUE_SHOWN} answers that a person looks at hold {found} of the {all_wrong} errors; "
        f"{_QUEUE_SHOWN} at random hold about {by_chance:.0f}."
    )


def _ranked(divided: Triage) -> list[tuple[int, int]]:
    """Return place and row of those that a person sees first."""
    return list(enumerate(divided.order[:_QUEUE_SHOWN].tolist(), start=1))


def _write_table(path: Path, rows: Rows) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)
