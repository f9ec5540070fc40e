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
import statistics
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from fitted import fitted_knn_ue, quality, refitted, test_sets
from knn_ue.calibrators import KnnUE
from knn_ue.stores import Datastore, balanced_rows
from knn_ue.types import Outputs

SHARES = (0.5, 0.2, 0.1, 0.03, 0.01)


def random_rows(_vectors: np.ndarray, labels: np.ndarray, n_kept: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(len(labels), n_kept, replace=False)


def by_class(_vectors: np.ndarray, labels: np.ndarray, n_kept: int, seed: int) -> np.ndarray:
    return balanced_rows(labels, n_kept, seed=seed)


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


WAYS = {"random": random_rows, "balanced": by_class, "distinct": distinct_rows}


def measure(calibrator: KnnUE, store: Datastore, validation: Outputs, sets: dict[str, Outputs]) -> dict[str, Any]:
    changed = refitted(calibrator, store, min(calibrator.n_neighbors, len(store)), validation)
    truth = validation.require_labels("the benchmark")
    probs = changed.predict_proba(validation)[np.arange(len(truth)), truth]
    return {"validation_nll": float(-np.log(probs).mean()), **quality(changed, sets)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="UE")
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pipe, calibrator, store = fitted_knn_ue(arguments.folder, parser)
    sets = test_sets(pipe, arguments)
    vectors, labels = store.arrays()
    whole = measure(calibrator, Datastore.build(vectors, labels), pipe.validation_, sets)
    print(f"{pipe.method_}, {len(vectors):,} x {vectors.shape[1]}; ECE % / E-AURC x 1000")
    print(f"{'':18}{'rows':>8}{'NLL':>9}" + "".join(f"{name[-24:]:>30}" for name in sets))
    results: list[dict[str, Any]] = [{"way": "all", "share": 1.0, "rows": len(vectors), "draws": [whole]}]
    show(results[0], list(sets))
    for way in arguments.ways:
        for share in SHARES:
            kept = [WAYS[way](vectors, labels, round(share * len(labels)), seed) for seed in range(arguments.draws)]
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
