"""How far a fit on few validation rows carries, for several lower bounds of tau, on any fitted UE folder.

    python benchmarks/tau_bound.py UE [UE ...] [--rows 50 150 500] [--repeats 8] [--json FILE]

For each size, kNN-UE is fitted on randomly drawn validation rows (sentences in tagging) of the folder and its log-loss
taken on the validation rows that were not drawn; test rows are never read. Mean, and the worst of the repeats.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, softmax
from knn_ue.calibrators import KnnUE, TemperatureScaling
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import fit_weight, knn_weight

BOUNDS = (0.1, 0.2, 0.5, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="UE")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 150, 500])
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    results = []
    for folder in arguments.folders:
        pipe = UncertaintyPipeline.load(folder, device="cpu")
        calibrator = pipe.calibrator_
        if not isinstance(calibrator, KnnUE):
            parser.error(f"{folder} was fitted with {pipe.method_}: only knn-ue has a tau")
        validation = pipe.validation_
        found = calibrator.store.search(validation.require_features("tau"), calibrator.n_neighbors)
        for n_rows in arguments.rows:
            for use_labels in (True, False):
                losses = measure(validation, found, n_rows, use_labels=use_labels, repeats=arguments.repeats)
                if losses is None:
                    continue
                name = "knn-ue" if use_labels else "knn-ue-no-label"
                results.append({"folder": folder.name, "rows": n_rows, "method": name, "losses": losses})
                shown = ", ".join(
                    f"{key} {statistics.mean(all_):.4f} ({max(all_):.3f})" for key, all_ in losses.items()
                )
                print(f"{folder.name}, {n_rows} rows, {name}: {shown}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(
    validation: Outputs, found: Neighbors, n_rows: int, *, use_labels: bool, repeats: int
) -> dict[str, list[float]] | None:
    """Return the log-losses of the rows that were not drawn, by bound; None where fewer than half would be left."""
    units = np.arange(len(validation)) if validation.groups is None else np.asarray(validation.groups)
    numbers = np.unique(units)
    if 2 * n_rows > len(numbers):
        return None
    random = np.random.default_rng(0)
    losses: dict[str, list[float]] = {}
    for _ in range(repeats):
        drawn = np.isin(units, random.choice(numbers, n_rows, replace=False))
        inside, outside = validation.take(drawn), validation.take(~drawn)
        near, away = (
            Neighbors(distances=found.distances[part], ids=found.ids[part], labels=found.labels[part])
            for part in (drawn, ~drawn)
        )
        plain = TemperatureScaling().fit(inside)
        losses.setdefault("temperature", []).append(log_loss(plain.predict_proba(outside), outside.labels))
        for bound in BOUNDS:
            params = fit_weight(inside.logits, inside.labels, near, use_labels=use_labels, tau_range=(bound, 1000.0))
            weight = knn_weight(away, outside.predicted, params).total
            losses.setdefault(f"tau >= {bound}", []).append(log_loss(softmax(outside.logits, weight), outside.labels))
    return losses


def log_loss(probs: FloatArray, labels: IntArray) -> float:
    chosen = probs[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chosen, np.finfo(np.float64).tiny)).mean())


if __name__ == "__main__":
    main()
