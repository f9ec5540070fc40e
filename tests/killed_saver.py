"""A process that saves calibrators into one folder until it is killed; run by test_crash_safety.py."""

from pathlib import Path

import numpy as np

from knn_ue import KnnUE
from knn_ue.stores import Datastore
from knn_ue.weighting import WeightParams
from torture.processes import print_to


def save_for_ever(path: Path, log: Path, start: int) -> None:
    """Save one after the other; the number of each is in its parameters and in its examples."""
    print_to(log)
    for number in range(start, start + 10_000):
        print(f"begins {number}", flush=True)  # noqa: T201 (what was acknowledged)
        store = Datastore.build(np.full((200, 8), number), np.full(200, number))
        KnnUE(store, n_neighbors=3, params=WeightParams(alpha=1.0, tau=float(number))).save(path)
        print(f"acknowledged {number}", flush=True)  # noqa: T201
