"""The paper's efficiency tables on a fitted UE folder: what each index costs, and what it does to the answers.

    python benchmarks/indexes.py UE --test F [--ood F ...] [--rows 150] --json FILE               # the answers
    python benchmarks/indexes.py UE --test F --times --json FILE      # the times, added to the file: idle machine

For each index: coverage of the exact neighbors, milliseconds a query in batches of 256 (median of five), how much
faster than our exact search in the same run, what share of the forward pass, megabytes that are read, and the ECE and
E-AURC of the answers (entities in tagging), kNN-UE fitted anew on what the index finds. n_probe is set on the inner
index: behind a PCA, the published code set it where faiss ignores it.
"""

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from fitted import fitted_knn_ue, quality, refitted, some_rows, test_sets
from knn_ue import metrics
from knn_ue.calibrators import KnnUE
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.tuning import tune_index
from knn_ue.types import Outputs
from knn_ue_lab.reproduce.indexes import paper_indexes
from timing import median_ms

REPEATS = 5
QUERIES = 512
TOP_K = (8, 16, 32, 64, 128)
TITLES = {
    "pq": "PQ sub-vectors (32 centroids)",
    "ivf-flat": "IVF n_probe (100 lists)",
    "pca": "PCA dimensions",
    "combined": "combined",
    "refined": "recomputed distances",
}
ROTATED = {
    "combined": [
        (
            "the same with a rotation, n_probe 32",
            IndexOptions(factory="PCAR128,IVF100,PQ32x5", n_probe=32, recompute=False),
        )
    ],
    "refined": [
        ("the same with a rotation", IndexOptions(factory="PCAR128,IVF512,PQ64x4fs", n_probe=32, refine_factor=8))
    ],
}


def tables(n_columns: int) -> dict[str, list[tuple[str, IndexOptions]]]:
    """Return the paper's tables, a name for each row and the index, and what a rotation after the PCA changes."""
    return {
        TITLES[name]: [*rows, *(ROTATED.get(name, ()) if n_columns > 128 else ())]
        for name, rows in paper_indexes(n_columns).items()
        if name in TITLES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="UE")
    parser.add_argument("--test", required=True)
    parser.add_argument("--ood", nargs="*", default=[])
    parser.add_argument(
        "--rows", type=int, default=150, help="of each set, and of the validation rows to fit on: texts"
    )
    parser.add_argument("--chosen", action="store_true", help="only the exact search and what tuning chooses")
    parser.add_argument("--times", action="store_true", help="measure times, of what the file already holds")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()

    pipe, calibrator, store = fitted_knn_ue(arguments.folder, parser)
    if arguments.times:
        content = json.loads(arguments.json.read_text())
        content |= add_times(content["results"], pipe, store, calibrator.n_neighbors, arguments)
    else:
        content = answers(pipe, calibrator, store, arguments)
    arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    show(content)


