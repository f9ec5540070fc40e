"""The study of the verifier beside models that can be opened: texts and pairs, in and out of domain.

    python -m knn_ue_lab.reproduce.texts_study --data DATA --answers lab/cells --work WORK --reader FOLDER \
        --page docs/verifier_texts_results.md

The judged models are those of the reproduction: what they said of every test row is kept in `--answers`, so nothing is
trained. Half of the in-domain test rows stand for the validation rows that the join is fitted on; they are not scored.
`--data` is the folder that `knn-ue reproduce` reads. Vectors and cells (world, reader) are kept in `--work`.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.data import PairRow, Row
from knn_ue.demo.cache import key_of, key_of_rows
from knn_ue.verifying import RawView, Reader, fit_labels, open_reader, read_inputs, take_rows
from knn_ue.verifying.logistic import log_odds
from knn_ue.verifying.opened import fit_join, learn_classes
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.kept_answers import unpack
from knn_ue_lab.reproduce.scales import BASE, REFERENCE, SMALL, Scale
from knn_ue_lab.reproduce.setups import folder_setups, vader_setups
from knn_ue_lab.reproduce.task_data import TaskData

N_STUDIED, N_ROWS, N_LABELED, N_DRAWS = 500, 600, 50, 3
METHODS = ("softmax", "temperature", "knn-ue")
Views = Mapping[str, RawView]


@dataclass(frozen=True, kw_only=True)
class World:
    """The models of one scale and setup; `folder` is where their answers are kept."""

    folder: str
    judged: str
    scale: Scale
    n_seeds: int


WORLDS = (
    World(folder="vader/sentiment", judged="MiniLM on 2,000 film snippets", scale=SMALL, n_seeds=3),
    World(folder="reference/sentiment", judged="MiniLM on 4,000 IMDb reviews", scale=REFERENCE, n_seeds=8),
    World(folder="base/sentiment", judged="MPNet on 1,000 IMDb reviews", scale=BASE, n_seeds=2),
    World(folder="reference/nli", judged="MiniLM on 12,000 MNLI pairs", scale=REFERENCE, n_seeds=8),
    World(folder="base/nli", judged="MPNet on 2,400 MNLI pairs", scale=BASE, n_seeds=2),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """The rows of a world as a reader sees them: views of training rows and of each set, and the classes."""

    train: Views
    gold: IntArray
    sets: Mapping[str, Views]
    n_classes: int


def task_data(world: World, data: Path) -> TaskData:
    """Return the rows of a world."""
    setups = vader_setups() if world.folder.startswith("vader") else folder_setups(data)
    return TaskData(next(one for one in setups if one.name == world.folder.split("/")[1]), world.scale)


def read_world(rows: TaskData, sizes: Mapping[str, int], reader: Reader, work: Path) -> Read:
    """Read the first rows of each part, as many of a set as `sizes` says; vectors are kept in `work`."""
    train, names = rows.train[:N_STUDIED], sorted(rows.known)
    return Read(
        train=_views(train, reader, work),
        gold=np.array([names.index(str(row.label)) for row in train]),  # type: ignore[union-attr]
        sets={name: _views(rows.sets[name].rows[:size], reader, work) for name, size in sizes.items()},
        n_classes=len(names),
    )


def measure(world: World, answers: Path, read: Read, in_domain: str) -> dict[str, Any]:
    """Return E-AURC x1000, Brier x100 and ECE in % of each set, method and seed."""
    learned = learn_classes(read.train, read.gold, n_classes=read.n_classes)
    probs = {name: learned.probs(views) for name, views in read.sets.items()}
    found: dict[str, Any] = {name: {} for name in read.sets}
    for seed in range(world.n_seeds):
        softmax = _kept(answers, world, "softmax", seed)
        predicted = {name: np.asarray(softmax[name].probs).argmax(axis=1) for name in read.sets}
        for method in METHODS:
            kept = _kept(answers, world, method, seed)
            own = {name: log_odds(kept[name].confidence) for name in read.sets}
            gold = {name: np.asarray(kept[name].labels, dtype=np.int64) for name in read.sets}
            fitting, asked = _halves(len(gold[in_domain]), seed)
            join = fit_join(
                probs[in_domain][fitting],
                predicted[in_domain][fitting],
                gold[in_domain][fitting],
                own[in_domain][fitting],
            )
            for name in read.sets:
                rows = asked if name == in_domain else np.arange(len(gold[name]))
                right = (predicted[name] == gold[name])[rows]
                joined = join.scores(probs[name], predicted[name], own[name])
                scores = {method: kept[name].confidence[rows], f"{method} + verifier": joined[rows]}
                for shown, values in scores.items():
                    found[name].setdefault(shown, []).append(measures(values, right))
                if name != in_domain and method == "temperature":
                    about = (read.sets[name], predicted[name], gold[name], read.n_classes)
                    for shown, values in (("temperature", own[name]), ("temperature + verifier", log_odds(joined))):
                        draws = [_adapted(*about, values, draw) for draw in range(N_DRAWS)]
                        found[name].setdefault(f"{shown}, {N_LABELED} labels", []).append(
                            np.mean(draws, axis=0).tolist()
                        )
    return found


def measures(scores: FloatArray, right: BoolArray) -> list[float]:
    """Return E-AURC x1000, Brier x100 and ECE (10 bins) in %."""
    return [
        1000 * metrics.e_aurc(confidence=scores, correct=right),
        100 * metrics.brier_top_label(confidence=scores, correct=right),
        100 * metrics.expected_calibration_error(confidence=scores, correct=right),
    ]


def _adapted(
    views: Views, predicted: IntArray, gold: IntArray, n_classes: int, own: FloatArray, draw: int
) -> list[float]:
    """Return the measures of the rows of a domain that were not labeled, by a verifier that learned from the others."""
    order = np.random.default_rng(draw).permutation(len(gold))
    labeled, others = order[:N_LABELED], order[N_LABELED:]
    seen, unseen = ({name: take_rows(view, rows) for name, view in views.items()} for rows in (labeled, others))
    sizes = {"n_classes": n_classes, "n_answers": n_classes}
    verifier = fit_labels(seen, predicted[labeled], gold[labeled], own[labeled], **sizes)
    return measures(verifier.verdict(unseen, predicted[others], own[others]), (predicted == gold)[others])


def _kept(answers: Path, world: World, method: str, seed: int) -> dict[str, Answers]:
    """Return the kept answers to the first rows of each set."""
    (path,) = (answers / world.folder).glob(f"{method}.seed{seed}.*.npz")
    columns: dict[str, dict[str, Any]] = {}
    with np.load(path) as stored:
        for name in stored.files:
            of_set, column = name.split("/", 1)
            columns.setdefault(of_set, {})[column] = stored[name]
    return {name: unpack(found).first(N_ROWS) for name, found in columns.items()}


def _halves(n_rows: int, seed: int) -> tuple[IntArray, IntArray]:
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[: n_rows // 2], order[n_rows // 2 :]


def _views(rows: Sequence[Row], reader: Reader, work: Path) -> Views:
    path = work / "vectors" / f"{key_of(reader.name, key_of_rows(rows))}.npz"
    if path.exists():
        with np.load(path) as stored:
            return {name: stored[name] for name in stored.files}
    pairs = [(row.premise, row.hypothesis) for row in rows if isinstance(row, PairRow)]
    texts = [row.text for row in rows if not isinstance(row, PairRow)]  # type: ignore[union-attr]
    views = read_inputs(reader, texts, pairs or None)
    if any(name.startswith("embedding") for name in views):  # nothing else is read beside one
        views = {name: view for name, view in views.items() if name.startswith("embedding")}
        path.parent.mkdir(parents=True, exist_ok=True)
        kept: dict[str, Any] = {name: np.asarray(view) for name, view in views.items()}
        np.savez(path, **kept)
    return views


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, then write the page."""
    from knn_ue_lab.reproduce.texts_study_page import page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "answers", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--reader", action="append", required=True, help="a reader's name, or NAME=FOLDER; repeatable")
    folders = [world.folder for world in WORLDS]
    parser.add_argument("--world", action="append", choices=folders, help="may be repeated (default: all)")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    cells = []
    for world in (one for one in WORLDS if one.folder in (given.world or folders)):
        for named in given.reader:
            name, _, folder = named.partition("=")
            path = given.work / "cells" / f"{world.folder.replace('/', '-')}-{name}-{N_STUDIED}-{N_ROWS}.json"
            if not path.exists():
                sys.stderr.write(f"{path.name}\n")
                rows = task_data(world, given.data)
                kept = _kept(given.answers, world, "softmax", 0)
                sets = [one for one in rows.setup.sets if one.role in ("in", "out") and one.name in kept]
                sizes = {one.name: len(kept[one.name].confidence) for one in sets}
                read = read_world(rows, sizes, open_reader(folder or name), given.work)
                found = measure(world, given.answers, read, sets[0].name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(found), encoding="utf-8")
            cells.append((world, name, json.loads(path.read_text(encoding="utf-8"))))
    text = page([(world.judged, world.n_seeds, name, cell) for world, name, cell in cells])
    if given.page is not None:
        given.page.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
