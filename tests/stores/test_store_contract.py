"""One contract, run over every writable store: in memory, in a folder, and on a real Milvus."""

import os
import secrets

import numpy as np
import pytest

from engines import MILVUS
from knn_ue.calibrators import KnnUE
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.stores import Datastore, MilvusStore, WritableStore, moved_store, open_store
from knn_ue.types import Outputs
from reference import brute_force

N_ROWS, N_COLUMNS = 600, 384
COPIES = slice(100, 160)  # one vector sixty times: more ties than a search asks for


def features(n_rows=N_ROWS, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, N_COLUMNS)).astype(np.float32)


def stored_features():
    found = features()
    found[COPIES] = found[50]
    return found


LABELS = np.arange(N_ROWS) % 3
QUERIES = features(2, seed=1)
SLOWLY_FOUND = brute_force(stored_features().astype(float), QUERIES.astype(float), 8)
TEXTS = ["x" * 65_535, "", *(f"text {number} é" for number in range(2, N_ROWS))]


@pytest.fixture(scope="module")
def milvus_address():
    if MILVUS not in os.environ:
        pytest.skip(f"no Milvus: python tests/engines.py start FOLDER --milvus VENV, and set {MILVUS}")
    address = f"milvus://{os.environ[MILVUS]}/test_{secrets.token_hex(6)}"
    yield address
    MilvusStore.drop(address)


@pytest.fixture(scope="module", params=["memory", "folder", "milvus"])
def store(request, tmp_path_factory):
    if request.param == "milvus":
        return MilvusStore.build(
            request.getfixturevalue("milvus_address"), stored_features(), LABELS, texts=TEXTS, index="exact"
        )
    built = Datastore.build(stored_features(), LABELS, texts=TEXTS)
    if request.param == "memory":
        return built
    folder = tmp_path_factory.mktemp("store") / "store"
    built.save(folder)
    return Datastore.load(folder)


def test_it_keeps_the_contract(store):
    assert isinstance(store, WritableStore)
    assert len(store) == N_ROWS and store.n_columns == N_COLUMNS


def test_it_finds_the_rows_that_a_slow_search_finds(store):
    found = store.search(QUERIES, 8)

    ids, distances = SLOWLY_FOUND
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)
    np.testing.assert_array_equal(found.labels, LABELS[found.ids])
    assert found.ids.tolist() == ids


@pytest.mark.parametrize("n_neighbors", [1, 32, 61, 64])
def test_rows_at_one_distance_are_ordered_by_id(n_neighbors, store):
    found = store.search(stored_features()[50:51], n_neighbors)

    copies = [50, *range(COPIES.start, COPIES.stop)]
    n_copies = min(n_neighbors, len(copies))
    assert found.ids[0, :n_copies].tolist() == copies[:n_copies]
    assert (found.distances[0, :n_copies] == 0).all()


def test_what_is_not_found_is_padded(store):
    found = store.search(stored_features()[:2], N_ROWS + 5)

    assert (found.ids[:, N_ROWS:] == -1).all() and (found.labels[:, N_ROWS:] == -1).all()
    assert np.isinf(found.distances[:, N_ROWS:]).all()
    assert np.sort(found.ids[0, :N_ROWS]).tolist() == list(range(N_ROWS))


def test_no_queries_have_no_neighbors(store):
    assert store.search(np.empty((0, N_COLUMNS)), 3).ids.shape == (0, 3)


def test_features_of_another_width_are_refused(store):
    with pytest.raises(InvalidInputError, match="must have the store's 384 columns, got 3"):
        store.search([[1.0, 2.0, 3.0]], 1)


def test_texts_come_back_whole_and_unknown_ids_have_none(store):
    found = store.texts_of([0, 1, 7, -1, N_ROWS + 10, 7])

    assert found == [TEXTS[0], "", TEXTS[7], None, None, TEXTS[7]]


def test_vectors_come_back_and_unknown_ids_are_nan(store):
    found = store.vectors_of([3, N_ROWS + 10])

    np.testing.assert_array_equal(found[0], stored_features()[3])
    assert np.isnan(found[1]).all()


def test_what_is_added_is_found_at_once_and_what_is_removed_never(store):
    far = 50 + features(3, seed=2)

    ids = store.add(far, [2, 1, 0], texts=["new a", "new b", "new c"])

    assert len(set(ids.tolist())) == 3 and min(ids) >= N_ROWS and max(ids) < 2**53
    found = store.search(far, 1)
    assert found.ids[:, 0].tolist() == ids.tolist() and found.labels[:, 0].tolist() == [2, 1, 0]
    assert store.texts_of(ids) == ["new a", "new b", "new c"] and len(store) == N_ROWS + 3

    store.remove(ids)

    assert not np.isin(store.search(far, 5).ids, ids).any()
    assert store.texts_of(ids) == [None] * 3 and len(store) == N_ROWS


def test_an_unknown_id_is_an_error_and_then_nothing_is_removed(store):
    with pytest.raises(InvalidInputError, match=r"id 123456 is not stored .*: nothing was removed"):
        store.remove([5, 123456])

    assert store.texts_of([5]) == [TEXTS[5]]


def test_ids_never_repeat(store):
    point = features(1, seed=3)
    first = store.add(point, [0])
    store.remove(first)

    second = store.add(point, [0])
    store.remove(second)

    assert first[0] != second[0]


def test_probabilities_are_those_of_a_datastore(store):
    rng = np.random.default_rng(5)
    data = {name: features(80, seed=seed) for name, seed in (("validation", 6), ("test", 7))}
    validation, test = (
        Outputs(features=found, logits=rng.normal(size=(80, 3)) * 3, labels=rng.integers(0, 3, 80))
        for found in data.values()
    )

    fitted = KnnUE(Datastore.build(stored_features(), LABELS), n_neighbors=16).fit(validation)
    moved = fitted.with_stores({"store": store})

    np.testing.assert_allclose(moved.predict_proba(test), fitted.predict_proba(test), rtol=1e-6, atol=1e-9)


def test_a_saved_store_is_opened_by_its_kind(store, tmp_path):
    store.save(tmp_path / "saved")

    opened = open_store(tmp_path / "saved")

    queries = features(4, seed=8)
    np.testing.assert_array_equal(opened.search(queries, 3).ids, store.search(queries, 3).ids)


def test_rows_move_to_memory_with_their_ids_and_texts(store):
    if store.where == "memory":
        pytest.skip("it is there")

    moved = moved_store(store, None, "exact")

    np.testing.assert_array_equal(moved.ids, np.arange(N_ROWS))
    np.testing.assert_array_equal(moved.arrays()[0], stored_features())
    assert moved.texts_of(moved.ids) == TEXTS


def test_a_collection_of_another_identity_is_refused(store, tmp_path):
    if not store.where.startswith("milvus"):
        pytest.skip("a folder's identity is checked by its parent")
    store.save(tmp_path / "reference")
    before = store.collection.existing()[0]["identity"]

    def rename(identity):
        store.collection.call("alter_collection_properties", properties={"knn_ue.identity": identity})

    rename("another")
    try:
        with pytest.raises(StorageError, match=r"is not the one that .* was fitted with"):
            open_store(tmp_path / "reference")
    finally:
        rename(before)
