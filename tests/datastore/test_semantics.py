"""What a datastore answers, and that its answers are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from knn_ue.datastore import Datastore, IndexOptions, index_options
from knn_ue.errors import InvalidInputError, StorageError

FACTORIES = ["exact", "IVF8,SQ8", "HNSW16", "PQ8x4", "PCA8,IVF8,PQ4x4,RFlat"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1500, 16)).astype(np.float32)
    return features, rng.integers(0, 4, 1500)


def assert_exact(features, queries, k):
    found = Datastore.build(features, np.zeros(len(features), int)).search(queries, k)
    ids, distances = reference.brute_force(features.tolist(), queries.tolist(), k)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_exact_search_equals_brute_force(offset, scale):
    rng = np.random.default_rng(0)
    features = (scale * rng.normal(size=(120, 5)) + scale * offset).astype(np.float32)

    assert_exact(features, features[:10], 7)


def test_equal_distances_come_by_rising_id():
    features = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)[np.random.default_rng(0).permutation(60)]

    assert_exact(features, np.zeros((1, 3), np.float32), 33)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(1, 40), d=st.integers(1, 6), k=st.integers(1, 12))
def test_exact_search_equals_brute_force_on_small_grids_full_of_ties(seed, n_rows, d, k):
    rng = np.random.default_rng(seed)
    features = rng.integers(-1, 2, size=(n_rows, d)).astype(np.float32)

    assert_exact(features, rng.integers(-1, 2, size=(3, d)).astype(np.float32), min(k, n_rows))


def test_search_finds_the_row_itself_first_at_distance_zero(rows):
    found = Datastore.build(*rows).search(rows[0][:50], 3)

    np.testing.assert_array_equal(found.ids[:, 0], np.arange(50))
    np.testing.assert_array_equal(found.distances[:, 0], 0.0)


@pytest.mark.parametrize("index", FACTORIES)
def test_distances_never_fall_along_a_row(rows, index):
    found = Datastore.build(*rows, index=index).search(rows[0][:40] + 0.1, 20)

    assert (np.diff(found.distances[np.isfinite(found.distances).all(axis=1)], axis=1) >= 0).all()


@pytest.mark.parametrize("index", FACTORIES)
def test_removed_rows_are_never_found(rows, index):
    store = Datastore.build(*rows, index=index)
    nearest = store.search(rows[0][:1], 60).ids[0]
    gone = nearest[nearest >= 0]
    store.remove(gone)

    found = store.search(rows[0][:1], 32)

    assert not np.isin(found.ids, gone).any()
    assert (found.labels[found.ids >= 0] == rows[1][found.ids[found.ids >= 0]]).all()


@pytest.mark.parametrize(
    ("index", "recall"),
    [
        (IndexOptions(factory="IVF8,Flat", n_probe=8), 1.0),
        (IndexOptions(factory="PCA8,IVF8,PQ4x4", n_probe=8, refine_factor=16), 0.8),
        (IndexOptions(factory="HNSW16", ef_search=256), 0.95),
        (IndexOptions(factory="SQ8"), 0.9),
    ],
)
def test_an_approximate_index_meets_a_stated_recall(rows, index, recall):
    exact = Datastore.build(*rows).search(rows[0][:100] + 0.05, 10)

    found = Datastore.build(*rows, index=index).search(rows[0][:100] + 0.05, 10)

    assert np.mean([np.isin(a, b).mean() for a, b in zip(exact.ids, found.ids, strict=True)]) >= recall


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        (IndexOptions(factory="PCA16,IVF16,Flat", n_probe=1), IndexOptions(factory="PCA16,IVF16,Flat", n_probe=16)),
        (IndexOptions(factory="HNSW4", ef_search=1), IndexOptions(factory="HNSW4", ef_search=256)),
        (IndexOptions(factory="PQ4x4"), IndexOptions(factory="PQ4x4", refine_factor=32)),
    ],
)
def test_a_search_option_reaches_the_inner_index(rows, weak, strong):
    exact = Datastore.build(*rows).search(rows[0][:100] + 0.05, 10).ids

    recalls = []
    for options in (weak, strong):
        found = Datastore.build(*rows, index=options).search(rows[0][:100] + 0.05, 10).ids
        recalls.append(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))

    assert recalls[1] > recalls[0] + 0.1


def test_more_neighbors_than_rows_are_padded():
    found = Datastore.build([[0.0], [1.0]], [5, 6]).search([[0.1]], 4)

    assert found.ids.tolist() == [[0, 1, -1, -1]]
    assert found.labels.tolist() == [[5, 6, -1, -1]]
    assert np.isinf(found.distances[0, 2:]).all()


def test_an_empty_store_returns_only_padding():
    found = Datastore.build(np.empty((0, 3)), np.empty(0, int)).search(np.zeros((2, 3)), 2)

    assert found.ids.tolist() == [[-1, -1], [-1, -1]]


def test_zero_queries_give_zero_rows(rows):
    assert Datastore.build(*rows).search(np.empty((0, 16)), 5).ids.shape == (0, 5)


def test_constant_vectors_are_searched_quickly_and_by_rising_id():
    store = Datastore.build(np.ones((7000, 64)), np.zeros(7000, int))

    found = store.search(np.ones((500, 64)), 32)

    np.testing.assert_array_equal(found.ids, np.tile(np.arange(32), (500, 1)))


@pytest.mark.parametrize("index", FACTORIES)
def test_the_batch_size_does_not_matter(rows, index):
    store = Datastore.build(*rows, index=index)
    queries = rows[0][:60] + 0.05

    single = np.concatenate([store.search(query[None], 10).ids for query in queries])

    np.testing.assert_array_equal(single, store.search(queries, 10).ids)


def test_ids_are_never_given_again(tmp_path):
    store = Datastore.build([[0.0], [1.0], [2.0]], [0, 0, 0])
    store.remove([2])
    store.compact()
    store.save(tmp_path / "s")

    assert Datastore.load(tmp_path / "s").add([[3.0]], [1]).tolist() == [3]


def test_an_unknown_id_is_refused_and_nothing_is_removed():
    store = Datastore.build([[0.0], [1.0]], [0, 0])

    with pytest.raises(InvalidInputError, match="id 7 is not stored"):
        store.remove([0, 7])

    assert len(store) == 2


@pytest.mark.parametrize("index", FACTORIES)
def test_changes_survive_compact_save_and_load(rows, index, tmp_path):
    store = Datastore.build(rows[0], rows[1], texts=[f"row {i}" for i in range(1500)], index=index)
    added = store.add(rows[0][:3] * 0, [9, 9, 9], texts=["a", "", "👩‍🔬 שלום"])
    store.remove([0, 5, added[0]])
    store.save(tmp_path / "s")

    loaded = Datastore.load(tmp_path / "s")

    np.testing.assert_array_equal(loaded.ids, store.ids)
    assert loaded.texts_of([1, added[1], added[2], 0]) == ["row 1", "", "👩‍🔬 שלום", None]
    assert loaded.search(np.zeros((1, 16)), 1).labels[0, 0] == 9


def test_a_contiguous_float32_array_is_not_copied(rows, tmp_path):
    np.save(tmp_path / "v.npy", rows[0])
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")

    assert np.shares_memory(Datastore.build(*rows)._state.base.vectors, rows[0])
    assert np.shares_memory(Datastore.build(mapped, rows[1])._state.base.vectors, mapped)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_other_number_types_are_accepted(dtype):
    features = np.arange(12).reshape(4, 3).astype(dtype)

    assert Datastore.build(features, [0, 1, 2, 3]).search(features[2:3], 1).labels[0, 0] == 2


def test_non_contiguous_arrays_are_accepted(rows):
    plain = Datastore.build(np.ascontiguousarray(rows[0][::2, ::-1]), rows[1][::2]).search(rows[0][:5, ::-1], 4)

    strided = Datastore.build(rows[0][::2, ::-1], rows[1][::2]).search(rows[0][:5, ::-1], 4)

    np.testing.assert_array_equal(strided.ids, plain.ids)


def test_an_exact_store_writes_no_index_file_and_opens_memory_mapped(rows, tmp_path):
    Datastore.build(*rows).save(tmp_path / "s")

    assert not [entry for entry in (tmp_path / "s").iterdir() if entry.name.startswith("index")]
    base = Datastore.load(tmp_path / "s")._state.base.vectors
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_a_second_writer_is_refused(tmp_path):
    Datastore.build([[0.0]], [0]).save(tmp_path / "s")
    first, second = Datastore.load(tmp_path / "s"), Datastore.load(tmp_path / "s")
    first.add([[1.0]], [1])

    with pytest.raises(StorageError, match="was changed by another writer: load it again"):
        second.add([[2.0]], [2])

    assert len(Datastore.load(tmp_path / "s")) == 2


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")

    with pytest.raises(StorageError, match="choose a new or empty folder"):
        Datastore.build([[0.0]], [0]).save(tmp_path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("normalize", ["l2", "standardize"])
def test_normalization_equals_normalizing_by_hand(rows, normalize):
    features = rows[0].astype(np.float64) * 3 + 1
    by_hand = features / np.linalg.norm(features, axis=1, keepdims=True)
    if normalize == "standardize":
        by_hand = (features - features.mean(axis=0)) / features.std(axis=0)
    expected = Datastore.build(by_hand, rows[1]).search(by_hand[:20], 5)

    found = Datastore.build(features, rows[1], normalize=normalize).search(features[:20], 5)

    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)


def test_the_auto_rule_is_exact_for_small_stores_and_ivf_for_large_ones():
    assert index_options("auto", 7_000, 384).factory == "Flat"
    assert index_options("auto", 392_702, 768).factory.startswith("IVF")


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("nonsense", "faiss factory string"),
        ("IVF4000,Flat", "faiss cannot build 'IVF4000,Flat' from 1500 rows"),
        (IndexOptions(factory="PQ4x4", n_probe=3), "n_probe=3 has no effect"),
        (IndexOptions(n_probe=3), "n_probe=3 has no effect on an exact index"),
    ],
)
def test_an_index_that_cannot_be_built_says_why(rows, index, words):
    with pytest.raises(InvalidInputError, match=words):
        Datastore.build(*rows, index=index)


def test_features_of_another_width_are_refused(rows):
    with pytest.raises(InvalidInputError, match="the store's 16 columns, got 3"):
        Datastore.build(*rows).search(np.zeros((1, 3)), 1)


def test_lengths_that_float32_cannot_square_are_refused():
    with pytest.raises(InvalidInputError, match="multiply all features by one constant"):
        Datastore.build([[1e25], [0.0]], [0, 1])
