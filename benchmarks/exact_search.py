"""Exact search of the Datastore against faiss, scikit-learn and a bare matrix product, in the same run.

    python benchmarks/exact_search.py                                # random vectors, 230,914 x 384, K = 32
    python benchmarks/exact_search.py --vectors v.npy --queries q.npy   # yours: two float32 .npy files

Run it on an idle machine. Times are medians of `--repeats` runs, in milliseconds a query.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from knn_ue import Datastore

OURS = "knn-ue Datastore, exact"
SHIPPED = "faiss IndexFlatL2 as shipped"
PRODUCT = "bare q @ x.T"


@contextmanager
def faiss_settings(**settings: int) -> Iterator[None]:
    before = {name: getattr(faiss.cvar, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(faiss.cvar, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(faiss.cvar, name, value)


def peers(vectors: np.ndarray, k: int) -> dict[str, Callable[[np.ndarray], object]]:
    store = Datastore.build(vectors, np.zeros(len(vectors), int))
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(vectors)

    def tuned(queries: np.ndarray) -> object:
        settings = {"distance_compute_blas_threshold": 1, "distance_compute_blas_database_bs": 8192}
        with faiss_settings(**settings):
            return flat.search(queries, k)

    return {
        OURS: lambda queries: store.search(queries, k),
        SHIPPED: lambda queries: flat.search(queries, k),
        "faiss IndexFlatL2 with BLAS": tuned,
        "scikit-learn brute": lambda queries: brute.kneighbors(queries),
        PRODUCT: lambda queries: queries @ vectors.T,
    }


def median_ms(call: Callable[[], object], n_queries: int, repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times)) / n_queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=230_914)
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--neighbors", type=int, default=32)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    if args.vectors:
        vectors, queries = (np.ascontiguousarray(np.load(path), np.float32) for path in (args.vectors, args.queries))
    else:
        vectors = rng.standard_normal((args.rows, args.columns), dtype=np.float32)
        queries = rng.standard_normal((max(args.batches), args.columns), dtype=np.float32)

    calls = peers(vectors, args.neighbors)
    results: dict[str, dict[str, float]] = {}
    print(
        f"{len(vectors):,} x {vectors.shape[1]}, K = {args.neighbors}, milliseconds a query (median of {args.repeats})"
    )
    print(f"{'':32}" + "".join(f"{f'batch {size}':>12}" for size in args.batches))
    for name, call in calls.items():
        results[name] = {}
        for size in args.batches:
            batch = queries[:size]
            results[name][str(size)] = median_ms(lambda call=call, batch=batch: call(batch), size, args.repeats)
        print(f"{name:32}" + "".join(f"{results[name][str(size)]:12.3f}" for size in args.batches), flush=True)
    for name, other in (("faster than " + SHIPPED, SHIPPED), ("times the " + PRODUCT, PRODUCT)):
        ratios = [results[other][str(size)] / results[OURS][str(size)] for size in args.batches]
        shown = ratios if other == SHIPPED else [1 / ratio for ratio in ratios]
        print(f"{name:36}" + "".join(f"{ratio:11.2f}x" for ratio in shown))
    if args.json:
        content = {
            "rows": len(vectors),
            "columns": vectors.shape[1],
            "neighbors": args.neighbors,
            "ms_a_query": results,
        }
        args.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
