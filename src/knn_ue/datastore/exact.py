"""Exact nearest rows of an array, by faiss on the array itself: no index, no second copy of the vectors.

faiss finds the candidates with one matrix product, |q|^2 + |x|^2 - 2qx in float32, which is fast but cancels: a row
lies at 0.008 from itself. So a few more candidates than asked for are fetched, their distances are computed
directly, and a query whose k-th neighbor could still be displaced by a row that was not fetched is searched again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray

_QUERY_ROWS = 256
_EXTRA = 8
_GROWTH = 4
_MAX_FETCH = 2048
# faiss skips BLAS below a huge batch as shipped; with it, larger blocks of the database amortise the call.
_FAISS_SETTINGS = {"distance_compute_blas_threshold": 1, "distance_compute_blas_database_bs": 16384}

_lock = Lock()
_users = 0
_shipped: dict[str, int] = {}


def exact_search(
    vectors: FloatArray,
    queries: FloatArray,
    n_neighbors: int,
    *,
    largest: float,
    excluded: BoolArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return Euclidean distances and row numbers (queries, n_neighbors) of the nearest `vectors`.

    `largest` is `max_squared_norm(vectors)`, a pass over all of them that the caller makes once. Rows are sorted by
    (distance, row); rows marked in `excluded` are never returned; missing ones are (inf, -1).
    Where more than about a hundred rows lie at exactly the k-th distance, any of them may be returned.
    """
    distances = np.full((len(queries), n_neighbors), np.inf)
    rows = np.full((len(queries), n_neighbors), -1, dtype=np.int64)
    if not len(vectors):
        return distances, rows
    n_excluded = 0 if excluded is None else int(excluded.sum())
    with tuned_faiss():
        for start in range(0, len(queries), _QUERY_ROWS):
            block = slice(start, start + _QUERY_ROWS)
            fetch = min(len(vectors), n_neighbors + _EXTRA + min(n_excluded, n_neighbors))
            _search_block(vectors, queries[block], fetch, excluded, largest, distances[block], rows[block])
    return distances, rows


def direct_distances(vectors: FloatArray, queries: FloatArray, rows: IntArray) -> FloatArray:
    """Return the Euclidean distances (queries, k), without cancellation, from each query to its own `rows`."""
    distances = np.empty(rows.shape)
    step = max(1, (1 << 22) // max(1, rows.shape[1] * vectors.shape[1]))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        gap = vectors[rows[block]]
        gap -= queries[block, None, :]
        np.einsum("ijk,ijk->ij", gap, gap, out=distances[block], dtype=np.float64, casting="same_kind")
    return np.sqrt(distances, out=distances)


def sorted_by_distance(distances: FloatArray, rows: IntArray, n_neighbors: int) -> tuple[FloatArray, IntArray]:
    """Return the first `n_neighbors` of each row, sorted by (distance, row)."""
    order = np.lexsort((rows, distances), axis=1)[:, :n_neighbors]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def max_squared_norm(vectors: FloatArray) -> float:
    """Return the largest squared Euclidean norm of the rows, in float64."""
    largest = 0.0
    for start in range(0, len(vectors), 1 << 14):
        block = vectors[start : start + (1 << 14)]
        largest = max(largest, float(np.einsum("ij,ij->i", block, block, dtype=np.float64).max()))
    return largest


@contextmanager
def tuned_faiss() -> Iterator[None]:
    """Set faiss's process-wide search settings for the time of a search, and restore what the user had."""
    import faiss

    global _users, _shipped
    with _lock:
        if _users == 0:
            _shipped = {name: getattr(faiss.cvar, name) for name in _FAISS_SETTINGS}
            for name, value in _FAISS_SETTINGS.items():
                setattr(faiss.cvar, name, value)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for name, value in _shipped.items():
                    setattr(faiss.cvar, name, value)


def _search_block(
    vectors: FloatArray,
    queries: FloatArray,
    fetch: int,
    excluded: BoolArray | None,
    largest: float,
    distances: FloatArray,
    rows: IntArray,
) -> None:
    """Fill `distances` and `rows`; fetch more for those queries whose answer is not certain yet."""
    import faiss

    n_neighbors = distances.shape[1]
    # The rounding of a float32 matrix product grows like sqrt(d); the factor 4 leaves room for its tail.
    rounding = 4 * np.sqrt(vectors.shape[1]) * np.finfo(np.float32).eps
    doubt = rounding * (np.einsum("ij,ij->i", queries, queries, dtype=np.float64) + largest)
    pending = np.arange(len(queries))
    first = True
    while len(pending):
        squared, found = faiss.knn(queries[pending], vectors, fetch)
        exact = direct_distances(vectors, queries[pending], found)
        if excluded is not None:
            exact[excluded[found]] = np.inf
        nearest, nearest_rows = sorted_by_distance(exact, found, n_neighbors)
        width = nearest.shape[1]
        distances[pending, :width] = nearest
        rows[pending, :width] = np.where(np.isinf(nearest), -1, nearest_rows)
        if fetch >= len(vectors):
            return
        last = nearest[:, -1] if width == n_neighbors else np.full(len(pending), np.inf)
        certain = squared[:, -1] - doubt[pending] > last**2
        # More of exactly the same rows would change nothing but which of them is named.
        tied = np.isfinite(last) & (exact.max(axis=1, where=np.isfinite(exact), initial=0) == last) & (not first)
        enough = np.isfinite(last) & (fetch >= max(_MAX_FETCH, _GROWTH * n_neighbors))
        pending = pending[~(certain | tied | enough)]
        fetch = min(len(vectors), fetch * _GROWTH)
        first = False
