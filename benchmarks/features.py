"""Which features serve kNN-UE best: first token, mean, both, more layers; on the arrays of `lab.py`.

    python benchmarks/features.py --lab ../cache/lab [--tasks movies mnli imdb] [--json benchmarks/features.json]

Every choice comes from the same forward pass of the same models: the logits, and so the accuracy, are equal. Both
poolings, or several layers, are concatenated after each was normalized to length 1. ECE, NLL and E-AURC on the test
set and on every other labeled set; `wins` counts set x seed cells in which a choice beats the first token alone.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import Datastore, KnnUE, Outputs, evaluate
from lab_arrays import IN_DOMAIN, Arrays, read_set, seeds_of, set_names, shown, unit

METRICS = {"ece": 100.0, "nll": 100.0, "e_aurc": 1000.0}
# pooling and layers, as `EncodingOptions` names them
CHOICES: dict[str, tuple[str, tuple[int, ...]]] = {
    "cls": ("cls", (-1,)),
    "mean": ("mean", (-1,)),
    "cls+mean": ("cls+mean", (-1,)),
    "cls+mean, layers -2 -1": ("cls+mean", (-2, -1)),
    "cls, layers -2 -1": ("cls", (-2, -1)),
    "cls+mean, layers 3 6": ("cls+mean", (3, 6)),
}


def main() -> None:
    """Print a table per task and metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, default=Path("../cache/lab"))
    parser.add_argument("--tasks", nargs="+", default=["movies", "mnli", "imdb"])
    parser.add_argument("--json", type=Path, help="also write all numbers here")
    arguments = parser.parse_args()
    found = {}
    for task in arguments.tasks:
        folders = seeds_of(arguments.lab, task)
        if folders:
            found[task] = [_measure(folder) for folder in folders]
            _print(task, found[task])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def _measure(folder: Path) -> dict[str, Any]:
    """Return choice -> set -> metric of one model."""
    sets = {name: read_set(folder, name) for name in set_names(folder)}
    sets = {name: arrays for name, arrays in sets.items() if (arrays["labels"] >= 0).all()}
    result: dict[str, Any] = {}
    for choice, (pooling, layers) in CHOICES.items():
        outputs = {name: _outputs(arrays, pooling, layers) for name, arrays in sets.items()}
        train = outputs["train"]
        ue = KnnUE(Datastore.build(train.features, train.labels)).fit(outputs["validation"])
        for name in (name for name in sets if name not in IN_DOMAIN[:2]):
            scores = evaluate(ue, outputs[name])["calibrated"]
            result.setdefault(choice, {})[name] = {metric: scores[metric] for metric in METRICS}
    print(f"  {folder} measured", file=sys.stderr, flush=True)
    return result


def _outputs(arrays: Arrays, pooling: str, layers: tuple[int, ...]) -> Outputs:
    names = {"cls": ("first",), "mean": ("mean",), "cls+mean": ("first", "mean")}[pooling]
    parts = [arrays[name][:, layer].astype(np.float32) for layer in layers for name in names]
    features = parts[0] if len(parts) == 1 else np.concatenate([unit(part) for part in parts], axis=1)
    return Outputs(features=features, logits=arrays["logits"], labels=arrays["labels"])


def _print(task: str, seeds: list[dict[str, Any]]) -> None:
    names = list(seeds[0]["cls"])
    for metric, factor in METRICS.items():
        print(f"\n### {task}: {metric} x {factor:g}, {len(seeds)} seed(s)\n")
        print(f"| | {' | '.join(names)} | mean | wins |\n|---|{'--:|' * (len(names) + 2)}")
        for choice in CHOICES:
            values = np.array([[factor * seed[choice][name][metric] for seed in seeds] for name in names])
            base = np.array([[factor * seed["cls"][name][metric] for seed in seeds] for name in names])
            wins = "" if choice == "cls" else f"{int((values < base).sum())} of {values.size}"
            cells = [shown(row.tolist()) for row in values]
            print(f"| {choice} | {' | '.join(cells)} | {shown(values.mean(axis=0).tolist())} | {wins} |", flush=True)


if __name__ == "__main__":
    main()
