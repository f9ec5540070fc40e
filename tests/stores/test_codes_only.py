"""keep_vectors=False: only what the index made of the vectors is kept, and everything but recomputation works."""

import shutil

import numpy as np
import pytest

from held import fitted_in, forge, forge_arrays, forge_state
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.stores import Datastore, IndexOptions

OPTIONS = IndexOptions(factory="PCA8,PQ4x4", recompute=False)
TEXTS = [f"text {n}" for n in range(400)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 16)).astype(np.float32), rng.integers(4, size=400)


@pytest.fixture
def store(rows):
    return Datastore.build(*rows, texts=TEXTS, index=OPTIONS, keep_vectors=False)


def assert_same_answers(one, other, queries):
    found, expected = one.search(queries, 9), other.search(queries, 9)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.labels, expected.labels)
    # A rotation of a few rows rounds differently from one of many.
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-5, atol=1e-5)
    assert one.texts_of(one.ids) == other.texts_of(other.ids)


def test_it_answers_as_a_store_that_keeps_its_vectors(rows, store):
    assert_same_answers(store, Datastore.build(*rows, texts=TEXTS, index=OPTIONS), rows[0][:30])


@pytest.mark.slow
def test_a_folder_without_vectors_is_more_than_sixty_times_smaller(tmp_path):
    features = np.random.default_rng(0).normal(size=(8000, 768)).astype(np.float32)
    options = IndexOptions(factory="PCA16,PQ16x4", recompute=False)
    sizes = []
    for keep in (True, False):
        path = tmp_path / str(keep)
        Datastore.build(features, np.zeros(8000, int), index=options, keep_vectors=keep).save(path)
        sizes.append(sum(entry.stat().st_size for entry in fitted_in(path).iterdir()))

    assert sizes[0] > 60 * sizes[1]


@pytest.mark.parametrize("normalize", ["none", "l2", "standardize"])
def test_what_was_added_and_removed_is_saved_and_loaded(rows, normalize, tmp_path):
    store = Datastore.build(*rows, texts=TEXTS, index=OPTIONS, normalize=normalize, keep_vectors=False)
    store.add(rows[0][:20] + 1, np.arange(20), texts=TEXTS[:20])
    store.remove([3, 5, 401])
    store.save(tmp_path / "store")

    loaded = Datastore.load(tmp_path / "store")
    assert_same_answers(loaded, store, rows[0][:30])
    loaded.add(rows[0][:2] + 2, [1, 2])
    loaded.remove([0])
    loaded.save(tmp_path / "store")
    loaded.save(tmp_path / "copy")

    for path in ("store", "copy"):
        again = Datastore.load(tmp_path / path)
        assert_same_answers(again, loaded, rows[0][:30])
        np.testing.assert_array_equal(again.ids, loaded.ids)
        assert again.add(rows[0][:1], [0]).tolist() == [422]


def test_compaction_is_refused_in_one_sentence_and_changes_nothing(rows, store):
    store.add(rows[0][:2], [0, 1])

    with pytest.raises(InvalidInputError, match="keeps no vectors, so its index cannot be rebuilt: build it again"):
        store.compact()

    assert len(store) == 402


@pytest.mark.parametrize("index", ["exact", "PQ4x4", "auto", IndexOptions(factory="PQ4x4", refine_factor=4)])
def test_recomputation_without_vectors_is_refused_in_one_sentence(rows, index):
    with pytest.raises(InvalidInputError, match="without vectors exact distances cannot be computed: use keep_vectors"):
        Datastore.build(*rows, index=index, keep_vectors=False)


@pytest.fixture(scope="module")
def template(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("codes") / "store"
    store = Datastore.build(*rows, index=OPTIONS, keep_vectors=False)
    store.add(rows[0][:2], [0, 1])
    store.save(path)
    return path


HOSTILE = {
    "recomputation": {"index": {"factory": "PCA8,PQ4x4", "recompute": True}},
    "an exact search": {"index": {"factory": "Flat"}},
    "vectors that are not there": {"keep_vectors": True},
    "neither yes nor no": {"keep_vectors": 0},
}


@pytest.fixture
def folder(template, tmp_path):
    return shutil.copytree(template, tmp_path / "store")


def test_the_folder_opens_as_it_is(folder):
    assert len(Datastore.load(folder)) == 402


@pytest.mark.parametrize("name", HOSTILE)
def test_options_that_contradict_missing_vectors_are_refused(name, folder):
    forge_state(folder, **HOSTILE[name])

    with pytest.raises(StorageError):
        Datastore.load(folder)


@pytest.mark.parametrize("n_columns", [15, 0, 10**30, "sixteen", True, None])
def test_columns_that_are_not_those_of_the_index_are_refused(n_columns, folder):
    forge(folder, lambda parts: parts[""]["grows"].update(n_columns=n_columns))

    with pytest.raises(StorageError):
        Datastore.load(folder)


def test_other_rows_than_the_index_has_are_refused(folder):
    arrays = {"ids": np.arange(399), "labels": np.zeros(399, np.int64)}
    forge_arrays(folder, **arrays, text_ends=np.zeros(399, np.int64), text_present=np.zeros(399, bool))

    with pytest.raises(StorageError, match="indexes 400 rows"):
        Datastore.load(folder)


def test_a_missing_index_is_refused(folder):
    (fitted_in(folder) / "index.faiss").unlink()

    with pytest.raises(StorageError, match=r"index\.faiss is missing"):
        Datastore.load(folder)
