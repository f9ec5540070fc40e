"""What the case of words adds to knn-ue-entity where the tagger sees capitals itself: the cased one of `reproduce`.

    knn-ue reproduce ner --scale reference --data DIR --out OUT --encoder ner=cased
    python benchmarks/entity_case_cased.py --data DIR --out OUT --encoder cased --seeds 3 [--json FILE]

Outputs of the plain taggers in OUT are used again, or made now. "Without" is what the library does for such a tagger:
the same method, fitted on the same sentences without their words.
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entity_case import right, row, spread
from knn_ue import metrics
from knn_ue.calibrators import KnnUEEntity
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.types import Outputs
from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.variants import MethodVariant

TASK = "ner"
METRICS = {"ece": "ECE %", "e_aurc": "E-AURC ×1000", "log_loss": "log-loss"}
DIGITS = {"ece": 1, "e_aurc": 0, "log_loss": 3}
INDEX = IndexOptions(factory="PCA64,IVF256,Flat", n_probe=16, refine_factor=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    request = Request(out=options.out, scale="reference", data=options.data, task_encoders={TASK: options.encoder})
    runner = Reproduction(request, print).runners[TASK]
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for seed in range(options.seeds):
        train, validation = (words_of(runner, seed, part) for part in ("train", "fitting"))
        store = Datastore.build(train.features, train.labels, index=INDEX)
        fits = {
            "without": KnnUEEntity(store).fit(replace(validation, words=None)),
            "with": KnnUEEntity(store).fit(validation),
        }
        for name in runner.data.sets:
            outputs = words_of(runner, seed, name)
            for kind, fit in fits.items():
                read = fit.read(outputs if kind == "with" else replace(outputs, words=None))
                found.setdefault(name, {}).setdefault(kind, []).append(measured(read.scores, right(outputs)))
        print(f"seed {seed}", flush=True)
    print("\n".join(table(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def words_of(runner: Any, seed: int, part: str) -> Outputs:
    """Return what the plain tagger says of a part, with its words."""
    outputs = runner.outputs(MethodVariant(method="knn-ue-entity"), seed, part)
    words = [word for one in runner.rows_of(part)[0] for word in one.tokens]
    return replace(outputs, words=words, layers=None, views=None)


def measured(scores: Any, correct: Any) -> dict[str, float]:
    p = np.clip(np.where(correct, scores, 1 - scores), 1e-12, 1)
    return {
        "ece": 100 * metrics.expected_calibration_error(confidence=scores, correct=correct),
        "e_aurc": 1000 * metrics.e_aurc(confidence=scores, correct=correct),
        "log_loss": float(-np.log(p).mean()),
    }


def table(found: dict[str, dict[str, list[dict[str, float]]]]) -> list[str]:
    """Return both fits on every set, mean and deviation over seeds."""
    columns = [f"{head} {kind}" for head in METRICS.values() for kind in ("without", "with")]
    lines = [row(["", *columns]), f"|---|{'--:|' * len(columns)}"]
    for name, kinds in found.items():
        cells = [spread([x[key] for x in kinds[kind]], DIGITS[key]) for key in METRICS for kind in ("without", "with")]
        lines.append(row([name, *cells]))
    means = [
        statistics.mean(x[key] for kinds in found.values() for x in kinds[kind])
        for key in METRICS
        for kind in ("without", "with")
    ]
    digits = [DIGITS[key] for key in METRICS for _ in range(2)]
    return [*lines, row(["**mean**", *(f"{x:.{d}f}" for x, d in zip(means, digits, strict=True))])]


if __name__ == "__main__":
    main()
