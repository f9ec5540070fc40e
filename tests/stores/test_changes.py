"""Adding, removing and compacting: ids, labels and texts stay together, in memory and on disk."""

import numpy as np
import pytest

from held import fitted_in
from knn_ue.errors import InvalidInputError
from knn_ue.folder.tensors import valid_unicode
from knn_ue.stores import Datastore, IndexOptions

INDEXES = ["exact", "IVF4,Flat", "HNSW8", "PQ4x4", "PCA6,IVF4,PQ3x4,RFlat"]
TEXTS = ["", "plain", "ünïcödé", "👩‍🔬", "\ud83d", "a\x00b\nc", "שלום"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(120, 8)).astype(np.float32), rng.integers(4, size=120)


@pytest.mark.parametrize("index", INDEXES)
def test_an_added_row_is_found_under_its_id_before_and_after_compact(index, rows):
    store = Datastore.build(*rows, index=index)
    (added,) = store.add([np.full(8, 9.0)], [3], texts=["new"])

    before = store.search([np.full(8, 9.0)], 1)
    store.compact()
    after = store.search([np.full(8, 9.0)], 1)

    assert added == 120
    assert before.ids[0, 0] == added == after.ids[0, 0]
    assert store.texts_of([added]) == ["new"]


@pytest.mark.parametrize("index", INDEXES)
def test_ids_and_labels_stay_together_through_add_remove_and_compact(index, rows):
    store = Datastore.build(*rows, index=index)
    store.remove(np.arange(0, 120, 3))
    store.add(rows[0][:30] + 20, rows[1][:30])
    store.remove([121, 125])
    labels = {number: int(label) for number, label in enumerate(np.concatenate((rows[1], rows[1][:30])))}

    store.compact()

    found = store.search(np.concatenate((rows[0], rows[0] + 20)), 3)
    present = found.ids >= 0
    assert [labels[number] for number in found.ids[present].tolist()] == found.labels[present].tolist()
    assert set(found.ids[present].tolist()) <= set(store.ids.tolist())


def test_the_highest_id_is_not_given_again_after_remove_compact_and_reload(tmp_path):
    Datastore.build(np.eye(3), [0, 1, 2]).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.remove([2])
    store.compact()

    assert Datastore.load(tmp_path / "store").add([[0, 0, 9]], [1]).tolist() == [3]


def test_an_added_and_removed_id_is_not_given_again_after_reload(tmp_path):
    Datastore.build(np.eye(3), [0, 1, 2]).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.remove(store.add(np.ones((2, 3)), [0, 0]))

    assert Datastore.load(tmp_path / "store").add([[0, 0, 9]], [1]).tolist() == [5]


def test_removing_an_id_twice_is_refused_with_its_number():
    store = Datastore.build(np.eye(3), [0, 1, 2])
    store.remove(1)

    with pytest.raises(InvalidInputError, match=r"id 1 is not stored \(never added, or removed\): nothing was removed"):
        store.remove([0, 1])

    assert store.ids.tolist() == [0, 2]


@pytest.mark.parametrize("call", ["remove", "texts_of", "vectors_of"])
@pytest.mark.parametrize("ids", [[0.0], [[0]], [True], ["a"]])
def test_ids_that_are_not_whole_numbers_are_refused(ids, call):
    with pytest.raises(InvalidInputError, match="ids must"):
        getattr(Datastore.build(np.eye(3), [0, 1, 2]), call)(ids)


def test_one_id_may_be_given_alone_and_none_at_all():
    store = Datastore.build(np.eye(3), [0, 1, 2], texts=["a", "b", "c"])

    assert (store.texts_of(1), store.texts_of([])) == (["b"], [])
    assert (store.vectors_of(1).tolist(), store.vectors_of([]).shape) == ([[0, 1, 0]], (0, 3))


def test_removing_nothing_changes_nothing():
    store = Datastore.build(np.eye(3), [0, 1, 2])
    store.remove([])

    assert len(store) == 3


