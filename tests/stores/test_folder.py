"""A store and its folder: what is written where, who may write, and what is opened how."""

import os
import subprocess
import sys

import numpy as np
import pytest

from knn_ue.errors import StorageError
from knn_ue.stores import Datastore, IndexOptions


def files_in(path):
    return sorted(entry.name for entry in path.iterdir())


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


def test_an_exact_store_is_three_files(saved):
    assert [name.split(".")[0] for name in files_in(saved)] == ["arrays", "journal", "meta"]


def test_a_loaded_store_maps_its_vectors_instead_of_reading_them_where_they_are_many(saved, monkeypatch):
    monkeypatch.setattr("knn_ue.storage.tensors._MAPPED_BYTES", 100)
    segment = Datastore.load(saved)._state.base

    assert rests_on_a_memmap(segment.vectors)
    assert rests_on_a_memmap(segment.index.vectors)
    assert rests_on_a_memmap(segment.texts.content)


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
    assert len(files_in(saved)) == 3


def test_a_store_saved_elsewhere_includes_its_journal_and_stays_where_it_is(saved, tmp_path):
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
    identity = store.save(saved)
    store.add(np.ones((1, 4)), [10])

    assert len(Datastore.load(saved, identity=identity)) == 6


def test_a_store_whose_folder_was_deleted_can_be_saved_there_again(saved, tmp_path):
    store = Datastore.load(saved)
    saved.rename(tmp_path / "elsewhere")
    store.save(saved)

    assert content_of(Datastore.load(saved)) == content_of(store)


def test_compact_keeps_the_identity_and_empties_the_journal(saved):
    store = Datastore.load(saved)
    identity = store._state.stored.identity
    store.add(np.ones((100, 4)), np.ones(100, int))
    store.compact()

    assert Datastore.load(saved, identity=identity)._state.journal.end < 100
    assert len(files_in(saved)) == 3


def test_another_identity_is_refused_as_swapped(saved):
    with pytest.raises(StorageError, match="is not the folder that was saved: it was replaced"):
        Datastore.load(saved, identity="0" * 32)


CHANGES = {
    "add": lambda store: store.add(np.ones((1, 4)), [5]),
    "remove": lambda store: store.remove([3]),
    "compact": lambda store: store.compact(),
    "save": lambda store: store.save(store.path),
}


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", ["add", "remove", "compact"])
def test_a_second_writer_is_refused_and_the_first_one_loses_nothing(first, second, saved):
    Datastore.load(saved).add(np.ones((1, 4)), [4])
    one, two = Datastore.load(saved), Datastore.load(saved)
    CHANGES[first](one)

    with pytest.raises(StorageError, match="was changed by another writer: load it again and repeat"):
        CHANGES[second](two)

    assert content_of(Datastore.load(saved)) == content_of(one)


def test_a_change_after_the_folder_was_deleted_is_refused(saved, tmp_path):
    store = Datastore.load(saved)
    saved.rename(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=r"store.* cannot be written \(No such file or directory\)"):
        store.add(np.ones((1, 4)), [5])

    assert len(store) == 4


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


def test_a_folder_whose_meta_json_is_another_programs_is_refused_and_left_alone(tmp_path):
    (tmp_path / "meta.json").write_text('{"title": "my album"}')
    (tmp_path / "song.mp3").write_bytes(b"la")

    with pytest.raises(StorageError, match="it is not a knn-ue folder; nothing was written, choose another folder"):
        Datastore.build([[0.0]], [0]).save(tmp_path)

    assert files_in(tmp_path) == ["meta.json", "song.mp3"]
    assert (tmp_path / "meta.json").read_text() == '{"title": "my album"}'


def test_a_plain_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")

    with pytest.raises(StorageError, match=r"file cannot be written \(File exists\): what it held is unchanged"):
        Datastore.build([[0.0]], [0]).save(tmp_path / "file")


def test_loading_a_folder_that_does_not_exist_says_so(tmp_path):
    with pytest.raises(StorageError, match=r"the folder .*nowhere does not exist: check the path"):
        Datastore.load(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"has no meta\.json, so it is not a knn-ue folder"):
        Datastore.load(tmp_path)


def test_a_store_can_be_saved_below_folders_that_do_not_exist_yet(tmp_path):
    Datastore.build([[0.0]], [0]).save(tmp_path / "a" / "b" / "store")

    assert len(Datastore.load(tmp_path / "a" / "b" / "store")) == 1


def test_a_relative_path_works_from_its_own_directory(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    store = Datastore.load("store")
    store.add(np.ones((1, 4)), [1])

    assert len(Datastore.load(os.path.join("store", ""))) == 5  # noqa: PTH118 (a path as a user may type it)
