"""The ground below folders: files appear whole or not at all, and what was there is put back."""

import fcntl
import os
import threading

import pytest

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import created_folder, storage_errors, write_file, write_files
from knn_ue.folder.disk import (
    file_state,
    fingerprint,
    link_or_copy,
    locked,
    move_new,
    open_plain_file,
    replace_folder,
    take_lock,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def refuse(*_, **__):
    raise OSError(28, "No space left on device")


def test_several_files_are_written_and_nothing_is_left_beside_them(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})

    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_files_that_cannot_all_be_written_are_none_of_them_replaced(tmp_path, monkeypatch, error):
    (tmp_path / "a").write_bytes(b"old")
    written, fsync = [], os.fsync

    def fail_at_the_second(descriptor):
        written.append(descriptor)
        if len(written) == 2:
            raise error
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_at_the_second)
    with pytest.raises(error):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})

    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_that_is_a_link_is_replaced_and_what_it_points_to_is_not(tmp_path):
    (tmp_path / "real").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    write_file(tmp_path / "link", b"new")

    assert (tmp_path / "real").read_bytes() == b"mine"
    assert (tmp_path / "link").read_bytes() == b"new"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_moved_to_a_name_that_is_free_and_to_no_other(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(name.encode())

    move_new(tmp_path / "first", tmp_path / "target")
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "second", tmp_path / "target")

    assert names(tmp_path) == ["second", "target"]
    assert (tmp_path / "target").read_bytes() == b"first"


def folder_of(path, content):
    path.mkdir()
    (path / "file").write_text(content)
    return path


def test_a_folder_takes_the_place_of_another(tmp_path):
    folder_of(tmp_path / "target", "old")

    replace_folder(folder_of(tmp_path / "draft", "new"), tmp_path / "target")

    assert names(tmp_path) == ["target"]
    assert (tmp_path / "target" / "file").read_text() == "new"


def test_a_folder_that_cannot_take_its_place_leaves_the_one_that_is_there(tmp_path):
    folder_of(tmp_path / "target", "old")

    with pytest.raises(OSError):
        replace_folder(tmp_path / "nowhere", tmp_path / "target")

    assert names(tmp_path) == ["target"]
    assert (tmp_path / "target" / "file").read_text() == "old"


@pytest.mark.parametrize(("size", "shared"), [(1 << 22, True), ((1 << 22) - 1, False)])
def test_large_files_are_linked_and_small_ones_copied(tmp_path, size, shared):
    (tmp_path / "source").write_bytes(bytes(size))

    link_or_copy(tmp_path / "source", tmp_path / "target")

    assert (tmp_path / "target").stat().st_size == size
    assert (tmp_path / "target").samefile(tmp_path / "source") == shared


def test_folders_made_for_a_block_that_fails_go_again_and_others_stay(tmp_path):
    with pytest.raises(ZeroDivisionError), created_folder(tmp_path / "a" / "b"):
        raise ZeroDivisionError
    assert names(tmp_path) == []

    (tmp_path / "a").mkdir()
    with pytest.raises(ZeroDivisionError), created_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").write_text("kept")
        raise ZeroDivisionError
    assert names(tmp_path / "a" / "b") == ["file"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "missing"])
def test_only_plain_files_are_opened_and_none_that_blocks(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()

    with pytest.raises(StorageError, match=r"is not a plain file: do not trust|cannot be read \(No such file"):
        open_plain_file(path)
    with pytest.raises(StorageError):
        fingerprint(path)


def test_a_file_that_was_written_over_or_replaced_has_another_state(tmp_path):
    path = tmp_path / "file"
    states = [file_state(path)]
    for content in ("a", "bb"):
        path.write_text(content)
        states.append(file_state(path))
    path.unlink()
    path.write_text("bb")
    os.utime(path, ns=(1, 1))
    states.append(file_state(path))

    assert states[0] is None
    assert len(set(states)) == 4


def test_a_folder_that_another_run_has_locked_is_refused_at_once(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(StorageError, match="is being written by another process: wait for it, or choose another folder"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_lock_is_waited_for_as_long_as_said(tmp_path):
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        assert take_lock(first, seconds=0)
        assert not take_lock(second, seconds=0.02)
        threading.Timer(0.05, fcntl.flock, (first, fcntl.LOCK_UN)).start()
        assert take_lock(second, seconds=30)
    finally:
        os.close(first)
        os.close(second)


def test_an_error_of_the_system_is_one_sentence_and_one_of_ours_stays_as_it_is():
    with (
        pytest.raises(StorageError, match=r"^it cannot be written \(No space left on device\): free space$"),
        storage_errors("it cannot be written", "free space"),
    ):
        refuse()
    with pytest.raises(InvalidInputError, match="as it is"), storage_errors("what", "way out"):
        raise InvalidInputError("as it is")