def test_removing_every_row_leaves_an_empty_store_that_can_grow_again(rows):
    store = Datastore.build(*rows, index="IVF4,Flat")
    store.remove(store.ids)
    store.compact()
    store.add(rows[0][:2], rows[1][:2])

    assert len(store) == 2
    assert store.search(rows[0][:1], 1).ids.tolist() == [[120]]


def test_a_store_with_too_few_rows_left_for_its_index_can_be_saved_and_searched(rows, tmp_path):
    store = Datastore.build(*rows, index=IndexOptions(factory="IVF16,Flat", n_probe=2))
    store.remove(np.arange(3, 120))
    store.save(tmp_path / "store")

    assert Datastore.load(tmp_path / "store").search(rows[0][:1], 3).ids[0, 0] == 0


def test_the_index_returns_when_there_are_rows_enough_again(rows, tmp_path):
    store = Datastore.build(*rows, index="IVF16,Flat")
    store.remove(np.arange(3, 120))
    store.save(tmp_path / "store")
    grown = Datastore.load(tmp_path / "store")
    grown.add(*rows)

    grown.compact()

    assert (fitted_in(tmp_path / "store") / "index.faiss").exists()


def test_an_empty_store_grows_by_adding(tmp_path):
    Datastore.build(np.empty((0, 2)), []).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.add([[1.0, 2.0]], [7])

    assert Datastore.load(tmp_path / "store").search([[1.0, 2.0]], 2).labels.tolist() == [[7, -1]]


def test_texts_of_every_kind_survive_save_load_add_and_compact(tmp_path):
    Datastore.build(np.eye(7), np.arange(7), texts=TEXTS).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.add(np.eye(7) + 1, np.arange(7), texts=TEXTS[::-1])
    store.compact()

    expected = [valid_unicode(text) for text in TEXTS + TEXTS[::-1]]
    assert Datastore.load(tmp_path / "store").texts_of(np.arange(14)) == expected


def test_rows_without_texts_stay_without_beside_rows_with_them(tmp_path):
    store = Datastore.build(np.eye(2), [0, 1])
    store.add(np.eye(2), [0, 1], texts=["", "b"])
    store.save(tmp_path / "store")

    assert Datastore.load(tmp_path / "store").texts_of([0, 1, 2, 3]) == [None, None, "", "b"]


def test_a_missing_id_has_no_text():
    store = Datastore.build(np.eye(2), [0, 1], texts=["a", "b"])
    store.remove([0])

    assert store.texts_of([-1, 0, 1, 99]) == [None, None, "b", None]


def test_adding_row_by_row_equals_building_at_once(rows):
    store = Datastore.build(rows[0][:1], rows[1][:1])
    for number in range(1, 60):
        store.add(rows[0][number : number + 1], rows[1][number : number + 1])

    found, expected = store.search(rows[0][:20], 7), Datastore.build(rows[0][:60], rows[1][:60]).search(rows[0][:20], 7)

    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_distances_to_added_and_stored_rows_tie_by_id():
    store = Datastore.build([[1.0], [-1.0]], [0, 0])
    store.add([[-1.0], [1.0]], [0, 0])

    assert store.search([[0.0]], 4).ids.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda store: store.add(np.ones((1, 3)), [0]), "the store's 8 columns, got 3: use the same encoder"),
        (lambda store: store.add(np.ones((2, 8)), [0]), "labels has 1 rows but 2 are expected"),
        (lambda store: store.add(np.ones((1, 8)), [-1]), "labels must not be negative"),
        (lambda store: store.add(np.full((1, 8), np.nan), [0]), "features must be finite"),
        (lambda store: store.add(np.ones((1, 8)), [0], texts=["a", "b"]), "texts has 2 rows but 1 are expected"),
        (lambda store: store.add(np.full((1, 8), 1e25), [0]), "multiply all features by one constant"),
        (lambda store: store.search(np.ones(8), 1), "features must have two dimensions"),
        (lambda store: store.search(np.ones((1, 8)), 0), "n_neighbors must be a whole number of at least 1, got 0"),
        (lambda store: store.search(np.full((1, 8), 1e25), 1), "multiply all features by one constant"),
    ],
)
def test_a_refused_call_says_why_and_changes_nothing(change, words, rows):
    store = Datastore.build(*rows)

    with pytest.raises(InvalidInputError, match=words):
        change(store)

    assert len(store) == 120
    assert store.add(rows[0][:1], rows[1][:1]).tolist() == [120]


