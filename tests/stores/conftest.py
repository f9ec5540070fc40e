"""Fixtures for datastore tests: small labeled rows and folders that hold them."""

import numpy as np
import pytest

from knn_ue.stores import Datastore


@pytest.fixture(autouse=True, scope="session")
def _one_faiss_thread():
    # Two test processes on two cores: faiss's threads would spend their time waiting for each other.
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture
def saved(tmp_path):
    """The path of a folder that holds four examples with texts."""
    path = tmp_path / "store"
    Datastore.build(np.eye(4), [0, 1, 2, 3], texts=["zero", "one", "two", "three"]).save(path)
    return path
