"""Two blobs, and points on rays away from them: a density must fall, an uncertainty must rise."""

from dataclasses import dataclass

import numpy as np

N_RAYS = 64


@dataclass(frozen=True)
class Blobs:
    """Rows (n, width) float32 around two centers (2, width), unit deviation, with their labels (n,)."""

    rows: np.ndarray
    labels: np.ndarray
    centers: np.ndarray


def two_blobs(width: int, *, n_rows: int = 600, seed: int = 0) -> Blobs:
    random = np.random.default_rng(seed)
    centers = np.zeros((2, width))
    centers[:, 0] = 3.0, -3.0
    labels = np.arange(n_rows) % 2
    return Blobs((centers[labels] + random.normal(size=(n_rows, width))).astype(np.float32), labels, centers)


def points_at(blobs: Blobs, deviations: float, *, seed: int = 1) -> np.ndarray:
    """Return the ends (64, width) of rays of this length, in random directions from the centers."""
    directions = np.random.default_rng(seed).normal(size=(N_RAYS, blobs.centers.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (blobs.centers[np.arange(N_RAYS) % 2] + deviations * directions).astype(np.float32)
