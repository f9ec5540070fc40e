"""Does it help to fit the correctness of a whole answer directly, as knn-ue-entity does for entities?

    python benchmarks/answers.py MODEL --task text --train F --validation F --test F [--ood F ...] [--json FILE]

Half of the validation rows, those that did not stop the training, fit every method. "direct" is the signed regression
of `knn_ue.entities.logistic` on three ingredients: log-odds of the answer, log distance to the nearest training example
relative to the validation median, share of the neighbors with the answer. ECE in %, E-AURC x 1000, Brier in %.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import FloatArray
from knn_ue.calibrators import KnnUE
from knn_ue.data import read_rows
from knn_ue.data.splits import half_of
from knn_ue.entities.logistic import Guess, fit_signed_logistic
from knn_ue.methods import make_calibrator
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.types import Outputs
from knn_ue.weighting import agreement

TASKS = {"text": "text-classification", "pair": "text-pair"}
METHODS = ("softmax", "temperature", "knn-ue-no-label", "knn-ue")
GUESS = Guess(
    center=(2.0, 0.0, 0.9), scale=(1.5, 0.4, 0.2), intercept=1.0, slopes=(0.8, -0.3, 0.2), strength=(10.0, 10.0, 10.0)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--validation", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    task: Any = TASKS[arguments.task]
    pipe = UncertaintyPipeline.from_pretrained(arguments.model, task, device="cpu")
    train = pipe.outputs(list(read_rows(arguments.train, task)))
    rows = list(read_rows(arguments.validation, task))
    validation = pipe.outputs([rows[row] for row in sorted(half_of(len(rows), second=True, seed=0))])
    fitted = {name: make_calibrator(name, train).fit(validation) for name in METHODS}
    searcher = fitted["knn-ue"]
    assert isinstance(searcher, KnnUE)
    usual = float(np.median(searcher.store.search(validation.require_features("distance"), 1).distances))
    direct = fit_signed_logistic(ingredients(searcher, validation, usual), correct(validation), GUESS)
    print(f"slopes of log-odds, distance, agreement: {[round(x, 2) for x in direct.slopes]}")
    found = {}
    for source in (arguments.test, *arguments.ood):
        outputs = pipe.outputs(list(read_rows(source, task))[: arguments.rows])
        scores = {name: calibrator.predict(outputs).confidence for name, calibrator in fitted.items()}
        scores["direct"] = direct.probability(ingredients(searcher, outputs, usual))
        found[Path(source).name] = {name: measured(score, correct(outputs)) for name, score in scores.items()}
        print(f"\n| {Path(source).name} | ECE | E-AURC | Brier |\n|---|---:|---:|---:|")
        for name, numbers in found[Path(source).name].items():
            print(f"| {name} | {numbers['ece']:.1f} | {numbers['e_aurc']:.1f} | {numbers['brier']:.1f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def ingredients(searcher: KnnUE, outputs: Outputs, usual: float) -> FloatArray:
    """Return log-odds of the answer, log distance and agreement (n, 3)."""
    shifted = np.sort(outputs.logits.astype(np.float64), axis=1)
    rest = shifted[:, :-1]
    odds = shifted[:, -1] - (rest.max(axis=1) + np.log(np.exp(rest - rest.max(axis=1, keepdims=True)).sum(axis=1)))
    near = searcher.store.search(outputs.require_features("ingredients"), searcher.n_neighbors)
    distance = np.clip(np.log(np.maximum(near.distances[:, 0], 1e-9) / usual), -1.0, 3.0)
    return np.column_stack([np.clip(odds, -12, 12), distance, agreement(near, outputs.predicted)])


def correct(outputs: Outputs) -> Any:
    return outputs.predicted == outputs.require_labels("the benchmark")


def measured(confidence: FloatArray, right: Any) -> dict[str, float]:
    return {
        "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=right),
        "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=right),
        "brier": 100 * float(np.mean((confidence - right) ** 2)),
    }


if __name__ == "__main__":
    main()
