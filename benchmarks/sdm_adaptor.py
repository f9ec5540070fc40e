"""SDM with the adaptor network that its authors train, by their own package, beside our methods on the same models.

    python benchmarks/sdm_adaptor.py --work DIR --data ../shared/data [--tasks sentiment] [--seeds 0]
    python benchmarks/sdm_adaptor.py            # prints the table of sdm_adaptor.json
    python benchmarks/sdm_adaptor.py --write    # puts it into docs/methods_results.md

Models, rows and features are those of `knn-ue reproduce --scale reference`: a plain fine-tuned model per seed, frozen
afterwards. All methods see the training rows and the validation rows that did not stop the training.

  softmax, temperature, knn-ue, sdm    as in the reproduction; sdm is the activation alone
  sdm-2048                             sdm that counts up to 2,048 neighbors, as the authors do, not 32; JSON only
  sdm-adaptor                          reexpress-sdm on the features: training and validation rows are pooled and cut in
                                       two random halves, one to train the adaptor, one to calibrate (their default)
  sdm-adaptor-split                    the same without pooling: trained on our training rows, calibrated on our
                                       validation rows; left out where these lack a class, which the package refuses

Settings of reexpress-sdm: the command of its README ("J independent training iterations"): 5 shuffles of 50 epochs,
1,000 columns, batch 64, learning rate 1e-5, 2,048 neighbors, alpha in steps of 0.05. Without pooling the 5 iterations
would differ only by their first weights, so there is one. On NLI this command would take 40 minutes of one core per
training: there it has the package's defaults, 1 shuffle of 20 epochs, and 5 epochs without pooling, where the loss was
lowest after the second. The authors' paper trains longer: 10 shuffles of 200 epochs. --epochs overrules all this.
Nothing is chosen on test or out-of-domain rows; the package keeps the epoch and shuffle with the lowest loss on its
calibration rows. The JSON has that loss for each epoch.

Intent (CLINC150, 150 classes) is measured and not in the table: the package is meant for 2 to 5 classes, and here its
training does not start. After the first epoch some class has no row with an agreeing neighbor, so d is 0 for all rows,
all answers are uniform and the gradient vanishes.

An adaptor has its own classifier and may answer differently. Accuracy, ECE, E-AURC and the Brier score are those of
each method's own answers and its confidence in them; AUROC is that of confidence as an OOD detector, in-domain test
rows against each other set. High Reliability: rows that the package's SelectionPolicy accepts (alpha 0.95); for the
others the accuracy of as many of their most confident rows as sdm-adaptor-split accepts ("same"). Out of domain: mean
over the sets. Mean ± sample standard deviation over seeds. Each task and seed is kept in the JSON as it finishes.

Minutes of one core per seed: fine-tuning 5 to 10 (intent 1); sentiment 10, intent 4, NLI 5 for the adaptors.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.errors import InvalidInputError
from knn_ue.methods import make_calibrator
from knn_ue.types import Outputs
from knn_ue_lab.calibrators import SdmActivation
from readme_table import with_table

RESULTS = Path(__file__).with_suffix(".json")
TARGET = Path(__file__).parent.parent / "docs" / "methods_results.md"
TASKS = ("sentiment", "nli", "intent")
SHOWN_TASKS = ("sentiment", "nli")
OURS = ("softmax", "temperature", "sdm", "sdm-2048", "knn-ue")
POOLED, SPLIT = "sdm-adaptor", "sdm-adaptor-split"
IN_TABLE = ("softmax", "temperature", "sdm", POOLED, SPLIT, "knn-ue")
README = {"shuffles": 5, "epochs": 50, "split_epochs": 50}
SCHEDULES = {"sentiment": README, "intent": README, "nli": {"shuffles": 1, "epochs": 20, "split_epochs": 5}}
MOST_NEIGHBORS = 2048
UNITS = {"accuracy": 100, "ece": 100, "e_aurc": 1000, "brier": 100}

# predicted class, confidence in it, and whether the method's own rule accepts the row, where it has one
Answer = Callable[[Outputs], tuple[np.ndarray, FloatArray, BoolArray | None]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of models and outputs; without it nothing is measured")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, help="instead of those of the task")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()

    if arguments.work:
        measure_all(arguments)
    shown = table(json.loads(arguments.json.read_text())["cells"])
    if arguments.write:
        TARGET.write_text(with_table(TARGET.read_text(encoding="utf-8"), "sdm adaptor", shown), encoding="utf-8")
    else:
        print(shown)


def measure_all(arguments: argparse.Namespace) -> None:
    """Measure each task and seed that the JSON lacks, seed by seed, and keep each as it finishes."""
    from knn_ue_lab.reproduce.reproduction import MINILM, Reproduction, Request

    # Taggers are not measured here, so their encoder need not be there.
    request = Request(out=arguments.work, scale="reference", data=arguments.data, task_encoders={"ner": MINILM})
    try:
        runners = Reproduction(request, say=lambda line: print(line, flush=True)).runners
    except InvalidInputError as error:
        raise SystemExit(str(error)) from None
    missing = [task for task in arguments.tasks if task not in runners]
    if missing:
        raise SystemExit(f"{arguments.data} has no {', '.join(missing)}: add it or name other --tasks")
    cells = json.loads(arguments.json.read_text())["cells"] if arguments.json.exists() else []
    for seed in arguments.seeds:
        for task in arguments.tasks:
            if not any((cell["task"], cell["seed"]) == (task, seed) for cell in cells):
                fewer = {"epochs": arguments.epochs, "split_epochs": arguments.epochs} if arguments.epochs else {}
                cells.append(measure(runners[task], seed, SCHEDULES[task] | fewer))
                cells.sort(key=lambda cell: (TASKS.index(cell["task"]), cell["seed"]))
                arguments.json.write_text(json.dumps({"cells": cells}, indent=1) + "\n")


def measure(runner: Any, seed: int, schedule: Mapping[str, int]) -> dict[str, Any]:
    """Return what every method says of the test sets of one task, with the model of one seed."""
    from knn_ue_lab.reproduce.variants import MethodVariant

    variant = MethodVariant(method="knn-ue")  # the model, its features and logits are the same for all methods here
    train, fitting = (runner.outputs(variant, seed, part) for part in ("train", "fitting"))
    parts = {one.name: one for one in runner.setup.sets if one.role != "human"}
    outputs = {name: runner.outputs(variant, seed, name) for name in parts}
    cell: dict[str, Any] = {"task": runner.setup.name, "seed": seed, "schedule": dict(schedule), "training": {}}
    with runner.fixed_threads():
        answers = {name: calibrated(name, train, fitting) for name in OURS}
        for name, pooled in ((POOLED, True), (SPLIT, False)):
            if pooled or len(np.unique(fitting.labels)) == fitting.n_classes:
                answers[name], cell["training"][name] = adaptor(train, fitting, seed, schedule, pooled=pooled)
        cell["sets"] = {name: {"role": one.role, "n": len(outputs[name]), "methods": {}} for name, one in parts.items()}
        said = {method: {name: answer(outputs[name]) for name in parts} for method, answer in answers.items()}
    inside = next(iter(parts))
    for name, found in cell["sets"].items():
        for method in said:
            labels = None if found["role"] == "outside" else outputs[name].labels
            scores = scores_of(*said[method][name], labels)
            scores["changed"] = float(np.mean(said[method][name][0] != outputs[name].predicted))
            if name != inside:
                confidence = {"id_confidence": said[method][inside][1], "ood_confidence": said[method][name][1]}
                scores["detection"] = metrics.ood_detection(**confidence).auroc
            found["methods"][method] = scores
        for method, scores in found["methods"].items():
            if "accuracy" in scores:
                predicted, confidence, _ = said[method][name]
                shares = {rival: found["methods"][rival]["admitted"] for rival in answers if rival in (POOLED, SPLIT)}
                scores["right_at"] = {
                    rival: right_at(share, confidence, predicted == outputs[name].labels)
                    for rival, share in shares.items()
                }
    minutes = {name: f"{found['cpu_seconds'] / 60:.1f} minutes" for name, found in cell["training"].items()}
    print(f"{cell['task']} seed {seed}: {minutes}", flush=True)
    return cell


def calibrated(name: str, train: Outputs, fitting: Outputs) -> Answer:
    """Return what a calibrator of ours says, fitted on the validation rows."""
    calibrator = make_calibrator(name.removesuffix("-2048"), train)
    if name == "sdm-2048":
        assert isinstance(calibrator, SdmActivation)
        calibrator.n_neighbors = MOST_NEIGHBORS
    calibrator.fit(fitting)

    def answer(outputs: Outputs) -> tuple[np.ndarray, FloatArray, None]:
        found = calibrator.predict(outputs)
        return found.predicted, found.confidence, None

    return answer


def adaptor(
    train: Outputs, fitting: Outputs, seed: int, schedule: Mapping[str, int], *, pooled: bool
) -> tuple[Answer, dict[str, Any]]:
    """Train the authors' adaptor network on features, and return what it says, and how the training went."""
    from reexpress_sdm import SDMController, SDMModel, TrainingConfig, train_iterations

    began = time.process_time()
    # Iterations have the seeds after the first one: those of our seeds must not overlap.
    epochs = schedule["epochs" if pooled else "split_epochs"]
    config = TrainingConfig(number_of_classes=train.n_classes, epochs=epochs, seed=100 * seed)
    features, labels = ([np.asarray(getattr(one, name)) for one in (train, fitting)] for name in ("features", "labels"))
    if pooled:  # the package pools them again: any cut will do, and it refuses one with a half that lacks a class
        features, labels = ([np.concatenate(both)[half::2] for half in (0, 1)] for both in (features, labels))
    result = train_iterations(
        config,
        *(features[0], labels[0], features[1], labels[1]),
        shuffle_training_and_calibration=pooled,
        number_of_random_shuffles=schedule["shuffles"] if pooled else 1,
        backend_options={"device": "cpu"},
    )
    controller = SDMController(SDMModel(result.artifact, device="cpu"))

    def answer(outputs: Outputs) -> tuple[np.ndarray, FloatArray, BoolArray]:
        scores = controller.score(np.asarray(outputs.features), nearest_exemplars=0)
        predicted = np.array([score.prediction for score in scores])
        confidence = np.array([score.sdm for score in scores], dtype=np.float64)[np.arange(len(scores)), predicted]
        admitted = np.array([decision.action == "allow" for decision in controller.decide(scores)])
        return predicted, np.clip(confidence, 0.0, 1.0), admitted

    best = [row for row in result.history if row["iteration"] == result.best_iteration]
    return answer, {
        "cpu_seconds": time.process_time() - began,
        "best_epoch": result.best_epoch,
        "best_iteration": result.best_iteration,
        "calibration_loss": [float(row["balancedCalibrationSDMLoss"]) for row in best],
        "calibration_accuracy": [float(row["balancedCalibrationAccuracy"]) for row in best],
        "regions": [region.alpha for region in result.artifact.regions],
    }


