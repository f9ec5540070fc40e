"""Detecting inputs of another kind: `Familiarity` beside the detectors of pytorch-ood, on the arrays of `lab.py`.

    python benchmarks/familiarity.py --lab ../cache/lab [--tasks movies mnli imdb] [--json benchmarks/familiarity.json]

Test rows and rows of each other set are drawn with equal lengths (in tokens), so that nothing is detected by length.
The rivals read the penultimate features (what the last linear layer reads) and the logits, as their papers do; kNN
also reads the mean over the tokens of the middle layer. No method sees a row of another set before it is measured.
pytorch-ood must be importable (pip install --no-deps pytorch-ood); only its detectors are loaded.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from knn_ue import metrics
from knn_ue.familiarity import Familiarity
from lab_arrays import IN_DOMAIN, Arrays, matched, read_set, seeds_of, set_names, shown, unit, with_views

OURS = "familiarity (ours)"
RATE = 0.01
Score = Callable[[Arrays], np.ndarray[Any, Any]]


def main() -> None:
    """Print a table per task: AUROC, then the share that is flagged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, default=Path("../cache/lab"))
    parser.add_argument("--tasks", nargs="+", default=["movies", "mnli", "imdb"])
    parser.add_argument("--json", type=Path, help="also write all numbers here")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    found = {}
    for task in arguments.tasks:
        folders = seeds_of(arguments.lab, task)
        if folders:
            found[task] = [_measure(folder) for folder in folders]
            _print(task, found[task])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def _measure(folder: Path) -> dict[str, Any]:
    """Return AUROC of every method on every set, and how often ours raises its flag."""
    train, validation, test = (read_set(folder, name) for name in IN_DOMAIN)
    head = load_file(folder / _model_file(folder))
    familiarity = Familiarity(with_views(train), false_alarm_rate=RATE).fit(with_views(validation))
    methods = _rivals(train, head) | {OURS: lambda arrays: familiarity.score(with_views(arrays))}
    inside = {name: score(test) for name, score in methods.items()}
    result: dict[str, Any] = {"seed": folder.name, "auroc": {}, "n_matched": {}, "flagged": {}}
    result["flagged"]["test"] = float(familiarity.is_unfamiliar(familiarity.p_value(with_views(test))).mean())
    for name in set_names(folder)[len(IN_DOMAIN) :]:
        other = read_set(folder, name)
        rows, other_rows = matched(test["length"], other["length"])
        result["n_matched"][name] = len(rows)
        for method, score in methods.items():
            detection = metrics.ood_detection(
                id_confidence=-inside[method][rows], ood_confidence=-score(other)[other_rows]
            )
            result["auroc"].setdefault(method, {})[name] = detection.auroc
        p_value = familiarity.p_value(with_views(other))[other_rows]
        result["flagged"][name] = float(familiarity.is_unfamiliar(p_value).mean())
    print(f"  {folder} measured", file=sys.stderr, flush=True)
    return result


def _rivals(train: Arrays, head: dict[str, Any]) -> dict[str, Score]:
    import torch

    detector = _detectors()
    pooled = _pooled(head)
    features, labels = torch.from_numpy(pooled(train)), torch.from_numpy(train["labels"])
    weight, bias = (torch.from_numpy(head[f"classifier.{name}"]).float() for name in ("weight", "bias"))
    by_logits = {"max softmax": detector.MaxSoftmax(None), "max logit": detector.MaxLogit(None)}
    by_logits["energy"] = detector.EnergyBased(None)
    by_features = {
        "kNN": detector.KNN(None).fit_features(features, labels),
        "Mahalanobis": detector.Mahalanobis(None).fit_features(features, labels),
        "relative Mahalanobis": detector.RMD(None).fit_features(features, labels),
        "ViM": detector.ViM(None, d=features.shape[1] // 2, w=weight, b=bias).fit_features(features, labels),
    }
    middle = _middle(train)
    near = detector.KNN(None).fit_features(torch.from_numpy(middle), labels)
    scores: dict[str, Score] = {}
    for name, found in by_logits.items():
        scores[name] = lambda arrays, d=found: d.predict_logits(torch.from_numpy(arrays["logits"])).numpy()
    for name, found in by_features.items():
        scores[name] = lambda arrays, d=found: d.predict_features(torch.from_numpy(pooled(arrays))).numpy()
    scores["kNN, middle layer, mean"] = lambda arrays: near.predict_features(torch.from_numpy(_middle(arrays))).numpy()
    return scores


def _middle(arrays: Arrays) -> np.ndarray[Any, Any]:
    return unit(arrays["mean"][:, arrays["mean"].shape[1] // 2])


def _pooled(head: dict[str, Any]) -> Score:
    """Return what BERT's head computes of the first token, which its last linear layer reads."""
    weight, bias = (next(head[key] for key in head if key.endswith(f"pooler.dense.{x}")) for x in ("weight", "bias"))
    return lambda arrays: np.tanh(arrays["first"][:, -1].astype(np.float32) @ weight.T + bias)


def _model_file(folder: Path) -> Path:
    return next((folder / "model").rglob("model.safetensors")).relative_to(folder)


@cache
def _detectors() -> Any:
    """Return pytorch_ood.detector alone: the package around it loads torchvision, which we do not need."""
    place = find_spec("pytorch_ood")
    if place is None or place.submodule_search_locations is None:
        raise SystemExit("pytorch-ood is missing: pip install --no-deps pytorch-ood")
    package = ModuleType("pytorch_ood")
    package.__path__ = list(place.submodule_search_locations)
    sys.modules["pytorch_ood"] = package
    return importlib.import_module("pytorch_ood.detector")


def _print(task: str, seeds: list[dict[str, Any]]) -> None:
    names = list(seeds[0]["n_matched"])
    print(f"\n### {task}: AUROC %, {len(seeds)} seed(s), lengths matched\n")
    print(f"| | {' | '.join(names)} | mean |\n|---|{'--:|' * (len(names) + 1)}")
    for method in seeds[0]["auroc"]:
        values = [[100 * seed["auroc"][method][name] for seed in seeds] for name in names]
        print(f"| {method} | {' | '.join(map(shown, values))} | {shown(np.mean(values, axis=0).tolist())} |")
    print(f"| rows of each set | {' | '.join(str(seeds[0]['n_matched'][name]) for name in names)} | |")
    flagged = [shown([100 * seed["flagged"][name] for seed in seeds]) for name in names]
    print(f"| flagged by ours at {RATE:.0%}, % | {' | '.join(flagged)} | |")
    print(f"\nFalse alarms on test: {shown([100 * seed['flagged']['test'] for seed in seeds])} %.", flush=True)


if __name__ == "__main__":
    main()
