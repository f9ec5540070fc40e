"""Which examples to store where not all are wanted: balanced across classes."""

import numpy as np

from knn_ue.arrays import IntArray, check_positive, label_vector


def balanced_rows(labels: IntArray, n_rows: int, *, seed: int = 0) -> IntArray:
    """Return at most `n_rows` rows, rising: small classes whole, of the others equally many at random.

    In tagging most words are O, and nearly equal: they are what can be spared.

    >>> labels = np.array([0, 0, 0, 0, 0, 0, 1, 2])
    >>> labels[balanced_rows(labels, 4)].tolist()
    [0, 0, 1, 2]
    """
    check_positive(n_rows, "n_rows")
    known = label_vector(labels, "labels")
    order = np.random.default_rng(seed).permutation(len(known))
    rank = np.empty(len(known), dtype=np.int64)  # among the rows of its class
    for label in np.unique(known):
        of_class = order[known[order] == label]
        rank[of_class] = np.arange(len(of_class))
    kept: IntArray = np.sort(order[np.argsort(rank[order], kind="stable")][:n_rows])
    return kept
