"""Features of any framework and layout are accepted, never changed, and copied only where they must be."""

import sys

import numpy as np
import pytest

from knn_ue.errors import MissingExtraError
from knn_ue.stores import Datastore, IndexOptions, open_store


class FakeTensor:
    """What a tensor on another device looks like: numpy may read it only after detach and cpu."""

    def __init__(self, array, steps=()):
        self.array, self.steps = array, steps

    def detach(self):
        return FakeTensor(self.array, (*self.steps, "detach"))

    def cpu(self):
        return FakeTensor(self.array, (*self.steps, "cpu"))

    def __array__(self, dtype=None, copy=None):
        assert self.steps == ("detach", "cpu")
        return np.asarray(self.array, dtype=dtype)


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(50, 6)).astype(np.float16)


LAYOUTS = {
    "float16": lambda x: x,
    "float64": lambda x: x.astype(np.float64),
    "Fortran order": lambda x: np.asfortranarray(x.astype(np.float32)),
    "every second row of a larger array": lambda x: np.repeat(x, 2, axis=0).astype(np.float32)[::2],
    "reversed columns of a reversed array": lambda x: x[:, ::-1].astype(np.float32)[:, ::-1],
    "big endian": lambda x: x.astype(">f4"),
    "lists": lambda x: x.tolist(),
    "a tensor": lambda x: FakeTensor(x.astype(np.float32)),
    "read-only": lambda x: np.frombuffer(x.astype(np.float32).tobytes(), dtype=np.float32).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_the_features_does_not_matter(layout, features):
    plain = Datastore.build(features.astype(np.float32), np.arange(50)).search(features.astype(np.float32), 4)

    found = Datastore.build(LAYOUTS[layout](features), np.arange(50)).search(LAYOUTS[layout](features), 4)

    np.testing.assert_array_equal(found.ids, plain.ids)
    np.testing.assert_array_equal(found.distances, plain.distances)


def test_a_torch_tensor_that_requires_gradients_is_accepted(features):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(features.astype(np.float32), requires_grad=True)

    found = Datastore.build(tensor, torch.arange(50)).search(tensor, 1)

    assert found.ids[:, 0].tolist() == list(range(50))


def test_a_bfloat16_tensor_is_accepted(features):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(features.astype(np.float32)).bfloat16()

    assert Datastore.build(tensor, torch.arange(50)).search(tensor, 1).distances.max() == 0


@pytest.mark.parametrize("normalize", ["none", "l2", "standardize"])
@pytest.mark.parametrize("index", ["exact", "IVF4,Flat"])
def test_inputs_are_unchanged_by_every_call(index, normalize, features, tmp_path):
    matrix, labels, more = features.astype(np.float32), np.arange(50), np.ones((3, 6), dtype=np.float32)
    before = [array.copy() for array in (matrix, labels, more)]
    store = Datastore.build(matrix, labels, index=index, normalize=normalize)
    store.search(matrix, 5)
    store.add(more, labels[:3])
    store.remove([0, 1])
    store.save(tmp_path / "store")
    store.compact()

    for array, copy in zip((matrix, labels, more), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_memory_mapped_array_is_searched_where_it_lies(features, tmp_path):
    np.save(tmp_path / "features.npy", features.astype(np.float32))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")

    store = Datastore.build(mapped, np.arange(50))

    assert np.shares_memory(store._rows.base.index.vectors, mapped)
    assert store.search(mapped[:3], 1).ids.ravel().tolist() == [0, 1, 2]


def test_the_arrays_of_a_result_cannot_be_written(features):
    found = Datastore.build(features, np.arange(50)).search(features[:2], 2)

    with pytest.raises(ValueError, match="read-only"):
        found.ids[0, 0] = 5


def test_numpy_integers_serve_as_options_and_as_the_number_of_neighbors(tmp_path):
    features = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    options = IndexOptions(factory="IVF4,Flat", n_probe=np.int64(4), refine_factor=np.int8(2))

    Datastore.build(features, np.zeros(300, dtype=int), index=options).save(tmp_path / "store")

    store = Datastore.load(tmp_path / "store")
    assert store.options == IndexOptions(factory="IVF4,Flat", n_probe=4, refine_factor=2)
    assert (store.search(features[:3], np.int8(125)).ids >= 0).all()
    assert (store.reindexed("exact").search(features[:3], np.int8(125)).ids >= 0).all()


def test_a_store_on_milvus_without_its_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)

    with pytest.raises(MissingExtraError, match=r'needs pymilvus\. Install it with: pip install "knn-ue\[milvus\]"$'):
        open_store("milvus://127.0.0.1:19530/films")
