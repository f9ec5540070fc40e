"""What the benchmarks of the search share: vectors to search, and the median time of a query."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from knn_ue.pipeline import UncertaintyPipeline

BATCH = 256


def median_ms(
    search: Callable[[np.ndarray], object], queries: np.ndarray, *, batch: int = BATCH, repeats: int
) -> float:
    """Return the milliseconds a query (n, d) takes in batches: the median of `repeats` rounds after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        for start in range(0, len(queries), batch):
            search(queries[start : start + batch])
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times[1:]) / len(queries)


def random_vectors(n_rows: int, n_columns: int, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return normal vectors and queries: what an exact search takes does not depend on them."""
    rng = np.random.default_rng(0)
    vectors = np.empty((n_rows, n_columns), dtype=np.float32)
    for start in range(0, n_rows, 1 << 16):
        vectors[start : start + (1 << 16)] = rng.standard_normal(vectors[start : start + (1 << 16)].shape, np.float32)
    return vectors, rng.standard_normal((n_queries, n_columns), dtype=np.float32)


def fitted_vectors(folder: Path, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the stored vectors of a UE folder and some of its validation rows as queries."""
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    vectors = list(pipe.calibrator_.stores.values())[-1].arrays()[0]
    queries = pipe.validation_.require_features("the benchmark")
    chosen = np.random.default_rng(0).permutation(len(queries))[:n_queries]
    return np.ascontiguousarray(vectors), np.ascontiguousarray(queries[chosen], dtype=np.float32)
