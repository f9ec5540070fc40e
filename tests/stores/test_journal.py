"""The journal: an unfinished end is dropped, damage before it is said, and no change is lost or half done."""

import os
import time
from functools import cache

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage import read_folder
from knn_ue.stores import Datastore
from knn_ue.stores import folder as journal_module
from knn_ue.stores.folder import Removed, read_journal


@pytest.fixture
def journal(saved):
    """The journal of a folder with three changes, and where each of them ends."""
    store = Datastore.load(saved)
    ends = [store._state.journal.end]
    for change in (
        lambda: store.add(np.ones((2, 4)), [7, 8], texts=["a", "b"]),
        lambda: store.remove([0, 4]),
        lambda: store.add(np.full((1, 4), 2.0), [9]),
    ):
        change()
        ends.append(store._state.journal.end)
    return store._state.journal.path, ends


@cache
def stored_at(folder):
    return read_folder(folder)


def changes_in(path):
    return read_journal(stored_at(path.parent))[1]


STATES = [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [1, 2, 3, 5], [1, 2, 3, 5, 6]]


@pytest.mark.slow
def test_a_journal_cut_at_any_byte_gives_the_changes_that_are_whole(journal):
    path, ends = journal
    content = path.read_bytes()

    for size in range(ends[0], len(content) + 1):
        path.write_bytes(content[:size])
        assert len(changes_in(path)) == sum(size >= end for end in ends) - 1


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_store_whose_last_change_is_torn_opens_as_it_was_before(journal, number):
    path, ends = journal
    path.write_bytes(path.read_bytes()[: ends[number] + 40])

    assert Datastore.load(path.parent).ids.tolist() == STATES[number]


def test_a_journal_whose_opening_is_cut_is_not_taken_for_an_empty_one(journal):
    path, ends = journal
    content = path.read_bytes()

    for size in range(ends[0]):
        path.write_bytes(content[:size])
        with pytest.raises(StorageError, match="is not the journal of generation"):
            changes_in(path)


def test_a_change_after_a_torn_end_is_kept_and_the_torn_end_is_gone(journal):
    path, ends = journal
    content = path.read_bytes()

    for size in range(ends[1], ends[2], 7):
        path.write_bytes(content[:size])
        Datastore.load(path.parent).add(np.zeros((1, 4)), [3])
        assert Datastore.load(path.parent).ids.tolist() == [*STATES[1], 6]


@pytest.mark.slow
def test_every_flipped_bit_is_an_error(journal):
    path, _ = journal
    content = path.read_bytes()

    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(StorageError, match=r"is damaged at byte|is not the journal of"):
            changes_in(path)


def test_zeros_behind_the_last_record_are_dropped_as_a_crash_leaves_them(journal):
    path, _ = journal
    path.write_bytes(path.read_bytes() + bytes(5000))

    assert Datastore.load(path.parent).ids.tolist() == STATES[3]


def test_a_zeroed_record_before_others_is_damage(journal):
    path, ends = journal
    content = bytearray(path.read_bytes())
    content[ends[0] : ends[1]] = bytes(ends[1] - ends[0])
    path.write_bytes(content)

    with pytest.raises(StorageError, match=rf"is damaged at byte {ends[0]}: restore it from a backup, or cut it to"):
        Datastore.load(path.parent)


def test_a_record_taken_out_is_noticed(journal):
    path, ends = journal
    content = path.read_bytes()
    path.write_bytes(content[: ends[0]] + content[ends[2] :])

    with pytest.raises(StorageError, match="the journal does not continue this store"):
        Datastore.load(path.parent)


def test_a_journal_of_another_generation_is_refused(journal, tmp_path):
    path, _ = journal
    Datastore.build(np.eye(4), [0, 1, 2, 3]).save(tmp_path / "other")
    path.write_bytes(Datastore.load(tmp_path / "other")._state.journal.path.read_bytes())

    with pytest.raises(StorageError, match="is not the journal of generation"):
        Datastore.load(path.parent)