def scores_of(
    predicted: np.ndarray, confidence: FloatArray, admitted: BoolArray | None, labels: np.ndarray | None
) -> dict[str, Any]:
    """Return the numbers of one set as fractions; those of right and wrong answers where there are labels.

    >>> found = scores_of(np.array([0, 1]), np.array([0.9, 0.6]), np.array([True, False]), np.array([0, 0]))
    >>> found["accuracy"], found["admitted"], found["admitted_right"]
    (0.5, 0.5, 1.0)
    """
    found: dict[str, Any] = {"confidence": float(np.mean(confidence))}
    if admitted is not None:
        found["admitted"] = float(np.mean(admitted))
    if labels is None:
        return found
    correct = predicted == labels
    if admitted is not None:
        found["admitted_right"] = float(np.mean(correct[admitted])) if admitted.any() else None
    answers = {"confidence": confidence, "correct": correct}
    return found | {
        "accuracy": float(np.mean(correct)),
        "ece": metrics.expected_calibration_error(**answers),
        "e_aurc": metrics.e_aurc(**answers),
        "aurc": metrics.aurc(**answers),
        "brier": metrics.brier_top_label(**answers),
    }


def right_at(share: float, confidence: FloatArray, correct: BoolArray) -> float | None:
    """Return the accuracy of the most confident share of rows, None where it is empty.

    >>> right_at(0.5, np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, False]))
    1.0
    """
    return 1.0 - metrics.risk_at_coverage(confidence=confidence, correct=correct, coverage=share) if share else None