def test_a_query_near_zero_is_answered_alone_as_in_company(rows):
    store = Datastore.build(*rows)
    tiny = np.full((1, 8), 1e-20, dtype=np.float32)

    alone = store.search(tiny, 3)

    np.testing.assert_array_equal(alone.ids, store.search(np.vstack((tiny, rows[0][:1])), 3).ids[:1])


def test_a_store_of_vanishing_vectors_is_refused():
    with pytest.raises(InvalidInputError, match=r"features must have lengths between 1e-15 and 3e\+18"):
        Datastore.build(np.full((3, 2), 1e-20), [0, 1, 2])


@pytest.mark.parametrize("how", ["compact", "save"])
def test_short_vectors_that_outlive_the_long_ones_can_be_loaded(how, tmp_path):
    Datastore.build([[1.0, 0.0], [1e-20, 0.0], [0.0, 3e-20]], [0, 1, 2]).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    store.remove([0])

    store.compact() if how == "compact" else store.save(tmp_path / "other")

    loaded = Datastore.load(tmp_path / ("store" if how == "compact" else "other"))
    found = loaded.search([[0.0, 0.0]], 2)
    assert found.ids.tolist() == [[1, 2]]
    np.testing.assert_allclose(found.distances, [[1e-20, 3e-20]], rtol=1e-6)


def test_what_changes_a_detached_store_changes_neither_the_original_nor_its_folder(tmp_path):
    Datastore.build([[0.0, 0.0], [3.0, 4.0]], [0, 1], texts=["origin", "far"]).save(tmp_path / "store")
    original = Datastore.load(tmp_path / "store")

    taken = original.detached()
    added = taken.add([[1.0, 1.0]], [1], texts=["new"])
    taken.remove([0])

    assert (taken.path, taken.ids.tolist(), taken.texts_of(added)) == (None, [1, 2], ["new"])
    assert original.ids.tolist() == Datastore.load(tmp_path / "store").ids.tolist() == [0, 1]


@pytest.mark.parametrize("index", ["exact", IndexOptions(factory="PCA2,Flat", recompute=False)], ids=str)
def test_a_store_and_those_detached_from_it_grow_independently(index, rows):
    features, labels = rows
    store = Datastore.build(features[:50], labels[:50], index=index)
    store.add(features[50:60], labels[50:60])
    copies = [store, store.detached(), store.detached()]

    for number, changed in enumerate(copies):
        changed.add(features[60 + number : 61 + number], [number])

    for number, changed in enumerate(copies):
        found = changed.search(features[60 + number : 61 + number], 1)
        assert found.distances[0, 0] == pytest.approx(0, abs=1e-5)
        assert (found.ids[0, 0], found.labels[0, 0]) == (60, number)
        assert np.array_equal(changed.vectors_of([60]), features[60 + number : 61 + number])


def test_the_vectors_of_ids_are_those_that_are_searched(tmp_path):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6, 3)).astype(np.float32)
    store = Datastore.build(features, [0, 1, 0, 1, 0, 1], normalize="l2")
    more = rng.normal(size=(1, 3)).astype(np.float32)
    store.add(more, [1])
    store.remove([2])

    found = store.vectors_of([6, 0, 2, 99])

    np.testing.assert_allclose(found[0], more[0] / np.linalg.norm(more), rtol=1e-6)
    np.testing.assert_allclose(found[1], features[0] / np.linalg.norm(features[0]), rtol=1e-6)
    assert np.isnan(found[2:]).all()
    np.testing.assert_allclose(store.normalized(more), found[:1], rtol=1e-6)
