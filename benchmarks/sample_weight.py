"""How long the measures of drawn texts take, the inner step of the bootstrap behind every verdict.

    python benchmarks/sample_weight.py [--against SRC] [--rounds 5] [--json benchmarks/sample_weight.json]

Metrics take `sample_weight`, and many weightings at once; before, the reproduction had a copy of 18 metrics for that.
With `--against`, the `src` folder of a version that still had it, both are timed in turn, each in processes of its own
with one thread. The fastest call of all rounds counts, in microseconds for one block of draws; `ratio` is new / old.
"""

import argparse
import json
import os
import subprocess
import sys
import timeit
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

N_TEXTS, N_DRAWS = 1000, 65  # the block that the bootstrap works on at a time
N_CALLS = 60
NEW, OLD = "knn_ue_lab.reproduce", "knn_ue.experiments"
ROOT = Path(__file__).parents[1]
TEXTS = (
    "right",
    "ece",
    "mce",
    "class_auroc",
    "auroc",
    "e_aurc_published",
    "e_aurc",
    "brier",
    "confidence_right",
    "human",
)
ENTITIES = ("f1", "ece", "mce", "auroc", "e_aurc_published", "e_aurc", "brier")
DETECTION = ("fpr95", "detection_auroc", "aupr_in", "aupr_out")


def measured(package: str) -> dict[str, float]:
    """Return the microseconds of each measure."""
    answers = import_module(f"{package}.answers").Answers
    measures_of = import_module(f"{package}.comparisons").measures_of
    rng = np.random.default_rng(0)

    def texts() -> Any:
        probs = rng.dirichlet(np.ones(3), N_TEXTS).astype(np.float32)
        labels = np.where(rng.random(N_TEXTS) < 0.7, probs.argmax(axis=1), rng.integers(3, size=N_TEXTS))
        human = np.where(rng.random(N_TEXTS) < 0.3, np.nan, rng.random(N_TEXTS))
        confidence, correct = probs.max(axis=1).astype(float), probs.argmax(axis=1) == labels
        rows = np.arange(N_TEXTS)
        return answers(confidence=confidence, correct=correct, probs=probs, labels=labels, human=human, group=rows)

    def entities(n_rows: int = 2000) -> Any:
        missed = rng.random(n_rows) < 0.2
        confidence = np.where(missed, 0.0, rng.random(n_rows))
        correct = (rng.random(n_rows) < confidence) & ~missed
        return answers(confidence=confidence, correct=correct, missed=missed, group=np.sort(rng.choice(1000, n_rows)))

    def counts(sample: Any) -> Any:
        drawn = rng.multinomial(N_TEXTS, np.full(N_TEXTS, 1 / N_TEXTS), size=N_DRAWS).T.astype(float)
        return np.ascontiguousarray(drawn[sample.group])

    taken = {}
    for kind, sample, names in (
        ("texts", (texts(),), TEXTS),
        ("entities", (entities(),), ENTITIES),
        ("detection", (texts(), texts()), DETECTION),
    ):
        arrays = (*sample, *map(counts, sample))
        for name, measure in measures_of(names).items():
            taken[f"{kind}: {name}"] = (
                min(timeit.repeat(partial(measure.drawn, *arrays), number=1, repeat=N_CALLS)) * 1e6
            )
    return taken


def worker(package: str, sources: str) -> dict[str, float]:
    """Return what a process of its own measures."""
    environment = os.environ | {"PYTHONPATH": sources, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--worker", package]
    shown = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(shown)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measured(arguments.worker)))
        return
    versions = {NEW: os.pathsep.join(map(str, (ROOT / "src", ROOT / "lab" / "src")))}
    if arguments.against:
        versions[OLD] = str(arguments.against)
    best: dict[str, dict[str, float]] = {package: {} for package in versions}
    for _ in range(arguments.rounds):
        for package, sources in versions.items():
            for name, microseconds in worker(package, sources).items():
                best[package][name] = min(microseconds, best[package].get(name, float("inf")))
    content: dict[str, Any] = {"texts": N_TEXTS, "draws": N_DRAWS, "rounds": arguments.rounds}
    content["microseconds"] = {name: round(found, 1) for name, found in best[NEW].items()}
    if arguments.against:
        content["before"] = {name: round(found, 1) for name, found in best[OLD].items()}
        content["ratio"] = {name: round(found / best[OLD][name], 3) for name, found in best[NEW].items()}
        content["ratio of the sums"] = round(sum(best[NEW].values()) / sum(best[OLD].values()), 3)
    print(json.dumps(content, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
