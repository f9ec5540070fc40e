"""Our search against hnswlib, usearch, faiss, scikit-learn and a bare matrix product, in one run on the same vectors.

    pip install hnswlib usearch
    python benchmarks/peers.py --ue UE                       # the vectors and validation rows of a fitted folder
    python benchmarks/peers.py --rows 392702 --columns 768 --no-graphs      # random ones, of the paper's sizes

Milliseconds a query in batches of 256 and one by one, median of five; coverage of the exact neighbors; seconds to
build; megabytes that are read. Graphs are asked at rising effort until they find 85 %. Run it on an idle machine.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from knn_ue import Datastore, metrics
from knn_ue.stores import IndexOptions
from timing import fitted_vectors, median_ms, random_vectors

REPEATS = 5
SINGLES = 16
ENOUGH = 0.85
EFFORTS = (32, 64, 128, 256, 512, 1024, 2048)
OURS = "knn-ue exact"
INDEXES = (
    IndexOptions(factory="PCA128,IVF512,PQ64x4fs", n_probe=16, refine_factor=8),
    IndexOptions(factory="PCAR128,IVF512,PQ64x4fs", n_probe=16, refine_factor=8),  # with a rotation
    IndexOptions(factory="PCAR64,IVF512,SQ8", n_probe=1, recompute=False),
    IndexOptions(factory="PCAR64,IVF512,PQ32x4fs", n_probe=1, recompute=False),
)
GRAPHS = (
    IndexOptions(factory="HNSW16", ef_search=32, recompute=False),
    IndexOptions(factory="HNSW16_SQ8", ef_search=32, recompute=False),
)

Search = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Result:
    name: str
    ms: float
    ms_single: float
    coverage: float
    build_seconds: float
    megabytes: float


def exact_peers(vectors: np.ndarray, k: int) -> Iterator[tuple[str, Search, float]]:
    store = Datastore.build(vectors, np.zeros(len(vectors), int))
    yield OURS, lambda queries: store.search(queries, k).ids, 0.0
    yield "bare q @ x.T", lambda queries: queries @ vectors.T, 0.0
    began = time.perf_counter()
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    yield "faiss IndexFlatL2 as shipped", lambda queries: flat.search(queries, k)[1], time.perf_counter() - began
    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(vectors)
    yield "scikit-learn brute", lambda queries: brute.kneighbors(queries, return_distance=False), 0.0


def our_indexes(
    vectors: np.ndarray, k: int, indexes: tuple[IndexOptions, ...]
) -> Iterator[tuple[str, Search, float, float]]:
    for options in indexes:
        began = time.perf_counter()
        store = Datastore.build(vectors, np.zeros(len(vectors), int), index=options)
        seconds = time.perf_counter() - began
        n_bytes = faiss.serialize_index(store._rows.base.index.inner).nbytes + options.recompute * vectors.nbytes
        yield f"knn-ue {options}", lambda queries, store=store: store.search(queries, k).ids, seconds, n_bytes / 1e6


def graphs(vectors: np.ndarray, k: int) -> Iterator[tuple[str, Callable[[int], Search], float, float]]:
    """Yield the libraries built on graphs, which want an effort, with 16 links a row and 100 candidates to build."""
    import hnswlib
    from usearch.index import Index

    began = time.perf_counter()
    hnsw = hnswlib.Index(space="l2", dim=vectors.shape[1])
    hnsw.init_index(max_elements=len(vectors), ef_construction=100, M=16)
    hnsw.add_items(vectors)

    def hnswlib_search(effort: int) -> Search:
        hnsw.set_ef(max(effort, k))
        return lambda queries: hnsw.knn_query(queries, k=k)[0].astype(np.int64)

    links = len(vectors) * (2 * 16 * 4 + 8)
    yield "hnswlib", hnswlib_search, time.perf_counter() - began, (vectors.nbytes + links) / 1e6
    began = time.perf_counter()
    usearch = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=100)
    usearch.add(np.arange(len(vectors)), vectors)

    def usearch_search(effort: int) -> Search:
        usearch.expansion_search = max(effort, k)

        def search(queries: np.ndarray) -> np.ndarray:
            found: Any = usearch.search(queries, k)
            return np.atleast_2d(found.keys).astype(np.int64)

        return search

    yield "usearch", usearch_search, time.perf_counter() - began, usearch.memory_usage / 1e6


def measure(
    name: str, search: Search, queries: np.ndarray, exact: np.ndarray, seconds: float, megabytes: float
) -> Result:
    found = search(queries)
    product = found.shape[1] != exact.shape[1]
    return Result(
        name=name,
        ms=median_ms(search, queries, repeats=REPEATS),
        ms_single=median_ms(search, queries[:SINGLES], batch=1, repeats=REPEATS),
        coverage=1.0 if product else metrics.neighbor_coverage(exact_ids=exact, found_ids=found),
        build_seconds=seconds,
        megabytes=megabytes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ue", type=Path)
    parser.add_argument("--vectors", type=Path, help="a float32 .npy file, with --query-vectors")
    parser.add_argument("--query-vectors", type=Path)
    parser.add_argument("--rows", type=int, default=207_000)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--neighbors", type=int, default=32)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument(
        "--no-graphs", action="store_true", help="on random vectors a graph takes an hour and finds little"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    k = arguments.neighbors
    if arguments.ue:
        vectors, queries = fitted_vectors(arguments.ue, arguments.queries)
    elif arguments.vectors:
        files = (arguments.vectors, arguments.query_vectors)
        vectors, queries = (np.ascontiguousarray(np.load(path), dtype=np.float32) for path in files)
        queries = queries[np.random.default_rng(0).permutation(len(queries))[: arguments.queries]]
    else:
        vectors, queries = random_vectors(arguments.rows, arguments.columns, arguments.queries)
    print(f"{len(vectors):,} x {vectors.shape[1]}, K = {k}, {len(queries)} queries")
    print(f"{'':58}{'ms':>9}{'faster':>9}{'one by one':>12}{'cover':>7}{'build s':>9}{'MB':>9}")
    exact = Datastore.build(vectors, np.zeros(len(vectors), int)).search(queries, k).ids
    results: list[Result] = []

    def show(result: Result) -> None:
        results.append(result)
        faster = results[0].ms / result.ms
        print(
            f"{result.name:58}{result.ms:9.4f}{faster:8.1f}x{result.ms_single:12.3f}{result.coverage:7.0%}"
            f"{result.build_seconds:9.1f}{result.megabytes:9.1f}",
            flush=True,
        )

    for name, search, seconds in exact_peers(vectors, k):
        show(measure(name, search, queries, exact, seconds, vectors.nbytes / 1e6))
    for name, search, seconds, megabytes in our_indexes(
        vectors, k, INDEXES if arguments.no_graphs else INDEXES + GRAPHS
    ):
        show(measure(name, search, queries, exact, seconds, megabytes))
    for name, with_effort, seconds, megabytes in [] if arguments.no_graphs else graphs(vectors, k):
        for effort in EFFORTS:
            search = with_effort(effort)
            if effort == EFFORTS[-1] or metrics.neighbor_coverage(exact_ids=exact, found_ids=search(queries)) >= ENOUGH:
                show(measure(f"{name}, ef {effort}", search, queries, exact, seconds, megabytes))
                break
    if arguments.json:
        about = {
            "rows": len(vectors),
            "columns": vectors.shape[1],
            "neighbors": k,
            "real": bool(arguments.ue or arguments.vectors),
        }
        arguments.json.write_text(json.dumps({**about, "results": [asdict(one) for one in results]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
