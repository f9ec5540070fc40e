"""The same examples behind another index, and what is known of other writers."""

import numpy as np
import pytest

from knn_ue import Datastore
from knn_ue.errors import InvalidInputError
from knn_ue.stores import IndexOptions

CODES = IndexOptions(factory="SQ8", recompute=False)


@pytest.fixture
def store():
    """300 examples of which two were removed and one was added since the index was built."""
    random = np.random.default_rng(0)
    built = Datastore.build(random.normal(size=(300, 8)), np.arange(300) % 3, texts=[f"text {i}" for i in range(300)])
    built.remove([3, 250])
    built.add(random.normal(size=(1, 8)), [2], texts=["late"])
    return built


def queries():
    return np.random.default_rng(1).normal(size=(20, 8))


def test_ids_labels_and_texts_stay_with_another_index(store):
    changed = store.reindexed(IndexOptions(factory="IVF4,Flat", n_probe=4))

    before, after = store.search(queries(), 10), changed.search(queries(), 10)
    np.testing.assert_array_equal(after.ids, before.ids)
    np.testing.assert_array_equal(after.labels, before.labels)
    assert changed.texts_of([300, 250]) == ["late", None]


def test_the_store_itself_is_left_as_it_was(store):
    changed = store.reindexed(CODES)
    changed.add(np.zeros((1, 8)), [0])

    assert (len(store), len(changed)) == (299, 300)
    assert store.options.factory == "Flat"
    assert not store.search(queries(), 3).approximate
    assert changed.search(queries(), 3).approximate


def test_new_ids_go_on_where_the_old_ones_ended(store):
    assert store.reindexed(CODES).add(np.zeros((1, 8)), [0]).tolist() == [301]


def test_arrays_are_those_stored_now(store):
    vectors, labels = store.arrays()

    assert len(vectors) == len(labels) == 299
    assert labels.tolist() == [*(store.ids % 3).tolist()[:-1], 2]


def test_the_old_index_is_not_built_again_for_what_does_not_search_it(store, monkeypatch):
    changed = store.reindexed(IndexOptions(factory="IVF4,Flat", n_probe=4))
    changed.remove([0])

    def build(*_):
        raise AssertionError("the old index was built")

    monkeypatch.setattr("knn_ue.stores.datastore.rebuild_index", build)

    assert len(changed.arrays()[0]) == len(changed.reindexed("exact")) == 298


def test_without_vectors_there_is_nothing_to_index_anew():
    features = np.random.default_rng(0).normal(size=(100, 8))
    store = Datastore.build(features, np.zeros(100, int), index=CODES, keep_vectors=False)

    with pytest.raises(InvalidInputError, match="keeps no vectors, so its index cannot be rebuilt: build it"):
        store.reindexed("exact")
    store.remove([0])
    with pytest.raises(InvalidInputError, match="keeps no vectors, so its index cannot be rebuilt: build it"):
        store.arrays()
