"""A change goes only to what is still there: the last record, the files of the store, the folder that names it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from knn_ue.storage import read_folder, write_folder
from stores.hostile import part

from knn_ue import KnnUE
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
from knn_ue.weighting import WeightParams

CHANGES = {
    "add": lambda store: store.add(np.ones((1, 4)), [5]),
    "remove": lambda store: store.remove([3]),
    "compact": lambda store: store.compact(),
}


def record_length(saved):
    """How many bytes one added row takes in the journal."""
    store = Datastore.load(saved)
    before = store._state.journal.end
    store.add(np.ones((1, 4)), [9], texts=["nine"])
    return store._state.journal.end - before


def torn(saved, content):
    """Put what a crash may leave behind the journal's last record."""
    with Datastore.load(saved)._state.journal.path.open("ab") as file:
        file.write(content)


@pytest.mark.parametrize("left", [bytes, lambda n: b"\xb8" * 15 + bytes(n - 15)], ids=["zeros", "half a head"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_record_as_long_as_what_a_crash_left_is_not_taken_for_it(saved, left, change):
    length = record_length(saved)
    torn(saved, left(length) if left is bytes else left(length)[:15])
    first, second = Datastore.load(saved), Datastore.load(saved)
    (number,) = second.add(np.full((1, 4), 2.0), [8], texts=["eigh"]).tolist()

    with pytest.raises(StorageError, match="was changed by another writer: load it again and repeat"):
        CHANGES[change](first)

    now = Datastore.load(saved)
    assert now.texts_of([number]) == ["eigh"]
    assert now.ids.tolist() == [0, 1, 2, 3, 4, number]


def test_a_record_replaced_by_another_of_its_length_is_noticed(saved):
    writer = Datastore.load(saved)
    before = writer._state.journal
    writer.add(np.ones((1, 4)), [5], texts=["once"])
    reader = Datastore.load(saved)
    with before.path.open("rb+") as file:  # the disk did not confirm the record, so its writer took it back
        file.truncate(before.end)
    Datastore.load(saved).add(np.ones((1, 4)), [6], texts=["then"])

    with pytest.raises(StorageError, match="was changed by another writer"):
        reader.add(np.ones((1, 4)), [7])

    assert Datastore.load(saved).texts_of([4]) == ["then"]


def test_a_store_goes_on_behind_what_a_crash_left(saved):
    torn(saved, bytes(500))
    store = Datastore.load(saved)

    store.add(np.ones((1, 4)), [5])
    store.add(np.ones((1, 4)), [6])

    assert Datastore.load(saved).ids.tolist() == [0, 1, 2, 3, 4, 5]


# --- the store's own files --------------------------------------------------------------------------------------


def unlink(path):
    path.unlink()


def replace_by_a_copy(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def write_over(path):
    os.utime(path, ns=(1, 1))
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize("damage", [unlink, replace_by_a_copy, write_over])
@pytest.mark.parametrize("change", CHANGES)
def test_a_store_whose_data_file_is_gone_refuses_changes(saved, change, damage):
    Datastore.load(saved).add(np.ones((1, 4)), [4])
    store = Datastore.load(saved)
    damage(part(saved))

    with pytest.raises(StorageError, match="was removed, replaced or written over since it was loaded"):
        CHANGES[change](store)


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_whose_folder_is_gone_refuses_changes(saved, change, tmp_path):
    Datastore.load(saved).add(np.ones((1, 4)), [4])
    store = Datastore.load(saved)
    saved.rename(tmp_path / "elsewhere")

    with pytest.raises(StorageError):
        CHANGES[change](store)

    assert not saved.exists()
    assert len(Datastore.load(tmp_path / "elsewhere")) == 5


# --- the folder that names it -----------------------------------------------------------------------------------


def nested(path):
    """Write a folder that names a calibrator's folder, which names a store's; return how to write it again."""

    def write():
        store = Datastore.build(np.eye(4), [0, 1, 2, 3])
        ue = KnnUE(store, n_neighbors=2, params=WeightParams(alpha=1.0, tau=1.0))

        def save(target):
            ue.save(target)
            return read_folder(target).identity

        write_folder(path, kind="whole", options={}, arrays={}, folders={"calibrator": save})

    write()
    return write


def inner_store(path):
    return KnnUE.load(read_folder(path).folders["calibrator"]).store


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_in_a_folder_that_nothing_names_any_more_refuses_changes(tmp_path, change, monkeypatch):
    write = nested(tmp_path / "ue")
    inner_store(tmp_path / "ue").add(np.ones((1, 4)), [4])
    store = inner_store(tmp_path / "ue")
    monkeypatch.setattr("knn_ue.storage.folder._remove_ours", lambda *_: None)  # killed between commit and clean-up
    write()

    with pytest.raises(StorageError, match=r"is no longer a part of .*, which was saved again: nothing was changed"):
        CHANGES[change](store)

    assert len(inner_store(tmp_path / "ue")) == 4


def test_a_store_in_a_folder_that_is_still_named_goes_on(tmp_path):
    nested(tmp_path / "ue")
    store = inner_store(tmp_path / "ue")

    for change in CHANGES.values():
        change(store)

    assert inner_store(tmp_path / "ue").ids.tolist() == [0, 1, 2, 4]


def test_a_part_copied_to_a_place_of_its_own_goes_on(tmp_path):
    nested(tmp_path / "ue")
    part_of = inner_store(tmp_path / "ue").path
    (tmp_path / "alone").mkdir()
    part_of.rename(tmp_path / "alone" / part_of.name)

    Datastore.load(tmp_path / "alone" / part_of.name).add(np.ones((1, 4)), [4])

    assert len(Datastore.load(tmp_path / "alone" / part_of.name)) == 5


# --- a mapped file that is cut ----------------------------------------------------------------------------------

SEARCH_AFTER_CUT = """
import os, sys
import numpy as np
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
if len(sys.argv) > 2:
    import knn_ue.storage.tensors as tensors
    tensors._MAPPED_BYTES = int(sys.argv[2])
store = Datastore.load(sys.argv[1])
(arrays,) = [path for path in store.path.iterdir() if path.name.startswith("arrays")]
os.truncate(arrays, 10)
asked = [
    lambda: store.search(np.zeros((1, 64)), 5),
    lambda: store.texts_of([4000]),
    lambda: store.vectors_of([4000]),
    lambda: store.arrays()[0].sum(),
    lambda: store.ids.sum(),
    lambda: store.reindexed("exact").search(np.zeros((1, 64)), 5),
    lambda: store.save(sys.argv[1] + " copy"),
]
for ask in asked:
    try:
        ask()
        print("answered")
    except StorageError as error:
        print(error)
"""


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def several_pages(tmp_path):
    features = np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32)
    Datastore.build(features, np.zeros(5000, int), texts=["a text"] * 5000).save(tmp_path / "pages")
    return tmp_path / "pages"


@pytest.mark.slow
def test_a_small_store_answers_from_memory_whatever_happens_to_its_file(several_pages):
    done = run(SEARCH_AFTER_CUT, several_pages)

    assert (done.returncode, done.stdout.split()) == (0, ["answered"] * 7), done.stderr


@pytest.mark.slow
def test_a_mapped_store_that_was_cut_in_place_is_refused_before_it_is_read(several_pages):
    done = run(SEARCH_AFTER_CUT, several_pages, 0)

    assert done.returncode == 0, (signal.Signals(-done.returncode), done.stderr)
    assert done.stdout.count("was written over in place while in use: load the folder again") == 7


def test_a_mapped_store_whose_file_was_replaced_by_rename_goes_on_answering(several_pages, monkeypatch):
    monkeypatch.setattr("knn_ue.storage.tensors._MAPPED_BYTES", 0)
    store = Datastore.load(several_pages)
    before = store.search(np.zeros((1, 64)), 5).ids.tolist()
    Path(several_pages).rename(several_pages.with_name("old"))

    assert store.search(np.zeros((1, 64)), 5).ids.tolist() == before
