"""How much of an exact neighbor search does a faster one find?"""

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_length, to_numpy
from knn_ue.errors import InvalidInputError
from knn_ue.metrics.weights import checked_weights, ratio

_BLOCK_IDS = 1 << 20


def neighbor_coverage(*, exact_ids: IntArray, found_ids: IntArray, sample_weight: FloatArray | None = None) -> float:
    """Share of the ids in `exact_ids` (n, k) that the same row of `found_ids` (n, k2) also holds; 1 is best.

    Id -1 means that nothing was found and is ignored. Also known as recall@k of the index: Jégou et al. (2011).
    `sample_weight` (n,) says how much each row counts.

    >>> neighbor_coverage(exact_ids=[[4, 7], [2, -1]], found_ids=[[7, 9, 4], [3, 5, -1]])
    0.6666666666666666
    """
    exact, found = _id_matrix(exact_ids, "exact_ids"), _id_matrix(found_ids, "found_ids")
    check_length(len(found), "found_ids", len(exact))
    n_exact = int(np.count_nonzero(exact != -1))
    if n_exact == 0:
        raise InvalidInputError("exact_ids is empty or holds only -1: at least one neighbor is needed")
    weights = checked_weights(sample_weight, len(exact))
    by_row = np.zeros(len(exact))
    n_found = 0
    n_rows = max(1, _BLOCK_IDS // max(1, found.shape[1]))
    for start in range(0, len(exact), n_rows):
        searched = found[start : start + n_rows]
        for ids in exact[start : start + n_rows].T:
            hits = (searched == ids[:, None]).any(axis=1) & (ids != -1)
            n_found += int(np.count_nonzero(hits))
            if weights is not None:
                by_row[start : start + n_rows] += hits
    if weights is None:
        return n_found / n_exact
    return weights.number(ratio(by_row @ weights.values, (exact != -1).sum(axis=1) @ weights.values))


def _id_matrix(values: object, name: str) -> IntArray:
    ids = to_numpy(values, name)
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be whole numbers of shape (queries, neighbors), got dtype {ids.dtype} and shape {ids.shape}: "
            "pass Neighbors.ids"
        )
    return ids.astype(np.int64, copy=False)
