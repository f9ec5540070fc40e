"""How few stored vectors keep the calibration of a tagger? Random, label-aware and duplicate-aware pruning.

    python benchmarks/pruning.py UE --test F [--ood F ...] [--rows 1000] [--draws 3] [--json FILE]

UE is fitted with `knn-ue` or `knn-ue-no-label`. Of its stored vectors a share is kept, kNN-UE is fitted anew on the
validation rows, and the ECE (%) and E-AURC (x 1000) of the answers (entities in tagging) are compared with those of the
whole store: mean and standard deviation over `--draws` draws.

* random: any rows;
* balanced: every class as many rows, as far as it has them (most words are O);
* distinct: k-means cells of each class, in proportion to its rows, and of each cell the row nearest to its center, so
  that of many nearly equal rows one stays.
"""

import argparse
import json
import random
import statistics
from copy import copy
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from knn_ue import metrics
from knn_ue.calibrators import KnnUE
from knn_ue.data import read_rows
from knn_ue.datastore import Datastore
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.types import Outputs

SHARES = (0.5, 0.2, 0.1, 0.03, 0.01)


def random_rows(_vectors: np.ndarray, labels: np.ndarray, n_kept: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(len(labels), n_kept, replace=False)


def balanced_rows(_vectors: np.ndarray, labels: np.ndarray, n_kept: int, seed: int) -> np.ndarray:
    order = np.random.default_rng(seed).permutation(len(labels))
    rank = np.empty(len(labels), dtype=np.int64)  # among the rows of its class
    for label in np.unique(labels):
        of_class = order[labels[order] == label]
        rank[of_class] = np.arange(len(of_class))
    return order[np.argsort(rank[order], kind="stable")][:n_kept]


def distinct_rows(vectors: np.ndarray, labels: np.ndarray, n_kept: int, seed: int) -> np.ndarray:
    pca = faiss.PCAMatrix(vectors.shape[1], min(64, vectors.shape[1]))
    pca.train(vectors)
    small = pca.apply(vectors)
    kept = []
    for label in np.unique(labels):
        (rows,) = np.nonzero(labels == label)
        n_cells = max(1, round(n_kept * len(rows) / len(labels)))
        points = np.ascontiguousarray(small[rows])
        cells = faiss.Kmeans(points.shape[1], n_cells, niter=5, seed=seed, min_points_per_centroid=1)
        cells.train(points)
        flat = faiss.IndexFlatL2(points.shape[1])
        flat.add(points)
        kept.append(rows[np.unique(flat.search(cells.centroids, 1)[1])])
    return np.concatenate(kept)


WAYS = {"random": random_rows, "balanced": balanced_rows, "distinct": distinct_rows}


def measure(calibrator: KnnUE, store: Datastore, validation: Outputs, sets: dict[str, Outputs]) -> dict[str, Any]:
    changed = copy(calibrator)
    changed.store = store
    changed.n_neighbors = min(calibrator.n_neighbors, len(store))
    changed.fit(validation)
    truth = validation.require_labels("the benchmark")
    probs = changed.predict_proba(validation)[np.arange(len(truth)), truth]
    result: dict[str, Any] = {"validation_nll": float(-np.log(probs).mean())}
    for name, outputs in sets.items():
        confidence, correct = scored_answers(outputs, changed)
        result[name] = {
            "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct),
            "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="UE")
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pipe = UncertaintyPipeline.load(arguments.folder, device="cpu")
    calibrator = pipe.calibrator_
    if not isinstance(calibrator, KnnUE) or not isinstance(calibrator.store, Datastore):
        parser.error(f"{arguments.folder} was fitted with {pipe.method_}: fit it with knn-ue or knn-ue-no-label")
    sets = {}
    for source in (arguments.test, *arguments.ood):
        rows = list(read_rows(source, pipe.task))
        random.Random(0).shuffle(rows)
        sets["/".join(Path(source).parts[-2:])] = pipe.outputs(rows[: arguments.rows])
    vectors, labels = calibrator.store.arrays()
    whole = measure(calibrator, Datastore.build(vectors, labels), pipe.validation_, sets)
    print(f"{pipe.method_}, {len(vectors):,} x {vectors.shape[1]}; ECE % / E-AURC x 1000")
    print(f"{'':18}{'rows':>8}{'NLL':>9}" + "".join(f"{name[-24:]:>30}" for name in sets))
    results: list[dict[str, Any]] = [{"way": "all", "share": 1.0, "rows": len(vectors), "draws": [whole]}]
    show(results[0], list(sets))
    for way, choose in WAYS.items():
        for share in SHARES:
            kept = [choose(vectors, labels, round(share * len(labels)), seed) for seed in range(arguments.draws)]
            draws = [
                measure(calibrator, Datastore.build(vectors[rows], labels[rows]), pipe.validation_, sets)
                for rows in kept
            ]
            results.append({"way": way, "share": share, "rows": len(kept[0]), "draws": draws})
            show(results[-1], list(sets))
    if arguments.json:
        about = {"method": pipe.method_, "rows": len(vectors), "columns": vectors.shape[1]}
        arguments.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


def show(result: dict[str, Any], sets: list[str]) -> None:
    nll = statistics.mean(draw["validation_nll"] for draw in result["draws"])
    cells = []
    for name in sets:
        parts = [[draw[name][key] for draw in result["draws"]] for key in ("ece", "e_aurc")]
        means = [statistics.mean(part) for part in parts]
        spread = [statistics.stdev(part) if len(part) > 1 else 0.0 for part in parts]
        cells.append(f"{means[0]:6.2f} ± {spread[0]:4.2f} / {means[1]:5.1f} ± {spread[1]:4.1f}")
    print(
        f"{result['way']:10}{result['share']:8.0%}{result['rows']:8,}{nll:9.4f}" + "".join(f"{c:>30}" for c in cells),
        flush=True,
    )


if __name__ == "__main__":
    main()
