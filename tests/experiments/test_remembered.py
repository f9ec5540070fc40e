"""One search serves every number of neighbors, bit for bit."""

import numpy as np
import pytest

from knn_ue import Datastore
from knn_ue.experiments.cells import CellStore
from knn_ue.experiments.remembered import MOST_NEIGHBORS, RememberedSearch


class Counting:
    """A store that counts how often it was asked."""

    def __init__(self, store):
        self.store, self.asked = store, []

    def __len__(self):
        return len(self.store)

    def search(self, features, n_neighbors):
        self.asked.append(n_neighbors)
        return self.store.search(features, n_neighbors)

    def texts_of(self, ids):
        return self.store.texts_of(ids)


def vectors(n_rows, seed):
    return np.random.default_rng(seed).standard_normal((n_rows, 6)).astype(np.float32)


@pytest.fixture
def cells(tmp_path):
    return CellStore(tmp_path / "cells", tmp_path / "work")


@pytest.fixture
def store():
    return Counting(Datastore.build(vectors(300, 0), np.arange(300) % 4, texts=[str(row) for row in range(300)]))


def assert_same(found, expected):
    for name in ("ids", "distances", "labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.approximate == expected.approximate


def test_every_number_of_neighbors_is_answered_from_one_search(store, cells):
    queries = vectors(40, 1)
    remembered = RememberedSearch(store, cells, "model")

    for n_neighbors in (32, 1, 8, MOST_NEIGHBORS):
        assert_same(remembered.search(queries, n_neighbors), store.store.search(queries, n_neighbors))

    assert store.asked == [MOST_NEIGHBORS]
    assert_same(RememberedSearch(store, cells, "model").search(queries, 5), store.store.search(queries, 5))
    assert store.asked == [MOST_NEIGHBORS]
    assert len(remembered) == 300 and remembered.texts_of([7]) == ["7"]


def test_more_than_are_kept_are_searched_for(store, cells):
    queries = vectors(4, 1)

    assert_same(RememberedSearch(store, cells, "model").search(queries, 200), store.store.search(queries, 200))


def test_other_queries_and_other_stores_are_not_mistaken(store, cells):
    remembered = RememberedSearch(store, cells, "model")
    other = Datastore.build(vectors(200, 5), np.zeros(200, int))
    remembered.search(vectors(4, 1), 8)

    assert_same(remembered.search(vectors(4, 2), 8), store.store.search(vectors(4, 2), 8))
    assert_same(RememberedSearch(other, cells, "other").search(vectors(4, 1), 8), other.search(vectors(4, 1), 8))


def test_what_is_damaged_is_searched_again(store, cells):
    queries = vectors(4, 1)
    RememberedSearch(store, cells, "model").search(queries, 8)
    for path in (cells.work / "neighbors").rglob("*.safetensors"):
        path.write_bytes(b"damaged")

    assert_same(RememberedSearch(store, cells, "model").search(queries, 8), store.store.search(queries, 8))
    assert store.asked == [MOST_NEIGHBORS] * 2
