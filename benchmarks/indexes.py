"""The paper's efficiency tables on a fitted UE folder: what each index costs, and what it does to the answers.

    python benchmarks/indexes.py UE --test F [--ood F ...] [--rows 1500] [--json FILE]

For each index: coverage of the exact neighbors, milliseconds a query in batches of 256 (median of five), how much
faster than our exact search and than faiss's IndexFlatL2 as shipped in the same run, megabytes, how much the search
adds to the forward pass, and the ECE and E-AURC of the answers (entities in tagging), kNN-UE fitted anew on the
validation rows of the folder by what the index finds. n_probe is set on the inner index: behind a PCA, the published
code set it where faiss ignores it. Run it on an idle machine.
"""

import argparse
import json
import random
import statistics
import time
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from knn_ue import metrics
from knn_ue.calibrators import KnnUE
from knn_ue.data import read_rows
from knn_ue.datastore import Datastore, IndexOptions
from knn_ue.experiments.indexes import paper_indexes
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.tuning import tune_index
from knn_ue.types import Outputs

REPEATS = 5
BATCH = 256


TITLES = {
    "pq": "PQ sub-vectors (32 centroids)",
    "ivf-flat": "IVF n_probe (100 lists)",
    "pca": "PCA dimensions",
    "combined": "combined",
    "refined": "recomputed distances",
}


def tables(n_columns: int) -> dict[str, list[tuple[str, IndexOptions]]]:
    """Return the paper's tables: a name for each row, and the index."""
    return {TITLES[name]: list(rows) for name, rows in paper_indexes(n_columns).items() if name in TITLES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="UE")
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    pipe = UncertaintyPipeline.load(arguments.folder, device="cpu")
    calibrator = pipe.calibrator_
    if not isinstance(calibrator, KnnUE) or not isinstance(calibrator.store, Datastore):
        parser.error(f"{arguments.folder} was fitted with {pipe.method_}: fit it with knn-ue or knn-ue-no-label")
    began = time.perf_counter()
    sets = {"test": pipe.outputs(some_rows(arguments.test, pipe.task, arguments.rows))}
    forward = 1000 * (time.perf_counter() - began) / len(sets["test"])
    sets |= {source: pipe.outputs(some_rows(source, pipe.task, arguments.rows)) for source in arguments.ood}
    vectors, labels = calibrator.store.arrays()
    print(f"{len(vectors):,} x {vectors.shape[1]}, K = {calibrator.n_neighbors}, forward pass {forward:.3f} ms a row")
    exact = measure(pipe, calibrator, IndexOptions(), sets, None)
    shipped = shipped_ms(vectors, sets["test"], calibrator.n_neighbors)
    tuning = tune_index(
        vectors,
        labels,
        pipe.validation_,
        n_neighbors=calibrator.n_neighbors,
        use_labels=calibrator.use_labels,
        scored=scored_answers,
        thorough=True,
    )
    plan = {"chosen": [("exact", IndexOptions()), ("auto", tuning.chosen)]} | tables(vectors.shape[1])
    results = []
    for table, lines in plan.items():
        print(f"\n{table}\n{'':42}{'cover':>7}{'ms':>9}{'faster':>8}{'faiss':>8}{'MB':>8}{'+ %':>8}", end="")
        print("".join(f"{name.split('/')[-1][-12:]:>16}" for name in sets))
        for name, options in lines:
            found = measure(pipe, calibrator, options, sets, exact)
            found |= {"table": table, "name": name, "options": asdict(options), "forward_ms": forward}
            found |= {"shipped_ms": shipped}
            results.append(found)
            print(
                f"{name:42}{found['coverage']:7.0%}{found['ms']:9.4f}{exact['ms'] / found['ms']:7.1f}x"
                f"{shipped / found['ms']:7.0f}x{found['megabytes']:8.1f}{100 * found['ms'] / forward:8.2f}"
                + "".join(f"{found[key]['ece']:9.2f} /{found[key]['e_aurc']:5.1f}" for key in sets),
                flush=True,
            )
    if arguments.json:
        about = {"rows": len(vectors), "columns": vectors.shape[1], "neighbors": calibrator.n_neighbors}
        arguments.json.write_text(json.dumps({**about, "results": results}, indent=1, default=str) + "\n")


def some_rows(source: str, task: Any, n_rows: int) -> list[Any]:
    found = list(read_rows(source, task))
    random.Random(0).shuffle(found)
    return found[:n_rows]


def measure(
    pipe: UncertaintyPipeline,
    calibrator: KnnUE,
    options: IndexOptions,
    sets: dict[str, Outputs],
    exact: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what the index costs and what it does to the answers in each set."""
    assert isinstance(calibrator.store, Datastore)
    store = calibrator.store.reindexed(options)
    changed = copy(calibrator)
    changed.store = store
    changed.fit(pipe.validation_)
    queries = np.ascontiguousarray(sets["test"].features[:2048])
    ids = store.search(queries, calibrator.n_neighbors).ids
    result: dict[str, Any] = {
        "ids": ids,
        "coverage": 1.0 if exact is None else metrics.neighbor_coverage(exact_ids=exact["ids"], found_ids=ids),
        "ms": median_ms(lambda batch: store.search(batch, calibrator.n_neighbors), queries),
        "megabytes": size_of(store) / 1e6,
    }
    for name, outputs in sets.items():
        confidence, correct = scored_answers(outputs, changed)
        result[name] = {
            "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct),
            "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
        }
    return result if exact is None else {key: value for key, value in result.items() if key != "ids"}


def shipped_ms(vectors: np.ndarray, test: Outputs, n_neighbors: int) -> float:
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    return median_ms(lambda batch: flat.search(batch, n_neighbors), np.ascontiguousarray(test.features[:1024]))


def median_ms(search: Any, queries: np.ndarray) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for start in range(0, len(queries), BATCH):
            search(queries[start : start + BATCH])
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times) / len(queries)


def size_of(store: Datastore) -> int:
    """Return the bytes that a search reads."""
    vectors = store.arrays()[0].nbytes
    inner = getattr(store._state.base.index, "inner", None)
    if inner is None:
        return vectors
    return int(faiss.serialize_index(inner).nbytes) + (vectors if store.options.recompute else 0)


if __name__ == "__main__":
    main()
