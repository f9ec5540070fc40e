"""recompute=False: the index's own distances, sorted, never negative, and said to be approximate."""

import numpy as np
import pytest

import reference
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.stores.faiss_index import _sorted_roots
from knn_ue.stores.segment import build_index

OPTIONS = {
    "IVF8,Flat": IndexOptions(factory="IVF8,Flat", n_probe=8, recompute=False),
    "PCA8,PQ4x4": IndexOptions(factory="PCA8,PQ4x4", recompute=False),
    "OPQ4_8,PQ4x4": IndexOptions(factory="OPQ4_8,PQ4x4", recompute=False),
    "SQ8": IndexOptions(factory="SQ8", recompute=False),
    "PCA8,IVF8,PQ4x4fs": IndexOptions(factory="PCA8,IVF8,PQ4x4fs", n_probe=8, recompute=False),
    "PQ8x4fs": IndexOptions(factory="PQ8x4fs", recompute=False),
    "HNSW8_SQ8": IndexOptions(factory="HNSW8_SQ8", ef_search=64, recompute=False),
    "IVF8,PQ4x5": IndexOptions(factory="IVF8,PQ4x5", n_probe=3, recompute=False),
}
ALL = sorted(OPTIONS)


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    return (4 * rng.normal(size=(12, 16))[rng.integers(12, size=600)] + rng.normal(size=(600, 16))).astype(np.float32)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(5, size=600)


@pytest.fixture(scope="module")
def indexes(vectors):
    return {name: build_index(vectors, options) for name, options in OPTIONS.items()}


def stored_rows(index):
    """What a faiss index keeps of each row, in its own space."""
    import faiss

    inner = faiss.downcast_index(index.inner)
    if hasattr(inner, "chain"):
        inner = faiss.downcast_index(inner.index)
    if hasattr(inner, "make_direct_map"):
        inner.make_direct_map()
    return inner.reconstruct_n(0, inner.ntotal)


@pytest.mark.parametrize("name", ["IVF8,Flat", "PCA8,PQ4x4", "OPQ4_8,PQ4x4", "SQ8"])
def test_distances_are_those_to_what_the_index_keeps(name, indexes, vectors):
    queries = vectors[:12] + np.float32(0.3)
    distances, rows = indexes[name].search(queries, 7)

    seen = indexes[name].space(queries).astype(float)
    _, expected = reference.brute_force(stored_rows(indexes[name]).astype(float).tolist(), seen.tolist(), 7)

    np.testing.assert_allclose(distances, expected, rtol=1e-3)
    assert (rows >= 0).all()


@pytest.mark.parametrize("name", ALL)
def test_rows_are_sorted_by_distance_then_id_and_never_negative(name, indexes, vectors):
    distances, rows = indexes[name].search(vectors[:200], 40)

    for some_distances, some_rows in zip(distances.tolist(), rows.tolist(), strict=True):
        found = [(d, r) for d, r in zip(some_distances, some_rows, strict=True) if r >= 0]
        assert found == sorted(found)
        assert len({r for _, r in found}) == len(found)
    assert (distances >= 0).all()
    np.testing.assert_array_equal(np.isinf(distances), rows < 0)


@pytest.mark.parametrize("name", ALL)
def test_the_vectors_are_not_looked_at(name, vectors):
    index = build_index(vectors, OPTIONS[name])
    before = index.search(vectors[:20], 5)
    index.vectors = np.broadcast_to(np.float32(np.nan), vectors.shape)

    for old, new in zip(before, index.search(vectors[:20], 5), strict=True):
        np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("name", ALL)
def test_single_queries_find_what_a_batch_finds(name, indexes, vectors):
    together = indexes[name].search(vectors[:30], 6)

    for number in range(30):
        distances, rows = indexes[name].search(vectors[number : number + 1], 6)
        np.testing.assert_allclose(distances[0], together[0][number], rtol=1e-4, atol=1e-2)
        assert np.isin(rows[0], together[1][number]).mean() > 0.8


