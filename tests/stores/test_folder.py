"""A store and its folder: what is written where, what is on disk when, and what is opened how."""

import os
import subprocess
import sys

import numpy as np
import pytest

from held import fitted_in, held
from knn_ue.errors import StaleFolderError, StorageError
from knn_ue.stores import Datastore, IndexOptions


def content_of(store):
    found = store.search(np.zeros((1, store.n_columns)), max(1, len(store)))
    return found.ids.tolist(), found.distances.tolist(), found.labels.tolist(), store.texts_of(store.ids)


def rests_on_a_memmap(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


@pytest.mark.parametrize("index", ["exact", "IVF4,SQ8", "HNSW8", "PCA6,IVF4,PQ3x4,RFlat"])
@pytest.mark.parametrize("normalize", ["none", "l2", "standardize"])
def test_a_loaded_store_answers_bit_for_bit_as_the_saved_one(index, normalize, tmp_path):
    features = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    store = Datastore.build(features, np.arange(80), index=index, normalize=normalize)
    store.save(tmp_path / "store")

    loaded = Datastore.load(tmp_path / "store")

    found, expected = loaded.search(features * 1.1, 5), store.search(features * 1.1, 5)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert loaded.options == store.options


def test_the_search_settings_are_saved_with_the_store(tmp_path):
    options = IndexOptions(factory="IVF4,Flat", n_probe=3, refine_factor=2)
    Datastore.build(np.eye(30), np.arange(30), index=options).save(tmp_path / "store")

    assert Datastore.load(tmp_path / "store").options == options


def test_an_exact_store_is_a_database_and_a_folder_of_two_files(saved):
    assert {entry.name for entry in saved.iterdir()} - {"changes.db-journal"} == {"changes.db", fitted_in(saved).name}
    assert {entry.name for entry in fitted_in(saved).iterdir()} == {"arrays.safetensors", "fitted.json"}


def test_a_loaded_store_maps_its_vectors_instead_of_reading_them_where_they_are_many(saved, monkeypatch):
    monkeypatch.setattr("knn_ue.folder.tensors._MAPPED_BYTES", 100)
    segment = Datastore.load(saved)._rows.base

    assert rests_on_a_memmap(segment.vectors)
    assert rests_on_a_memmap(segment.index.vectors)
    assert rests_on_a_memmap(segment.texts.content)


def test_a_mapped_store_whose_folder_was_moved_goes_on_answering(saved, monkeypatch):
    monkeypatch.setattr("knn_ue.folder.tensors._MAPPED_BYTES", 0)
    store = Datastore.load(saved)
    before = content_of(store)
    saved.rename(saved.with_name("elsewhere"))

    assert content_of(store) == before


def test_save_leaves_a_built_store_in_memory_only(saved):
    store = Datastore.build(np.eye(2), [0, 1])
    store.save(saved)
    store.add(np.ones((1, 2)), [5])

    assert store.path is None
    assert len(Datastore.load(saved)) == 2


def test_changes_of_a_loaded_store_are_on_disk_when_the_call_returns(saved):
    store = Datastore.load(saved)
    store.add(np.ones((2, 4)), [7, 8], texts=["a", "b"])
    store.remove([0])

    assert content_of(Datastore.load(saved)) == content_of(store)


def test_save_over_an_existing_store_replaces_it_and_leaves_no_old_file(saved):
    Datastore.build(np.ones((2, 3)), [5, 6]).save(saved)

    assert Datastore.load(saved).search(np.ones((1, 3)), 2).labels.tolist() == [[5, 6]]
    assert len(list(saved.glob("fitted-*"))) == 1


def test_a_store_saved_elsewhere_includes_its_changes_and_stays_where_it_is(saved, tmp_path):
    store = Datastore.load(saved)
    store.add(np.ones((1, 4)), [9], texts=["nine"])
    store.remove([1])
    store.save(tmp_path / "copy")

    assert content_of(Datastore.load(tmp_path / "copy")) == content_of(store)
    assert store.path == saved
    store.add(np.ones((1, 4)), [10])
    assert len(Datastore.load(saved)) == 5
    assert len(Datastore.load(tmp_path / "copy")) == 4


def test_a_store_saved_to_its_own_folder_goes_on_writing_there(saved):
    store = Datastore.load(saved)
    store.add(np.ones((1, 4)), [9])
    store.save(saved)
    store.add(np.ones((1, 4)), [10])

    assert len(Datastore.load(saved)) == 6


def test_a_removed_highest_id_is_not_given_again_by_a_copy(saved, tmp_path):
    store = Datastore.load(saved)
    store.remove(store.add(np.ones((2, 4)), [9, 9]))
    store.save(tmp_path / "copy")

    assert Datastore.load(tmp_path / "copy").add(np.ones((1, 4)), [1]).tolist() == [6]


def test_a_store_whose_folder_was_moved_away_can_be_saved_elsewhere(saved, tmp_path):
    store = Datastore.load(saved)
    saved.rename(tmp_path / "elsewhere")
    store.save(tmp_path / "again")

    assert content_of(Datastore.load(tmp_path / "again")) == content_of(store)


def test_compact_folds_all_changes_into_the_fitted_part(saved):
    store = Datastore.load(saved)
    store.add(np.ones((100, 4)), np.ones(100, int))
    store.remove([0, 50])
    before = content_of(store)
    store.compact()

    assert not store.has_changes
    assert not Datastore.load(saved).has_changes
    assert content_of(Datastore.load(saved)) == content_of(store) == before


CHANGES = {
    "add": lambda store: store.add(np.ones((1, 4)), [5]),
    "remove": lambda store: store.remove([3]),
    "compact": lambda store: store.compact(),
    "save": lambda store: store.save(store.path),
}


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", ["add", "remove"])
def test_a_second_writer_takes_over_what_the_first_did(first, second, saved):
    one, two = Datastore.load(saved), Datastore.load(saved)
    CHANGES[first](one)

    if (first, second) == ("remove", "remove"):
        two.add(np.ones((1, 4)), [6])
    else:
        CHANGES[second](two)

    now = Datastore.load(saved)
    assert content_of(two) == content_of(now)
    assert (4 in now.ids) == ("add" in (first, second) or second == first)
    assert (3 in now.ids) == ("remove" not in (first, second))


def test_an_id_that_another_writer_removed_is_refused(saved):
    one, two = Datastore.load(saved), Datastore.load(saved)
    one.remove([3])

    with pytest.raises(ValueError, match=r"id 3 is not stored \(never added, or removed\): nothing was removed"):
        two.remove([2, 3])

    assert two.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_of_what_was_compacted_meanwhile_is_refused(change, saved):
    one, two = Datastore.load(saved), Datastore.load(saved)
    one.add(np.ones((1, 4)), [4])
    one.compact()

    with pytest.raises(StaleFolderError, match="was saved, compacted, tuned or replaced since it was opened: open it"):
        CHANGES[change](two)

    assert content_of(Datastore.load(saved)) == content_of(one)


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_change_after_the_folder_was_deleted_is_refused(change, saved, tmp_path):
    store = Datastore.load(saved)
    saved.rename(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=r"the folder .*store does not exist: check the path"):
        CHANGES[change](store)

    assert len(store) == len(Datastore.load(tmp_path / "elsewhere")) == 4
    assert not saved.exists()


def test_a_writer_waits_for_its_turn_and_then_has_it(saved):
    store = Datastore.load(saved)
    store.live.max_wait = 0.05

    with held(saved), pytest.raises(StorageError, match=r"still being written by another process after 0\.05 s"):
        store.add(np.ones((1, 4)), [5])

    assert store.add(np.ones((1, 4)), [5]).tolist() == [4]


@pytest.mark.slow
def test_a_reader_that_meets_a_writer_gets_one_of_its_states(saved):
    code = (
        "import sys, numpy as np\n"
        "from knn_ue.stores import Datastore\n"
        "print('ready', flush=True)\n"
        "for number in range(100_000):\n"
        "    Datastore.build(np.full((5, 4), number % 50), np.full(5, number)).save(sys.argv[1])\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(saved)], stdout=subprocess.PIPE)
    writer.stdout.readline()
    try:
        for _ in range(60):
            store = Datastore.load(saved)
            assert len(set(store.search(np.zeros((1, 4)), 4).labels[0].tolist())) in (1, 4)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def test_files_that_are_not_ours_survive_beside_a_store(saved):
    (saved / "notes.txt").write_text("mine")
    store = Datastore.load(saved)
    store.add(np.ones((1, 4)), [5])
    store.compact()

    assert (saved / "notes.txt").read_text() == "mine"


def test_a_store_can_be_saved_below_folders_that_do_not_exist_yet(tmp_path):
    Datastore.build([[0.0]], [0]).save(tmp_path / "a" / "b" / "store")

    assert len(Datastore.load(tmp_path / "a" / "b" / "store")) == 1


def test_a_relative_path_works_from_its_own_directory(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    store = Datastore.load("store")
    store.add(np.ones((1, 4)), [1])

    assert len(Datastore.load(os.path.join("store", ""))) == 5  # noqa: PTH118 (a path as a user may type it)
