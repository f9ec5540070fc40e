"""Exact nearest rows of an array, found on the array itself: no index, no second copy of the vectors.

Candidates come from blocks of one matrix product, |x|^2 - 2qx in float32, of which only the values below the best so
far are looked at again. That is fast but cancels: a row lies at 0.008 from itself. So a few more candidates than asked
for are kept, their distances are computed directly, and a query whose k-th neighbor could still be displaced by a row
that was not kept is searched again. (faiss's own exact search is three times slower at its best settings, which are
process-wide: see benchmarks/exact_search.py.)
"""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray

_QUERY_ROWS = 256
_STORED_ROWS = 8192
_EXTRA = 8
_GROWTH = 4
_MAX_FETCH = 2048


def exact_search(
    vectors: FloatArray,
    squared_norms: FloatArray,
    queries: FloatArray,
    n_neighbors: int,
    excluded: BoolArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return Euclidean distances and row numbers (queries, n_neighbors) of the nearest `vectors`.

    `squared_norms` (n,) of the vectors take a pass over all of them, which the caller makes once. Rows are sorted by
    (distance, row); rows marked in `excluded` are never returned; missing ones are (inf, -1). Where more than about
    a hundred rows lie at exactly the k-th distance, any of them may be returned.
    """
    distances = np.full((len(queries), n_neighbors), np.inf)
    rows = np.full((len(queries), n_neighbors), -1, dtype=np.int64)
    if not len(vectors):
        return distances, rows
    n_excluded = 0 if excluded is None else int(excluded.sum())
    fetch = min(len(vectors), n_neighbors + _EXTRA + min(n_excluded, n_neighbors))
    for start in range(0, len(queries), _QUERY_ROWS):
        block = slice(start, start + _QUERY_ROWS)
        _search_block(vectors, squared_norms, queries[block], fetch, excluded, distances[block], rows[block])
    return distances, rows


def direct_distances(vectors: FloatArray, queries: FloatArray, rows: IntArray) -> FloatArray:
    """Return the Euclidean distances (queries, k), without cancellation, from each query to its own `rows`."""
    distances = np.empty(rows.shape)
    step = max(1, (1 << 20) // max(1, rows.shape[1] * vectors.shape[1]))
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


def row_squared_norms(vectors: FloatArray) -> FloatArray:
    """Return the squared Euclidean norm (n,) of each row."""
    norms = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), 1 << 14):
        block = vectors[start : start + (1 << 14)]
        with np.errstate(over="ignore"):  # too large for float32: the caller's range check says so
            norms[start : start + (1 << 14)] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return norms


def _search_block(
    vectors: FloatArray,
    squared_norms: FloatArray,
    queries: FloatArray,
    fetch: int,
    excluded: BoolArray | None,
    distances: FloatArray,
    rows: IntArray,
) -> None:
    """Fill `distances` and `rows`; fetch more for those queries whose answer is not certain yet."""
    n_neighbors = distances.shape[1]
    squared_length = np.einsum("ij,ij->i", queries, queries, dtype=np.float64)
    # The rounding of a float32 matrix product grows like sqrt(d); the factor 4 leaves room for its tail.
    rounding = 4 * np.sqrt(vectors.shape[1]) * np.finfo(np.float32).eps
    doubt = rounding * (squared_length + float(squared_norms.max()))
    pending = np.arange(len(queries))
    first = True
    while len(pending):
        found, beyond = _candidates(vectors, squared_norms, queries[pending], fetch)
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
        certain = squared_length[pending] + beyond - doubt[pending] > last**2
        # More of exactly the same rows would change nothing but which of them is named.
        tied = np.isfinite(last) & (exact.max(axis=1, where=np.isfinite(exact), initial=0) == last) & (not first)
        enough = np.isfinite(last) & (fetch >= max(_MAX_FETCH, _GROWTH * n_neighbors))
        pending = pending[~(certain | tied | enough)]
        fetch = min(len(vectors), fetch * _GROWTH)
        first = False


def _candidates(
    vectors: FloatArray, squared_norms: FloatArray, queries: FloatArray, fetch: int
) -> tuple[IntArray, FloatArray]:
    """Return the rows (queries, fetch) with the smallest |x|^2 - 2qx, in no order, and the largest of these values.

    Every row that is not returned has a value at least as large, up to rounding.
    """
    if fetch >= len(vectors):
        return np.tile(np.arange(len(vectors)), (len(queries), 1)), np.full(len(queries), np.inf)
    step = max(_STORED_ROWS, 2 * fetch)
    doubled = -2.0 * queries
    buffer = np.empty((len(queries), min(step, len(vectors))), dtype=np.float32)
    values = np.full((len(queries), fetch), np.inf, dtype=np.float32)
    rows = np.zeros((len(queries), fetch), dtype=np.int64)
    limit = np.full((len(queries), 1), np.inf, dtype=np.float32)
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step]
        scores = buffer[:, : len(block)]
        np.matmul(doubled, block.T, out=scores)
        scores += squared_norms[start : start + step]
        if start == 0:
            more_values, more_rows = scores, np.broadcast_to(np.arange(len(block)), scores.shape)
        else:
            more_values, more_rows = _below(scores, limit)
        if not more_values.shape[1]:
            continue
        more_values = np.concatenate((values, more_values), axis=1)
        more_rows = np.concatenate((rows, more_rows + start), axis=1)
        kept = np.argpartition(more_values, fetch - 1, axis=1)[:, :fetch]
        values = np.take_along_axis(more_values, kept, axis=1)
        rows = np.take_along_axis(more_rows, kept, axis=1)
        limit = values.max(axis=1, keepdims=True)
    return rows, limit[:, 0].astype(np.float64)


def _below(scores: FloatArray, limit: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the entries of each row of `scores` below its `limit`, moved to the left and padded with inf."""
    rows, columns = np.nonzero(scores < limit)
    counts = np.bincount(rows, minlength=len(scores))
    values = np.full((len(scores), counts.max(initial=0)), np.inf, dtype=np.float32)
    places = np.zeros(values.shape, dtype=np.int64)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    values[rows, position] = scores[rows, columns]
    places[rows, position] = columns
    return values, places
