"""A search on a GPU. No GPU is here: a stand-in takes faiss's place where it would copy an index to one."""

import faiss
import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore, IndexOptions

RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(600, 16)).astype(np.float32)
QUERIES = RANDOM.normal(size=(9, 16)).astype(np.float32)
LABELS = np.arange(600) % 3
INDEXES = ("exact", IndexOptions(factory="PCA8,IVF8,Flat", n_probe=3, recompute=False))


class StandIn:
    """Copies an index as faiss does to a GPU, and counts the searches that go through the copy."""

    def __init__(self, index):
        self.copy = faiss.clone_index(index)
        self.searches = 0
        self.this, self.ntotal, self.d = index.this, index.ntotal, index.d

    def search(self, queries, n_neighbors):
        self.searches += 1
        return self.copy.search(queries, n_neighbors)


@pytest.fixture
def copies(monkeypatch):
    made = []

    def index_cpu_to_gpu(_resources, _number, index):
        made.append(StandIn(index))
        return made[-1]

    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", index_cpu_to_gpu, raising=False)
    monkeypatch.setattr(faiss, "downcast_index", _downcast_but_the_stand_in(faiss.downcast_index))
    return made


def _downcast_but_the_stand_in(downcast):
    return lambda index: index if isinstance(index, StandIn) else downcast(index)


def same(found, expected):
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-6)
    assert found.approximate == expected.approximate


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_the_copy_is_searched_and_finds_the_same(copies, index):
    store = Datastore.build(FEATURES, LABELS, index=index)
    expected = store.search(QUERIES, 5)

    store.use_gpu()

    same(store.search(QUERIES, 5), expected)
    assert [copy.searches for copy in copies] == [1]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_changes_are_seen_and_compact_moves_again(copies, index):
    store, on_cpu = (Datastore.build(FEATURES, LABELS, index=index) for _ in range(2))
    store.use_gpu()
    for changed in (store, on_cpu):
        changed.remove(np.arange(50))
        changed.add(QUERIES, np.zeros(len(QUERIES), dtype=int))

    same(store.search(QUERIES, 5), on_cpu.search(QUERIES, 5))
    store.compact()
    on_cpu.compact()

    same(store.search(QUERIES, 5), on_cpu.search(QUERIES, 5))
    assert len(copies) == 2
    assert copies[-1].searches == 1


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_a_saved_store_knows_nothing_of_the_gpu(copies, index, tmp_path):
    store = Datastore.build(FEATURES, LABELS, index=index)
    expected = store.search(QUERIES, 5)
    store.use_gpu()

    store.save(tmp_path / "store")

    same(Datastore.load(tmp_path / "store").search(QUERIES, 5), expected)
    assert copies[-1].searches == 0


@pytest.mark.parametrize("number", [0, -1, "0", None])
def test_a_faiss_without_a_gpu_says_so(number):
    store = Datastore.build(FEATURES, LABELS)

    with pytest.raises(InvalidInputError, match=r"gpu .* is not one of the 0 that faiss can use here: install a faiss"):
        store.use_gpu(number)


def test_an_index_that_no_gpu_takes_is_named(copies, monkeypatch):
    def refuse(*_):
        raise RuntimeError("Error in ToGpuCloner: This index type is not implemented on GPU.")

    monkeypatch.setattr(faiss, "index_cpu_to_gpu", refuse)
    store = Datastore.build(FEATURES, LABELS, index=IndexOptions(factory="HNSW8", recompute=False))

    with pytest.raises(InvalidInputError, match=r"cannot put 'HNSW8' on a GPU \(This index type is not implemented"):
        store.use_gpu()