@pytest.mark.parametrize("name", ALL)
def test_neighbors_say_that_they_are_approximate_also_after_loading(name, vectors, labels, tmp_path):
    store = Datastore.build(vectors, labels, index=OPTIONS[name])
    store.save(tmp_path / "store")
    loaded = Datastore.load(tmp_path / "store")

    found, again = store.search(vectors[:9], 4), loaded.search(vectors[:9], 4)

    assert loaded.options == OPTIONS[name]
    assert found.approximate
    assert again.approximate
    np.testing.assert_array_equal(again.distances, found.distances)


def test_recomputed_and_exact_neighbors_say_that_they_are_not_approximate(vectors, labels):
    for index in ("exact", "PQ4x4"):
        assert not Datastore.build(vectors, labels, index=index).search(vectors[:2], 3).approximate


def test_a_missing_row_never_reads_a_label(vectors, labels):
    store = Datastore.build(vectors, labels, index=IndexOptions(factory="IVF16,PQ4x4fs", n_probe=1, recompute=False))

    found = store.search(vectors[:50], 590)

    missing = found.ids < 0
    assert missing.any(axis=1).all()
    assert (found.labels[missing] == -1).all()
    assert np.isinf(found.distances[missing]).all()
    np.testing.assert_array_equal(found.labels[~missing], labels[found.ids[~missing]])


@pytest.mark.parametrize("name", ALL)
def test_removed_rows_are_excluded_and_others_take_their_place(name, vectors, labels):
    store = Datastore.build(vectors, labels, index=OPTIONS[name])
    gone = store.search(vectors[:1], 30).ids[0]
    gone = gone[gone >= 0]
    store.remove(gone)

    found = store.search(vectors[:1], 8)

    assert not np.isin(found.ids, gone).any()
    assert (found.ids >= 0).all()
    assert (np.diff(found.distances) >= 0).all()


@pytest.mark.parametrize("name", ALL)
def test_an_added_row_is_compared_in_the_space_of_the_index(name, vectors, labels):
    store = Datastore.build(vectors, labels, index=OPTIONS[name])
    for rows in np.split(vectors[:40] + np.float32(0.5), [1, 5, 20]):
        store.add(rows, np.zeros(len(rows), int))
    queries = vectors[:40]

    found = store.search(queries, 300)

    index = store._rows.base.index
    gaps = index.space(queries + np.float32(0.5)) - index.space(queries)
    for row, gap in enumerate(gaps.astype(float)):
        position = found.ids[row].tolist().index(600 + row)
        assert found.distances[row, position] == pytest.approx(float(np.sqrt(gap @ gap)), rel=1e-5)


def test_distances_that_are_not_numbers_are_refused():
    with pytest.raises(StorageError, match="the index holds distances that are not numbers: rebuild it"):
        _sorted_roots(np.array([[1.0, np.nan]], dtype=np.float32), np.array([[1, 2]]), 2)


def test_negative_squares_count_as_zero_and_ties_come_by_row():
    squared = np.array([[-1e-6, 0.0, -0.0, 4.0, 4.0, 3.4e38]], dtype=np.float32)

    distances, rows = _sorted_roots(squared, np.array([[7, 3, 5, 2, 1, -1]]), 6)

    assert distances.tolist() == [[0, 0, 0, 2, 2, np.inf]]
    assert rows.tolist() == [[3, 5, 7, 1, 2, -1]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"refine_factor": 4}, "refine_factor=4 refines by exact distances, which recompute=False does without"),
        ({"factory": "PQ8,RFlat"}, "refine_factor=4 refines by exact distances"),
        ({"recompute": "no"}, "recompute must be True or False, got 'no'"),
    ],
)
def test_options_that_contradict_recompute_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        IndexOptions(**({"factory": "PQ8", "recompute": False} | arguments))


def test_an_exact_index_refuses_recompute(vectors):
    with pytest.raises(InvalidInputError, match="recompute=False has no effect on an exact index: leave it out"):
        build_index(vectors, IndexOptions(recompute=False))