def table(cells: list[dict[str, Any]]) -> str:
    """Return the Markdown of the table."""
    measures = "accuracy % ↑", "ECE % ↓", "E-AURC ×1000 ↓", "Brier % ↓"
    head = [*measures, *(f"OOD {name}" for name in measures), "detection AUROC % ↑"]
    head += [f"{where}High Reliability: share %; right %" for where in ("", "OOD ")]
    lines = [f"| task (seeds), method | {' | '.join(head)} |", f"| --- |{' --: |' * len(head)}"]
    for task in SHOWN_TASKS:
        seeds = [cell for cell in cells if cell["task"] == task]
        for method in IN_TABLE:
            measured = [cell for cell in seeds if method in next(iter(cell["sets"].values()))["methods"]]
            if measured:
                shown = " | ".join(columns(measured, method))
                lines.append(f"| {task} ({len(measured)}), `{method}` | {shown} |")
    return "\n".join(lines)


def columns(cells: list[dict[str, Any]], method: str) -> Iterator[str]:
    """Yield the cells of a row of the table."""
    inside, labeled, others = ([list(sets_of(cell, method, which)) for cell in cells] for which in ("in", "out", "ood"))
    for sets in (inside, labeled):
        for name, unit in UNITS.items():
            yield spread([[unit * one[name] for one in found] for found in sets])
    yield spread([[100 * one["detection"] for one in found] for found in others])
    for sets in (inside, labeled):
        if method in (POOLED, SPLIT):
            share = spread([[100 * one["admitted"] for one in found] for found in sets])
            right = [[one["admitted_right"] for one in found] for found in sets]
        else:
            share = "same"
            right = [[one["right_at"][SPLIT] for one in found] for found in sets]
        known = spread([[100 * one for one in found if one is not None] for found in right])
        yield f"{share}; {known}" if any(right) and (share != "same" or known != "–") else "–"


def sets_of(cell: Mapping[str, Any], method: str, which: str) -> Iterator[dict[str, Any]]:
    """Yield the numbers of the in-domain test set, of labeled sets of other domains, or of all other sets."""
    for found in cell["sets"].values():
        role = found["role"]
        if role == which or (which == "ood" and role != "in"):
            yield found["methods"][method]


def spread(by_seed: list[list[float]]) -> str:
    """Return mean and sample standard deviation over seeds of the mean of each seed's values.

    >>> spread([[1.0, 3.0], [4.0]]), spread([[], []])
    ('3.0 ± 1.4', '–')
    """
    means = [statistics.mean(values) for values in by_seed if values]
    if not means:
        return "–"
    return f"{statistics.mean(means):.1f}" + (f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else "")


if __name__ == "__main__":
    main()
