"""A few vectors -> the plane that shows most of how they differ: principal components, the same in every run."""

import numpy as np

from knn_ue.arrays import FloatArray


def project(vectors: FloatArray) -> tuple[FloatArray, float]:
    """Return the places (n, 2) of `vectors` (n, d) and the share of their variance that the plane shows.

    The first vector lies at (0, 0). Distances in the plane are never longer than the true ones.

    >>> places, shown = project(np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]))
    >>> np.hypot(*places.T).round(6), round(shown, 6)
    (array([0., 3., 4.]), 1.0)
    """
    centered = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    places = np.zeros((len(centered), 2))
    kept = min(2, len(sizes))
    places[:, :kept] = left[:, :kept] * sizes[:kept]
    # The sign of a component is arbitrary: let the vector that is farthest out lie to the right, or above.
    farthest = np.abs(places).argmax(axis=0)
    places *= np.where(places[farthest, [0, 1]] < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    return places - places[0], float((sizes[:kept] ** 2).sum() / total) if total else 1.0
