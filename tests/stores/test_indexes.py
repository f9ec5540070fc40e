"""faiss indexes: what each finds, what removing leaves, and what is said about one that cannot be built."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore, IndexOptions, index_options
from knn_ue.stores.faiss_index import read_index
from knn_ue.stores.segment import build_index, rebuild_index

# Generous settings, and the share of the ten true neighbors that they must find.
RECALLS = {
    "IVF16,Flat": (IndexOptions(factory="IVF16,Flat", n_probe=16), 1.0),
    "IVF16,SQ8": (IndexOptions(factory="IVF16,SQ8", n_probe=16, refine_factor=4), 1.0),
    "HNSW16": (IndexOptions(factory="HNSW16", ef_search=300), 0.99),
    "PQ8x4": (IndexOptions(factory="PQ8x4", refine_factor=40), 0.95),
    "PQ8x4fs": (IndexOptions(factory="PQ8x4fs", refine_factor=40), 0.95),
    "PCA12,IVF16,PQ6x4,RFlat": (IndexOptions(factory="PCA12,IVF16,PQ6x4,RFlat", n_probe=16, refine_factor=60), 0.95),
    "IVF16_HNSW8,Flat": (IndexOptions(factory="IVF16_HNSW8,Flat", n_probe=16), 0.98),
}
APPROXIMATE = sorted(RECALLS)


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(1500, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def indexes(vectors):
    return {name: build_index(vectors, options) for name, (options, _) in RECALLS.items()}


def recall(found, truth):
    return np.mean([np.isin(t, f).mean() for t, f in zip(truth, found, strict=True)])


@pytest.mark.parametrize("name", APPROXIMATE)
def test_an_index_with_generous_settings_meets_its_recall(name, indexes, vectors):
    queries = vectors[:100] + 0.05
    truth = build_index(vectors, IndexOptions()).search(queries, 10)[1]

    found = indexes[name].search(queries, 10)[1]

    assert recall(found, truth) >= RECALLS[name][1]


@pytest.mark.parametrize("name", APPROXIMATE)
def test_distances_are_euclidean_and_computed_from_the_vectors(name, indexes, vectors):
    distances, rows = indexes[name].search(vectors[:30] + 0.05, 10)

    gaps = vectors[rows].astype(np.float64) - (vectors[:30, None] + np.float32(0.05))
    np.testing.assert_allclose(distances, np.sqrt(np.square(gaps).sum(axis=2)), rtol=1e-12)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_the_row_itself_is_found_first_at_distance_zero(name, indexes, vectors):
    distances, rows = indexes[name].search(vectors[:50], 3)

    np.testing.assert_array_equal(rows[:, 0], np.arange(50))
    np.testing.assert_array_equal(distances[:, 0], 0.0)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_more_excluded_rows_around_the_query_than_asked_for_are_fetched_around(name, indexes, vectors):
    index, query = indexes[name], vectors[:1]
    excluded = np.zeros(len(vectors), dtype=bool)
    excluded[index.search(query, 200)[1]] = True

    rows = index.search(query, 8, excluded)[1]

    assert (rows >= 0).all()
    assert not excluded[rows].any()


@pytest.mark.parametrize("name", APPROXIMATE)
def test_excluding_all_but_a_few_rows_finds_no_excluded_one(name, indexes, vectors):
    excluded = np.ones(len(vectors), dtype=bool)
    excluded[[3, 700]] = False

    distances, rows = indexes[name].search(vectors[:5], 4, excluded)

    assert set(rows.ravel().tolist()) <= {-1, 3, 700}
    np.testing.assert_array_equal(np.isinf(distances), rows < 0)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_batch_size_and_query_order_do_not_matter(name, indexes, vectors):
    queries = vectors[:50] + 0.05

    backwards = indexes[name].search(queries[::-1].copy(), 6)[1][::-1]
    single = np.concatenate([indexes[name].search(query[None], 6)[1] for query in queries])

    np.testing.assert_array_equal(single, backwards)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_more_neighbors_than_rows_are_padded(name, indexes, vectors):
    distances, rows = indexes[name].search(vectors[:2], 1600)

    assert (rows[:, 1500:] == -1).all()
    assert np.isinf(distances[:, 1500:]).all()
    assert (np.sort(rows[0, rows[0] >= 0]) == np.unique(rows[0, rows[0] >= 0])).all()


@pytest.mark.parametrize(
    "factory",
    [
        "IVF256,PQ16x4fsr",
        "IVF64,PQ4x4",
        "IVF256,Flat",
        "HNSW8_SQ8",
        "HNSW64_PQ4x4",
        "SQfp16",
        "RR8,PQ4x4fs",
        "OPQ4,PQ4x4",
    ],
)
def test_every_kind_of_index_that_can_be_written_is_read_back_the_same(factory, vectors, tmp_path):
    options = IndexOptions(factory=factory)
    index = build_index(vectors[:300], options)
    index.write(tmp_path / "index")

    read = read_index(tmp_path / "index", vectors[:300].shape, vectors[:300], options)

    np.testing.assert_array_equal(read.search(vectors[:30], 5)[1], index.search(vectors[:30], 5)[1])


# An option, two values of it, and the share of the second's neighbors that the first may find at most.
REACHING = {
    "n_probe": ({"factory": "IVF16,Flat"}, "n_probe", (1, 16), 0.8),
    "n_probe of a fast scan": ({"factory": "IVF16,PQ8x4fs"}, "n_probe", (1, 16), 0.8),
    "n_probe behind PCA": ({"factory": "PCA16,IVF16,Flat"}, "n_probe", (1, 16), 0.8),
    "n_probe behind PCA, of codes": ({"factory": "PCA12,IVF16,PQ6x4", "recompute": False}, "n_probe", (1, 16), 0.8),
    "n_probe behind OPQ": ({"factory": "OPQ8,IVF16,PQ8x4"}, "n_probe", (1, 16), 0.8),
    "ef_search": ({"factory": "HNSW4"}, "ef_search", (1, 400), 0.9),
    "ef_search behind PCA": ({"factory": "PCA16,HNSW4"}, "ef_search", (1, 400), 0.9),
    "ef_search behind a rotation": ({"factory": "RR16,HNSW4_SQ8"}, "ef_search", (1, 400), 0.9),
    "refine_factor": ({"factory": "PQ4x4"}, "refine_factor", (1, 50), 0.7),
    "refine_factor behind PCA": ({"factory": "PCA8,PQ4x4"}, "refine_factor", (1, 50), 0.7),
    "refine_factor behind OPQ": ({"factory": "OPQ4_8,PQ4x4fs"}, "refine_factor", (1, 50), 0.7),
}


@pytest.mark.parametrize("name", REACHING)
def test_an_option_reaches_the_index_inside(name, vectors):
    fixed, option, values, at_most = REACHING[name]
    queries = vectors[:50] + np.float32(0.05)

    few, many = (build_index(vectors, IndexOptions(**fixed, **{option: n})).search(queries, 10)[1] for n in values)

    assert recall(few, many) < at_most


@pytest.mark.parametrize("factory", ["PQ8x4", "PCA8,PQ8x4", "OPQ4_8,PQ4x4", "PCA8,IVF4,PQ4x4fs"])
def test_recompute_changes_the_distances_but_not_what_is_found(factory, vectors):
    queries = vectors[:50] + np.float32(0.05)

    (exact, exact_rows), (estimated, rows) = (
        build_index(vectors, IndexOptions(factory=factory, recompute=choice)).search(queries, 10)
        for choice in (True, False)
    )

    np.testing.assert_array_equal(np.sort(rows), np.sort(exact_rows))
    assert np.abs(exact - estimated).max() > 0.1


# On clusters, as features of a classifier are: the share of ten true neighbors that must be found.
CLUSTERED = {
    "PQ32x5": ({}, 0.8),
    "PQ32x5 refined": ({"factory": "PQ32x5", "refine_factor": 8}, 1.0),
    "OPQ16,PQ16x4": ({"refine_factor": 20}, 0.95),
    "OPQ12_24,IVF12,PQ12x4fs": ({"n_probe": 4, "refine_factor": 20}, 0.95),
    "SQ8": ({}, 0.97),
    "SQ4": ({"refine_factor": 4}, 0.98),
    "SQfp16": ({}, 1.0),
    "HNSW16": ({"ef_search": 64}, 0.95),
    "HNSW16_SQ8": ({"ef_search": 64}, 0.95),
    "PCA24,HNSW16": ({"ef_search": 128, "refine_factor": 8}, 0.95),
    "PQ16x4fs": ({"refine_factor": 20}, 0.9),
    "IVF12,PQ16x4fsr": ({"n_probe": 4, "refine_factor": 20}, 0.9),
    "PCA24,IVF12,SQ8": ({"n_probe": 4, "refine_factor": 8}, 0.95),
    "PCA24,IVF12,PQ12x4": ({"n_probe": 4, "refine_factor": 20}, 0.95),
    "PCA24,IVF12,PQ12x4fs": ({"n_probe": 4, "refine_factor": 20}, 0.95),
}


@pytest.fixture(scope="module")
def clusters():
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(12, 32))
    return (centers[rng.integers(12, size=2000)] + rng.normal(size=(2000, 32))).astype(np.float32)


@pytest.mark.parametrize("name", CLUSTERED)
def test_every_combination_meets_its_recall_on_clusters(name, clusters):
    options, at_least = CLUSTERED[name]
    queries = clusters[:100] + np.float32(0.05)
    truth = build_index(clusters, IndexOptions()).search(queries, 10)[1]

    found = build_index(clusters, IndexOptions(**({"factory": name} | options))).search(queries, 10)[1]

    assert recall(found, truth) >= at_least


@pytest.mark.parametrize(("n_rows", "factory"), [(1 << 20, "Flat"), ((1 << 20) + 1, "IVF4096,SQ8")])
def test_auto_is_exact_up_to_two_to_the_26_values(n_rows, factory):
    assert index_options("auto", n_rows, 64).factory == factory


def test_a_trailing_rflat_is_understood_as_a_refine_factor_of_four():
    assert IndexOptions(factory="PQ8,RFlat") == IndexOptions(factory="PQ8", refine_factor=4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"factory": ""}, "factory must be a faiss factory string such as"),
        ({"factory": 5}, "factory must be a faiss factory string such as"),
        ({"n_probe": 0}, "n_probe must be a whole number of at least 1, got 0"),
        ({"ef_search": 2.5}, "ef_search must be a whole number of at least 1, got 2.5"),
        ({"refine_factor": True}, "refine_factor must be a whole number of at least 1, got True"),
        ({"n_probe": 2**31}, "n_probe must be at most 2147483647"),
        ({"factory": "HNSW0"}, "numbers in factory must be at least 1, and 2 after HNSW, .* got 'HNSW0'"),
        ({"factory": "IVF16_HNSW1,Flat"}, "numbers in factory must be at least 1, and 2 after HNSW"),
        ({"factory": "RR0,Flat"}, "numbers in factory must be at least 1"),
    ],
)
def test_options_that_break_a_rule_say_which(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        IndexOptions(**arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (IndexOptions(factory="Nonsense"), 'index must be "exact", "auto" or a faiss factory string for 16 columns'),
        (IndexOptions(factory="PQ7"), "got 'PQ7' .*multiple of the number of subquantizers"),
        (IndexOptions(factory="PCA64,Flat"), "faiss cannot build 'PCA64,Flat' from 1500 rows"),
        (IndexOptions(factory="IDMap,Flat"), "faiss cannot build 'IDMap,Flat' from 1500 rows"),
        (IndexOptions(factory="IVF2000,Flat"), "from 1500 rows .*store more examples or choose a smaller index"),
        (IndexOptions(ef_search=5), "ef_search=5 has no effect on an exact index: leave it out"),
        (IndexOptions(refine_factor=2), "refine_factor=2 has no effect on an exact index: leave it out"),
        (IndexOptions(factory="IVF4,Flat", ef_search=5), "ef_search=5 has no effect on 'IVF4,Flat': leave it out"),
        (IndexOptions(factory="SQ8", n_probe=5), "n_probe=5 has no effect on 'SQ8': leave it out"),
    ],
)
def test_an_index_that_cannot_be_built_says_why_in_a_sentence(options, words, vectors):
    with pytest.raises(InvalidInputError, match=words):
        build_index(vectors, options)


def test_an_index_that_was_built_once_is_exact_where_too_few_rows_are_left(vectors):
    options = IndexOptions(factory="IVF16,Flat", n_probe=16)

    rows = rebuild_index(vectors[:5], options).search(vectors[:2], 5)[1]

    assert sorted(rows[0].tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("factory", ["PCA8,IVF64,PQ4x4", "OPQ4,PQ4x4"])
def test_faiss_keeps_silent_about_small_training_sets(factory, vectors, capfd):
    build_index(vectors, IndexOptions(factory=factory))

    assert capfd.readouterr().err == ""


def test_a_kind_of_index_that_faiss_cannot_read_safely_is_not_saved(vectors, tmp_path):
    store = Datastore.build(vectors, np.zeros(1500, int), index="LSH")

    with pytest.raises(InvalidInputError, match="a faiss IndexLSH cannot be saved"):
        store.save(tmp_path / "store")

    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("excluded", [False, True])
def test_a_refined_search_finds_what_comparing_every_candidate_finds(excluded):
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.integers(-2, 3, size=(60, 6)).astype(np.float32), 20, axis=0)  # many ties
    queries = rng.normal(size=(7, 6)).astype(np.float32)
    gone = rng.random(len(vectors)) < 0.3 if excluded else None
    options = IndexOptions(factory="IVF4,Flat", n_probe=4, refine_factor=40)

    distances, rows = build_index(vectors, options).search(queries, 5, gone)

    expected = np.sqrt(((queries[:, None].astype(np.float64) - vectors) ** 2).sum(axis=2))
    if gone is not None:
        expected[:, gone] = np.inf
    order = np.argsort(expected, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(distances, np.take_along_axis(expected, order, axis=1), rtol=1e-6)
