"""One search serves all methods, and finds what each would find for itself."""

import numpy as np
import pytest

from knn_ue.stores import Datastore
from knn_ue_lab.reproduce.cells import CellStore
from knn_ue_lab.reproduce.shared_search import SharedSearch


@pytest.fixture
def kept(tmp_path):
    return CellStore(tmp_path / "cells", tmp_path / "work")


@pytest.fixture
def store():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    vectors[100:150] = vectors[:50]  # ties: the lower id comes first, however many are asked for
    return Datastore.build(vectors, rng.integers(3, size=300))


@pytest.fixture
def queries():
    return np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)


@pytest.mark.parametrize("n_neighbors", [1, 8, 128, 200])
def test_neighbors_are_those_of_a_search_of_its_own(store, queries, kept, n_neighbors):
    found = SharedSearch(store, kept, "ner").search(queries, n_neighbors)

    alone = store.search(queries, n_neighbors)
    np.testing.assert_array_equal(found.ids, alone.ids)
    np.testing.assert_array_equal(found.distances, alone.distances)
    np.testing.assert_array_equal(found.labels, alone.labels)


def test_the_same_rows_are_searched_once(store, queries, kept, monkeypatch):
    SharedSearch(store, kept, "ner").search(queries, 32)
    monkeypatch.setattr(Datastore, "search", lambda *_: pytest.fail("searched again"))

    assert SharedSearch(store, kept, "ner").search(queries, 8).n_neighbors == 8


def test_other_rows_and_other_stores_are_searched_anew(store, queries, kept):
    SharedSearch(store, kept, "ner").search(queries, 8)
    vectors, labels = store.arrays()
    other = Datastore.build(vectors, (labels + 1) % 3)

    np.testing.assert_array_equal(
        SharedSearch(other, kept, "ner").search(queries, 8).labels, other.search(queries, 8).labels
    )
    np.testing.assert_array_equal(
        SharedSearch(store, kept, "ner").search(queries[:5] + 1, 8).ids, store.search(queries[:5] + 1, 8).ids
    )


def test_damaged_findings_are_searched_again(store, queries, kept):
    shared = SharedSearch(store, kept, "ner")
    expected = shared.search(queries, 8).ids
    for file in kept.work.rglob("*.safetensors"):
        file.write_bytes(b"")

    np.testing.assert_array_equal(shared.search(queries, 8).ids, expected)
