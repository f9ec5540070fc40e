"""What only a store on Milvus has: indexes, limits, an identity, writes that fail halfway; on a real server."""

import os
import secrets

import numpy as np
import pytest

from engines import MILVUS
from knn_ue.errors import InvalidInputError, StorageError, StoreUnreachableError
from knn_ue.stores import MilvusStore, open_store
from knn_ue.stores.milvus import CHUNK_ROWS
from reference import brute_force

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        MILVUS not in os.environ, reason=f"no Milvus: python tests/engines.py start FOLDER --milvus VENV sets {MILVUS}"
    ),
]
N_COLUMNS = 16
TOO_LONG = "é" * 32_768  # 65,536 bytes


def points(n_rows, seed=0, n_columns=N_COLUMNS):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


@pytest.fixture
def address():
    found = f"milvus://{os.environ[MILVUS]}/test_{secrets.token_hex(6)}"
    yield found
    if exists(found):
        MilvusStore.drop(found)


@pytest.fixture(scope="module")
def store():
    place = f"milvus://{os.environ[MILVUS]}/test_{secrets.token_hex(6)}"
    yield MilvusStore.build(place, points(30), np.arange(30) % 3, index="flat")
    MilvusStore.drop(place)


def exists(address):
    try:
        MilvusStore.open(address)
    except StorageError:
        return False
    return True


def ids_in(store):
    return [number for part in store.rows() for number in part.ids.tolist()]


@pytest.mark.parametrize("index", ["hnsw", "ivf_sq8"])
def test_an_approximate_index_finds_nearly_all_neighbors(index, address):
    features, queries = points(3000), points(20, seed=1)
    store = MilvusStore.build(address, features, np.zeros(3000, dtype=int), index=index)

    found = store.search(queries, 8)

    ids, distances = brute_force(features.astype(float), queries.astype(float), 8)
    recall = np.mean([len(set(a) & set(b)) / 8 for a, b in zip(found.ids.tolist(), ids, strict=True)])
    assert recall >= (0.99 if index == "hnsw" else 0.8)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5 if index == "hnsw" else 0.1)
    assert found.approximate == (index == "ivf_sq8") and (np.diff(found.distances) >= 0).all()


def test_a_text_that_is_too_long_is_refused_before_anything_is_written(store, address):
    n_before = len(store)

    with pytest.raises(InvalidInputError, match="up to 65535 bytes, text 1 has 65536; nothing was written"):
        MilvusStore.build(address, points(2), [0, 1], texts=["short", TOO_LONG])
    with pytest.raises(InvalidInputError, match="up to 65535 bytes, text 0 has 65536; nothing was written"):
        store.add(points(1), [0], texts=[TOO_LONG])

    assert not exists(address) and len(ids_in(store)) == n_before


def failing_at(store, monkeypatch, number, error):
    """Let the write of the chunk with this number fail, after Milvus has stored it."""
    calls, call = [], store.collection.call

    def fail(method, **options):
        result = call(method, **options)
        calls.append(method)
        if calls.count("upsert") == number and method == "upsert":
            raise error
        return result

    monkeypatch.setattr(store.collection, "call", fail)


def test_an_add_that_nobody_acknowledged_is_repeated_without_duplicates(store, monkeypatch):
    before, n_rows = ids_in(store), CHUNK_ROWS + 5
    features, labels = points(n_rows, seed=2), np.zeros(n_rows, dtype=int)
    with monkeypatch.context() as patch:
        failing_at(store, patch, 2, StoreUnreachableError("gone"))
        with pytest.raises(StoreUnreachableError):
            store.add(features, labels)

    ids = store.add(features, labels)
    once = ids_in(store)
    more = store.add(features[:3], labels[:3])
    store.remove([*ids, *more])

    assert sorted(once) == sorted([*before, *ids.tolist()])
    assert not set(more.tolist()) & set(ids.tolist())
    assert ids_in(store) == before


def test_an_add_that_milvus_refuses_halfway_stores_nothing(store, monkeypatch):
    before, n_rows = ids_in(store), CHUNK_ROWS + 5
    with monkeypatch.context() as patch:
        failing_at(store, patch, 2, StorageError("refused"))
        with pytest.raises(StorageError, match="refused"):
            store.add(points(n_rows, seed=3), np.zeros(n_rows, dtype=int))

    assert ids_in(store) == before


def test_a_collection_with_another_number_of_columns_is_refused(address, tmp_path):
    built = MilvusStore.build(address, points(5), np.zeros(5, dtype=int))
    built.save(tmp_path / "reference")
    identity = built.collection.existing()[0]["identity"]
    MilvusStore.drop(address)
    other = MilvusStore.build(address, points(5, n_columns=N_COLUMNS + 1), np.zeros(5, dtype=int))
    with pytest.raises(StorageError, match=r"is not the one that .* was fitted with"):
        open_store(tmp_path / "reference")

    other.collection.call("alter_collection_properties", properties={"knn_ue.identity": identity})

    with pytest.raises(StorageError, match="another identity or number of columns"):
        open_store(tmp_path / "reference")


def test_a_missing_collection_and_one_that_exists_are_one_sentence(store, address):
    with pytest.raises(StorageError, match=r"the collection milvus://.* is missing: restore it, or refit"):
        open_store(address)
    with pytest.raises(InvalidInputError, match=r"already exists, and other folders may share it: choose another"):
        MilvusStore.build(store.where, points(2), [0, 1])


def test_an_address_without_a_server_is_one_sentence_at_the_deadline():
    with pytest.raises(StoreUnreachableError, match=r"127\.0\.0\.1:1/nothing does not answer .*deadline 1 s.*: check"):
        open_store("milvus://127.0.0.1:1/nothing?timeout=1")