def test_a_missing_journal_is_an_error(journal):
    journal[0].unlink()

    with pytest.raises(StorageError, match="log is missing: restore the folder from a backup"):
        Datastore.load(journal[0].parent)


def test_a_change_larger_than_a_record_may_be_is_refused(saved, monkeypatch):
    monkeypatch.setattr("knn_ue.stores.folder._MAX_BODY_BYTES", 10_000)
    store = Datastore.load(saved)

    with pytest.raises(InvalidInputError, match=r"one change may hold 10000 bytes, .* make it in parts"):
        store.add(np.ones((1000, 4)), np.zeros(1000, int))

    assert len(store) == len(Datastore.load(saved)) == 4


@pytest.mark.slow
def test_a_hole_as_large_as_the_disk_is_not_read_into_memory(journal):
    path, ends = journal
    with path.open("rb+") as file:
        file.truncate(1 << 42)

    with pytest.raises(StorageError, match=rf"is damaged at byte {ends[-1]}"):
        Datastore.load(path.parent)


def test_many_small_changes_are_read_back_without_rereading_the_rest(saved):
    journal = Datastore.load(saved)._state.journal
    start = journal.end
    journal.append(Removed(ids=np.array([99])))
    record = journal.path.read_bytes()[start:]
    with journal.path.open("ab") as file:
        file.write(record * 20_000)

    begin = time.process_time()
    assert len(changes_in(journal.path)) == 20_001
    assert time.process_time() - begin < 5


def test_a_change_is_on_disk_before_it_can_be_seen(saved, monkeypatch):
    store = Datastore.load(saved)
    path = store._state.journal.path
    events, fsync = [], os.fsync

    def recorded(descriptor):
        assert path.samefile(f"/proc/self/fd/{descriptor}")
        events.append((path.stat().st_size, len(store)))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    store.add(np.ones((2, 4)), [7, 8])
    after_add = path.stat().st_size
    store.remove([0])

    # Everything is written when the disk is asked to keep it, and nothing is seen before.
    assert events == [(after_add, 4), (path.stat().st_size, 6)] and len(store) == 5


def test_a_record_that_another_process_finishes_while_we_read_is_not_cut_off(journal, monkeypatch):
    path, ends = journal
    content = path.read_bytes()
    path.write_bytes(content[: ends[2] + 40])  # the other process is in the middle of its third record
    decode = journal_module._decode

    def finish_meanwhile(body, where):
        path.write_bytes(content)
        return decode(body, where)

    monkeypatch.setattr(journal_module, "_decode", finish_meanwhile)
    ours, changes = read_journal(read_folder(path.parent))
    monkeypatch.undo()

    assert len(changes) == 2
    with pytest.raises(StorageError, match="changed by another writer"):
        ours.append(Removed(ids=np.array([1])))
    assert len(changes_in(path)) == 3


def test_what_another_process_is_writing_is_not_called_damage(journal, monkeypatch):
    path, ends = journal
    content = path.read_bytes()
    torn = bytearray(content)
    torn[ends[1] + 30] ^= 1  # as a reader may see pages of a record in any order
    path.write_bytes(torn)
    decode = journal_module._decode

    def finish_meanwhile(body, where):
        path.write_bytes(content)
        return decode(body, where)

    monkeypatch.setattr(journal_module, "_decode", finish_meanwhile)

    assert len(changes_in(path)) == 3


def test_what_a_writer_cuts_off_while_we_read_is_not_missed(journal, monkeypatch):
    path, _ = journal
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(1000))
    decode, n_decoded = journal_module._decode, []

    def cut_meanwhile(body, where):
        n_decoded.append(1)
        if len(n_decoded) == 3:
            path.write_bytes(whole)
        return decode(body, where)

    monkeypatch.setattr(journal_module, "_decode", cut_meanwhile)

    assert len(changes_in(path)) == 3
