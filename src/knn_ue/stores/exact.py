"""Exact nearest rows of an array, found on the array itself: no index, no second copy of the vectors.

Candidates come from blocks of one matrix product, |x|^2 - 2qx in float32. That is fast but cancels: a row lies at 0.008
from itself. So a few more candidates than asked for are kept and their distances are computed directly; a query whose
k-th neighbor could still be displaced by a row that was not kept (its value lies within the rounding) is compared
directly with every such row. The answer is therefore the same whatever the batch, ties included. (faiss's own exact
search is slower even at its best settings, which are process-wide: see benchmarks/exact_search.py.)
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray

_QUERY_ROWS = 256
_STORED_ROWS = 16384
_FIRST_ROWS = 4096
_BLOCK_VALUES = _QUERY_ROWS * _STORED_ROWS
_EXTRA = 8
_DIRECT_VALUES = 1 << 16
_PASS_ROWS = 1 << 14
_SAMPLE_ROWS = 1024
_FAR = 100.0


class ExactIndex:
    """Searches the vectors themselves; equal to comparing every query with every row in float64."""

    approximate = False

    def __init__(self, vectors: FloatArray) -> None:
        self.vectors = vectors
        self.n_columns = int(vectors.shape[1])

    def space(self, vectors: FloatArray) -> FloatArray:
        """Return the very same vectors: they are compared as they are."""
        return vectors

    def search(
        self, queries: FloatArray, n_neighbors: int, excluded: BoolArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return Euclidean distances and rows (queries, n_neighbors), sorted by both; (inf, -1) where missing."""
        distances = np.full((len(queries), n_neighbors), np.inf)
        rows = np.full((len(queries), n_neighbors), -1, dtype=np.int64)
        width = min(n_neighbors, len(self.vectors))
        # A row at infinity is never a candidate.
        norms = self._norms if excluded is None else np.where(excluded, np.float32(np.inf), self._norms)
        for start in range(0, len(queries) if width else 0, _QUERY_ROWS):
            block = slice(start, start + _QUERY_ROWS)
            distances[block, :width], rows[block, :width] = self._nearest(queries[block], norms, width)
        return distances, rows

    @cached_property
    def _origin(self) -> FloatArray | None:
        """A point amid the vectors where they lie far from zero, which would drown their differences."""
        if not len(self.vectors):
            return None
        sample = self.vectors[:: max(1, len(self.vectors) // _SAMPLE_ROWS)].astype(np.float64)
        mean = sample.mean(axis=0)
        far = mean @ mean > _FAR * np.mean(np.square(sample - mean).sum(axis=1))
        return mean.astype(np.float32) if far else None

    @cached_property
    def _norms(self) -> FloatArray:
        return row_squared_norms(self.vectors, self._origin)

    @cached_property
    def _equal_rows(self) -> IntArray:
        """A number (n,) for each row that equal rows share: a 64-bit sum of its bits."""
        factors = np.random.default_rng(0).integers(1 << 64, size=self.vectors.shape[1], dtype=np.uint64)
        sums = np.empty(len(self.vectors), dtype=np.uint64)
        for start in range(0, len(sums), _PASS_ROWS):
            bits = self.vectors[start : start + _PASS_ROWS].view(np.uint32)
            sums[start : start + _PASS_ROWS] = (bits * factors).sum(axis=1)
        return sums.view(np.int64)

    def _nearest(self, queries: FloatArray, norms: FloatArray, n_neighbors: int) -> tuple[FloatArray, IntArray]:
        centered = queries if self._origin is None else queries - self._origin
        squared_length = np.einsum("ij,ij->i", centered, centered, dtype=np.float64)
        candidates, beyond = self._candidates(centered, norms, min(len(self.vectors), n_neighbors + _EXTRA))
        distances = direct_distances(self.vectors, queries, candidates)
        distances, rows = sorted_by_distance(distances, candidates, n_neighbors)
        # The rounding of a float32 matrix product grows like sqrt(d); the factor 4 leaves room for its tail.
        n_columns, float32 = queries.shape[1], np.finfo(np.float32)
        rounding = (4 * np.sqrt(n_columns) + 8) * float(float32.eps)
        # What lies further from the origin than the query and its k-th neighbor together is no neighbor.
        longest = np.minimum(
            norms.max(where=np.isfinite(norms), initial=0.0), (np.sqrt(squared_length) + distances[:, -1]) ** 2
        )
        doubt = rounding * (squared_length + longest)
        doubt += 4 * n_columns * float(float32.tiny)  # what is smaller vanishes from the product
        reach = distances[:, -1] ** 2 + doubt - squared_length
        (unsure,) = np.nonzero((beyond <= reach) & np.isfinite(beyond))
        if len(unsure):
            distances[unsure], rows[unsure] = self._nearest_within(
                reach[unsure], queries[unsure], centered[unsure], norms, distances[unsure], rows[unsure]
            )
        return distances, rows

    def _candidates(self, centered: FloatArray, norms: FloatArray, fetch: int) -> tuple[IntArray, FloatArray]:
        """Return the rows (queries, fetch) with the smallest |x|^2 - 2qx, in no order, and the largest of these values.

        Every row that is not returned has a value at least as large, up to rounding; rows at infinity are -1.
        """
        values = np.full((len(centered), fetch), np.inf, dtype=np.float32)
        rows = np.full((len(centered), fetch), -1, dtype=np.int64)
        limit = np.full((len(centered), 1), np.inf, dtype=np.float32)
        for number, (start, scores) in enumerate(self._scores(centered, norms)):
            if number == 0 and scores.shape[1] >= fetch:  # nothing is kept yet
                rows = np.argpartition(scores, fetch - 1, axis=1)[:, :fetch]
                values = np.take_along_axis(scores, rows, axis=1)
                rows += start
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
        rows[np.isinf(values)] = -1
        return rows, limit[:, 0].astype(np.float64)

    def _nearest_within(
        self,
        reach: FloatArray,
        queries: FloatArray,
        centered: FloatArray,
        norms: FloatArray,
        distances: FloatArray,
        rows: IntArray,
    ) -> tuple[FloatArray, IntArray]:
        """Improve `distances` and `rows` by comparing each query directly with every row valued at most its `reach`."""
        shape = rows.shape
        # Of many equal rows only the first few can be asked for, and constant vectors stay cheap.
        norms = np.where(self._copies_before(np.isinf(norms)) < shape[1], norms, np.float32(np.inf))
        limit = np.nextafter(reach.astype(np.float32), np.float32(np.inf))[:, None]
        owners = np.repeat(np.arange(shape[0]), shape[1])
        distances, rows = distances.ravel(), rows.ravel()
        for start, scores in self._scores(centered, norms):
            more_owners, more_rows = np.nonzero(scores <= limit)
            more_rows += start
            owners, rows = np.concatenate((owners, more_owners)), np.concatenate((rows, more_rows))
            distances = np.concatenate((distances, pair_distances(self.vectors, queries, more_owners, more_rows)))
            order = np.lexsort((rows, distances, owners))
            order = order[np.append(True, (np.diff(owners[order]) != 0) | (np.diff(rows[order]) != 0))]
            order = order[_rank_in_group(owners[order]) < shape[1]]
            owners, rows, distances = owners[order], rows[order], distances[order]
        return distances.reshape(shape), rows.reshape(shape)

    def _copies_before(self, excluded: BoolArray) -> IntArray:
        """Return how many equal rows (n,), not excluded, stand before each row."""
        order = np.argsort(self._equal_rows, kind="stable")
        alive = order[~excluded[order]]
        copies = np.zeros(len(order), dtype=np.int64)
        copies[alive] = _rank_in_group(self._equal_rows[alive])
        return copies

    def _scores(self, centered: FloatArray, norms: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield the first row and |x|^2 - 2qx (queries, rows) of each block of vectors; the array is reused."""
        doubled = -2.0 * centered
        origin = self._origin
        # Few queries take long blocks at once, which the matrix product likes; a centered copy stays small.
        step = _STORED_ROWS if origin is not None else max(_STORED_ROWS, _BLOCK_VALUES // max(1, len(centered)))
        n_rows = min(step, len(self.vectors))
        buffer = np.empty((len(centered), n_rows), dtype=np.float32)
        moved = np.empty((0 if origin is None else n_rows, centered.shape[1]), dtype=np.float32)
        # The first block is short: it only has to give a limit that few values of the others pass.
        starts = [0, *range(min(_FIRST_ROWS, n_rows), len(self.vectors), step)]
        for start, end in zip(starts, [*starts[1:], len(self.vectors)], strict=True):
            block = self.vectors[start:end]
            if np.isinf(norms[start:end]).all():
                continue
            if origin is not None:
                block = np.subtract(block, origin, out=moved[: len(block)])
            scores = np.matmul(doubled, block.T, out=buffer[:, : len(block)])
            scores += norms[start:end]
            yield start, scores


def direct_distances(vectors: FloatArray, queries: FloatArray, rows: IntArray) -> FloatArray:
    """Return the Euclidean distances (queries, k), in float64, from each query to its own `rows`; inf for row -1."""
    owners = np.repeat(np.arange(len(rows)), rows.shape[1])
    distances = pair_distances(vectors, queries, owners, rows.ravel()).reshape(rows.shape)
    distances[rows < 0] = np.inf
    return distances


def pair_distances(vectors: FloatArray, queries: FloatArray, owners: IntArray, rows: IntArray) -> FloatArray:
    """Return the Euclidean distances (pairs,), in float64, between `queries[owners]` and `vectors[rows]`."""
    squares = np.empty(len(rows))
    step = max(1, _DIRECT_VALUES // vectors.shape[1])
    for start in range(0, len(rows), step):
        pairs = slice(start, start + step)
        gap = np.subtract(vectors[rows[pairs]], queries[owners[pairs]], dtype=np.float64)
        np.einsum("ij,ij->i", gap, gap, out=squares[pairs])
    return np.sqrt(squares, out=squares)


def sorted_by_distance(distances: FloatArray, rows: IntArray, n_neighbors: int) -> tuple[FloatArray, IntArray]:
    """Return the first `n_neighbors` of each row, sorted by (distance, row)."""
    order = np.lexsort((rows, distances), axis=1)[:, :n_neighbors]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def row_squared_norms(vectors: FloatArray, origin: FloatArray | None = None) -> FloatArray:
    """Return the squared Euclidean distance (n,) of each row from `origin`, inf where float32 cannot hold it."""
    norms = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _PASS_ROWS):
        block = vectors[start : start + _PASS_ROWS]
        if origin is not None:
            block = block - origin
        with np.errstate(over="ignore"):
            norms[start : start + _PASS_ROWS] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return norms


def _below(scores: FloatArray, limit: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the entries of each row of `scores` below its `limit`, moved to the left and padded with inf."""
    if np.isinf(limit).all():
        return scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    # numpy finds the few True ones several times faster in one dimension than in two.
    rows, columns = np.divmod(np.flatnonzero(scores < limit), scores.shape[1])
    position = _rank_in_group(rows)
    values = np.full((len(scores), position.max(initial=-1) + 1), np.inf, dtype=np.float32)
    places = np.zeros(values.shape, dtype=np.int64)
    values[rows, position] = scores[rows, columns]
    places[rows, position] = columns
    return values, places


def _rank_in_group(sorted_groups: IntArray) -> IntArray:
    """Return for each entry how many equal ones stand before it, equal ones being neighbors.

    >>> _rank_in_group(np.array([4, 4, 7, 7, 7])).tolist()
    [0, 1, 0, 1, 2]
    """
    position = np.arange(len(sorted_groups))
    starts = np.flatnonzero(np.diff(sorted_groups, prepend=sorted_groups[:1] - 1))
    return position - np.repeat(starts, np.diff(np.append(starts, len(position))))
