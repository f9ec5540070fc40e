"""Every method, trained and evaluated the same way on one real task: quality over seeds, and what each method costs.

    python benchmarks/methods.py --work DIR [--seeds 3] [--train-rows 3000] [--json FILE]
    python benchmarks/methods.py --work DIR --task ner --train F --validation F --test F --ood F [...]

The default task is vader:movies, with Amazon, NYT and tweets out of domain. MiniLM, the fast preset. Each trained model
and each measured cell is kept in DIR, so that a run that was stopped goes on where it was. The score a method is chosen
by never sees test or out-of-domain rows: early stopping and the fit read validation rows only. The epsilon of label
smoothing is chosen with the first seed.
Times are ratios to `softmax` in the same process, median of three; memory is what the UE folder holds beyond the model.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitted import some_rows
from knn_ue import metrics
from knn_ue.data.splits import half_of
from knn_ue.demo.minilm import model_folder
from knn_ue.methods import METHODS
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from knn_ue.training.folder import read_record
from knn_ue.types import Outputs
from knn_ue_lab.training.label_smoothing import LabelSmoothing

TASKS = {"text": "text-classification", "pair": "text-pair", "ner": "token-classification"}
OUT_OF_DOMAIN = ["vader:amazon", "vader:nyt", "vader:tweets"]
TIMED_ROWS = 256
REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, default="text")
    parser.add_argument("--train", default="vader:movies:train")
    parser.add_argument("--validation", default="vader:movies:validation")
    parser.add_argument("--test", default="vader:movies:test")
    parser.add_argument("--ood", nargs="*", default=OUT_OF_DOMAIN)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-rows", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=1500, help="of every other set, at most")
    parser.add_argument("--max-length", type=int, default=48)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    arguments.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in arguments.methods if TASKS[arguments.task] in METHODS[name].tasks]
    cells = [cell(name, seed, arguments) for seed in range(arguments.seeds) for name in names]
    show(cells, names)
    if arguments.json:
        about = {key: value for key, value in vars(arguments).items() if key not in {"work", "json"}}
        arguments.json.write_text(json.dumps({**about, "cells": cells}, indent=1, default=str) + "\n")


def cell(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what one method did with one seed, measured now or read from an earlier run."""
    kept = arguments.work / f"{arguments.task}-{name}-{seed}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    task = TASKS[arguments.task]
    model = trained(name, seed, arguments)
    pipe = UncertaintyPipeline.from_pretrained(model, task, device="cpu")
    began = time.perf_counter()
    pipe.fit(some_rows(arguments.train, task, arguments.train_rows), validation_halves(arguments)[1], method=name)
    result: dict[str, Any] = {"method": name, "seed": seed, "fit_seconds": time.perf_counter() - began}
    result |= json.loads((model / "train-time.json").read_text())
    test = some_rows(arguments.test, task, arguments.rows)
    outputs = pipe.outputs(test)
    result["test"], confidence = quality(pipe, outputs)
    for source in arguments.ood:
        elsewhere = pipe.outputs(some_rows(source, task, arguments.rows))
        measured, other = quality(pipe, elsewhere)
        measured["detection_auroc"] = metrics.ood_detection(id_confidence=confidence, ood_confidence=other).auroc
        result[source] = measured
    result |= costs(pipe, model, arguments, test[:TIMED_ROWS])
    kept.write_text(json.dumps(result))
    print(f"{name} seed {seed}: {result['test']}", flush=True)
    return result


def trained(name: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Return the folder of the model the method needs, trained now or before: one serves all methods that share it."""
    training = METHODS[name].training()
    folder = arguments.work / f"{arguments.task}-model-{training.name}-{seed}"
    if isinstance(training, LabelSmoothing) and seed > 0:  # the grid is searched with the first seed only
        chosen = read_record(arguments.work / f"{arguments.task}-model-{training.name}-0")
        training = LabelSmoothing(**chosen["method_options"])
    if not (folder / "train-time.json").exists():
        task = TASKS[arguments.task]
        began = time.perf_counter()
        finetune(
            some_rows(arguments.train, task, arguments.train_rows),
            validation_halves(arguments)[0],
            task=task,
            encoder=model_folder(),
            out=folder,
            options=replace(TrainingOptions.fast(seed=seed), max_length=arguments.max_length),
            method=training,
            overwrite=True,
            device="cpu",
        )
        spent = {"train_seconds": time.perf_counter() - began}
        (folder / "train-time.json").write_text(json.dumps(spent))
    return folder


def validation_halves(arguments: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Return the rows that stop the training and those that fit the method: never the same ones."""
    found = some_rows(arguments.validation, TASKS[arguments.task], arguments.rows)
    first = half_of(len(found), second=False, seed=0)
    return [r for i, r in enumerate(found) if i in first], [r for i, r in enumerate(found) if i not in first]


def quality(pipe: UncertaintyPipeline, outputs: Outputs) -> tuple[dict[str, float], Any]:
    """Return the numbers of a set in percent, and the confidence of each answer (entities in tagging)."""
    prediction = pipe.calibrator_.predict(outputs)
    labels = outputs.require_labels("the benchmark")
    confidence, correct = scored_answers(outputs, pipe.calibrator_)
    return {
        "accuracy": 100 * float((prediction.predicted == labels).mean()),
        "right_answers": 100 * float(np.mean(correct)),
        "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct),
        "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
        "mean_confidence": 100 * float(np.mean(confidence)),
    }, confidence


def costs(pipe: UncertaintyPipeline, model: Path, arguments: argparse.Namespace, texts: list[Any]) -> dict[str, float]:
    """Return the time of answers relative to the plain softmax of the same model family, and the extra bytes."""
    folder = arguments.work / "ue"
    pipe.save(folder)
    stored = sum(file.stat().st_size for file in folder.glob("calibrator.*/**/*") if file.is_file())
    head = model / "knn_ue_head.safetensors"
    plain_model = trained("softmax", 0, arguments)
    plain = UncertaintyPipeline.from_pretrained(plain_model, pipe.task, device="cpu")
    plain.fit(texts, texts, method="softmax")
    ratios = [seconds(pipe, texts) / seconds(plain, texts) for _ in range(REPEATS)]
    return {
        "time_ratio": statistics.median(ratios),
        "extra_bytes": stored + (head.stat().st_size if head.exists() else 0),
    }


def seconds(pipe: UncertaintyPipeline, texts: list[Any]) -> float:
    began = time.perf_counter()
    pipe.calibrator_.predict(pipe.outputs(texts))
    return time.perf_counter() - began


def show(cells: list[dict[str, Any]], names: list[str]) -> None:
    """Print one line a method and set: mean and standard deviation over the seeds."""
    sets = [key for key in cells[0] if isinstance(cells[0][key], dict)]
    for chosen in sets:
        keys = list(cells[0][chosen])
        print(f"\n| {chosen} | " + " | ".join(keys) + " |\n|---|" + "---:|" * len(keys))
        for name in names:
            found = [one[chosen] for one in cells if one["method"] == name]
            print(f"| {name} | " + " | ".join(spread([one[key] for one in found]) for key in keys) + " |")
    keys = ["train_seconds", "fit_seconds", "time_ratio", "extra_bytes"]
    print("\n| cost | " + " | ".join(keys) + " |\n|---|" + "---:|" * len(keys))
    for name in names:
        found = [one for one in cells if one["method"] == name]
        print(f"| {name} | " + " | ".join(f"{statistics.median(one[key] for one in found):.3g}" for key in keys) + " |")


def spread(values: list[float]) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}"


if __name__ == "__main__":
    main()
