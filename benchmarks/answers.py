"""Does it help to fit the correctness of a whole answer directly, as knn-ue-entity does for entities?

    python benchmarks/answers.py --out knn-ue-reproduction --data ../shared/data [--seeds 3] [--json FILE]

Reads the models and outputs that `knn-ue reproduce` keeps in its folder. Validation rows that did not stop the training
fit every method. "direct" is the signed regression of `knn_ue.entities.logistic` on three ingredients: log-odds of the
answer, log distance to the nearest training example relative to the validation median, share of the neighbors with the
answer. ECE in %, E-AURC x 1000, Brier score of right and wrong in %; mean ± standard deviation over seeds.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import FloatArray
from knn_ue.calibrators import KnnUE
from knn_ue.entities.logistic import Guess, fit_signed_logistic
from knn_ue.methods import make_calibrator
from knn_ue.types import Outputs
from knn_ue.weighting import agreement
from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import MethodVariant

METHODS = ("softmax", "temperature", "knn-ue-no-label", "knn-ue")
PLAIN = MethodVariant(method="knn-ue")
GUESS = Guess(
    center=(2.0, 0.0, 0.9), scale=(1.5, 0.4, 0.2), intercept=1.0, slopes=(0.8, -0.3, 0.2), strength=(10.0, 10.0, 10.0)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="*", default=["sentiment", "nli", "intent"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    reproduction = Reproduction(
        Request(out=arguments.out, data=arguments.data, n_seeds=arguments.seeds, device="cpu"), print
    )
    lines = [
        line
        for name, runner in reproduction.runners.items()
        if name in arguments.tasks
        for seed in range(arguments.seeds)
        for line in measure(runner, seed)
    ]
    print_means(lines)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


def measure(runner: TaskRunner, seed: int) -> list[dict[str, Any]]:
    """Return the numbers of every method on every test set whose labels the model knows."""
    train, fitting = (runner.outputs(PLAIN, seed, part) for part in ("train", "fitting"))
    fitted = {name: make_calibrator(name, train).fit(fitting) for name in METHODS}
    searcher = fitted["knn-ue"]
    assert isinstance(searcher, KnnUE)
    usual = float(np.median(searcher.store.search(fitting.require_features("distance"), 1).distances))
    direct = fit_signed_logistic(ingredients(searcher, fitting, usual), correct(fitting), GUESS)
    lines: list[dict[str, Any]] = []
    for one in runner.setup.labeled:
        outputs = runner.outputs(PLAIN, seed, one.name)
        scores = {name: calibrator.predict(outputs).confidence for name, calibrator in fitted.items()}
        scores["direct"] = direct.probability(ingredients(searcher, outputs, usual))
        lines += [
            {"task": runner.setup.name, "seed": seed, "set": one.name, "method": name}
            | measured(score, correct(outputs))
            for name, score in scores.items()
        ]
    return lines


def print_means(lines: list[dict[str, Any]]) -> None:
    """Print ECE / E-AURC of every method, a row a test set."""
    names = (*METHODS, "direct")
    print(f"\n| | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for task, place in dict.fromkeys((line["task"], line["set"]) for line in lines):
        cells = []
        for name in names:
            found = [line for line in lines if (line["task"], line["set"], line["method"]) == (task, place, name)]
            cells.append(" / ".join(_mean([line[key] for line in found]) for key in ("ece", "e_aurc")))
        print(f"| {task}: {place} | {' | '.join(cells)} |")


def _mean(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


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
