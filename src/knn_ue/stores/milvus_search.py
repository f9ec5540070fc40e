"""The nearest rows on Milvus, in the order of every store: by (distance, id), padded with id -1."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.stores.milvus_address import MilvusIndex, search_params
from knn_ue.stores.milvus_calls import MilvusCalls
from knn_ue.types import Neighbors

_MAX_QUERIES = 4096
_MAX_LIMIT = 16_384
_MAX_HITS = 200_000  # of one call, so that an answer stays far below Milvus's 64 MB
_MORE = 8  # fetched beyond what is asked for, so that rows at one distance can be ordered by id


def nearest(
    calls: MilvusCalls, queries: FloatArray, n_neighbors: int, *, index: MilvusIndex, n_built: int
) -> Neighbors:
    """Return the neighbors of each query: one call for all of them, more only where ties reach beyond what it gave."""
    if n_neighbors > _MAX_LIMIT:
        raise InvalidInputError(f"Milvus finds at most {_MAX_LIMIT} neighbors, got n_neighbors={n_neighbors}: lower it")
    ids = np.full((len(queries), n_neighbors), -1, dtype=np.int64)
    labels, distances = ids.copy(), np.full(ids.shape, np.inf)
    rows, limit = np.arange(len(queries)), min(n_neighbors + _MORE, _MAX_LIMIT)
    while len(rows):
        cut: list[int] = []
        params = search_params(index, n_built, limit)
        for row, hits in _hits(calls, queries, rows, limit, params):
            found = _sorted(hits)
            n_found = min(len(found[0]), n_neighbors)
            for target, values in zip((ids, distances, labels), found, strict=True):
                target[row, :n_found] = values[:n_neighbors]
            if len(hits) == limit < _MAX_LIMIT and found[1][-1] == found[1][n_neighbors - 1]:
                cut.append(row)
        rows, limit = np.asarray(cut, dtype=np.int64), min(4 * limit, _MAX_LIMIT)
    return Neighbors(ids=ids, distances=distances, labels=labels, approximate=index == "ivf_sq8")


def _hits(
    calls: MilvusCalls, queries: FloatArray, rows: IntArray, limit: int, params: dict[str, Any]
) -> list[tuple[int, Any]]:
    step = max(1, min(_MAX_QUERIES, _MAX_HITS // limit))
    found: list[tuple[int, Any]] = []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        found += zip(part.tolist(), calls.search(queries[part], limit, params), strict=True)
    return found


def _sorted(hits: Sequence[Any]) -> tuple[IntArray, FloatArray, IntArray]:
    """Return ids, Euclidean distances and labels of the hits of one query, by (distance, id)."""
    ids = np.asarray([hit["id"] for hit in hits], dtype=np.int64)
    squared = np.asarray([hit["distance"] for hit in hits], dtype=np.float64)  # Milvus returns squares
    labels = np.asarray([hit["entity"]["label"] for hit in hits], dtype=np.int64)
    distances = np.sqrt(np.maximum(squared, 0.0))
    order = np.lexsort((ids, distances))
    return ids[order], distances[order], labels[order]