def answers(
    pipe: UncertaintyPipeline, calibrator: KnnUE, store: Datastore, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return for each line of each table what its index finds, and what becomes of the answers."""
    sets = test_sets(pipe, arguments)
    vectors, labels = store.arrays()
    tuning = tune_index(
        vectors,
        labels,
        pipe.validation_,
        n_neighbors=calibrator.n_neighbors,
        use_labels=calibrator.use_labels,
        scored=scored_answers,
    )
    plan = {"chosen": [("exact", IndexOptions()), (f"auto: {tuning.chosen}", tuning.chosen)]} | tables(vectors.shape[1])
    if arguments.chosen:
        plan = {"chosen": plan["chosen"]}
    validation = some_texts(pipe.validation_, 2 * arguments.rows)
    queries = first(sets).features
    exact = store.reindexed("exact")
    exact_ids = exact.search(queries, calibrator.n_neighbors).ids
    results = []
    for table, lines in plan.items():
        for name, options in lines:
            indexed = store.reindexed(options)
            found: dict[str, Any] = {"table": table, "name": name, "options": asdict(options)}
            found |= quality(refitted(calibrator, indexed, calibrator.n_neighbors, validation), sets)
            ids = indexed.search(queries, calibrator.n_neighbors).ids
            found["coverage"] = metrics.neighbor_coverage(exact_ids=exact_ids, found_ids=ids)
            found["megabytes"] = size_of(indexed) / 1e6
            results.append(found | {"neighbors": calibrator.n_neighbors})
            print(table, name, flush=True)
    for k in () if arguments.chosen else TOP_K:
        found = {"table": "neighbors", "name": f"exact, K = {k}", "options": asdict(IndexOptions()), "coverage": 1.0}
        found |= quality(refitted(calibrator, exact, k, validation), sets)
        results.append(found | {"neighbors": k, "megabytes": vectors.nbytes / 1e6})
    return {"method": pipe.method_, "rows": len(vectors), "columns": vectors.shape[1], "results": results}


def add_times(
    results: list[dict[str, Any]],
    pipe: UncertaintyPipeline,
    store: Datastore,
    n_neighbors: int,
    arguments: argparse.Namespace,
) -> dict[str, float]:
    """Add the milliseconds of a query to each result; return those of the forward pass and of faiss as shipped."""
    rows = some_rows(arguments.test, pipe.task, arguments.rows)
    pipe.outputs(rows[:8])
    began = time.perf_counter()
    outputs = pipe.outputs(rows)
    forward = 1000 * (time.perf_counter() - began) / len(outputs)
    queries = np.ascontiguousarray(outputs.features[:QUERIES], dtype=np.float32)
    for result in results:
        indexed = store.reindexed(IndexOptions(**result["options"]))
        k = result["neighbors"]
        result["ms"] = median_ms(lambda batch, found=indexed, k=k: found.search(batch, k), queries, repeats=REPEATS)
    vectors = store.arrays()[0]
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    shipped = median_ms(lambda batch: flat.search(batch, n_neighbors), queries, repeats=REPEATS)
    return {"forward_ms": forward, "shipped_ms": shipped}


def show(content: dict[str, Any]) -> None:
    """Print the tables; times are relative to the exact search of the same run."""
    sets = [key for key, value in content["results"][0].items() if isinstance(value, dict) and "ece" in value]
    print(f"{content['rows']:,} x {content['columns']}; ECE % / E-AURC x 1000 of {', '.join(sets)}")
    exact, forward = content["results"][0].get("ms", math.nan), content.get("forward_ms", math.nan)
    shipped = content.get("shipped_ms", math.nan)
    print(f"forward pass {forward:.3f} ms a row; the exact search is {shipped / exact:.1f}x as fast as IndexFlatL2")
    table = None
    for found in content["results"]:
        if found["table"] != table:
            table = found["table"]
            print(f"\n{table}\n{'':62}{'cover':>7}{'ms':>9}{'faster':>8}{'of forward':>12}{'MB':>8}")
        ms = found.get("ms", math.nan)
        print(
            f"{found['name']:62}{found['coverage']:7.0%}{ms:9.4f}{exact / ms:7.1f}x{ms / forward:12.1%}"
            f"{found['megabytes']:8.1f}"
            + "".join(f"{found[key]['ece']:9.2f} /{found[key]['e_aurc']:6.1f}" for key in sets)
        )


def first(sets: dict[str, Outputs]) -> Outputs:
    return next(iter(sets.values()))


def some_texts(outputs: Outputs, n_texts: int) -> Outputs:
    if outputs.groups is None:
        return outputs.take(np.arange(min(n_texts, len(outputs))))
    return outputs.take(np.isin(outputs.groups, np.unique(outputs.groups)[:n_texts]))


def size_of(store: Datastore) -> int:
    """Return the bytes that a search reads."""
    vectors = store.arrays()[0].nbytes
    inner = getattr(store._rows.base.index, "inner", None)
    if inner is None:
        return vectors
    return int(faiss.serialize_index(inner).nbytes) + (vectors if store.options.recompute else 0)


if __name__ == "__main__":
    main()
