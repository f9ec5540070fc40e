"""A file or folder appears whole or not at all."""

import os
import threading

import pytest

from knn_ue.errors import StorageError, StoreUnreachableError
from knn_ue.storage import atomic
from knn_ue.storage.atomic import move_new, replace_folder, storage_errors, write_file, write_files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_replaces_the_old_one_and_leaves_no_draft(tmp_path):
    (tmp_path / "file").write_text("old")

    write_file(tmp_path / "file", b"new")

    assert (names(tmp_path), (tmp_path / "file").read_text()) == (["file"], "new")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_files_and_no_draft(tmp_path, monkeypatch, call):
    (tmp_path / "a").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, call, fail)
        write_files({tmp_path / "a": b"new", tmp_path / "b": b"new"})

    assert (names(tmp_path), (tmp_path / "a").read_text()) == (["a"], "old")


def test_a_disk_that_does_not_confirm_the_new_name_is_reported(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic, "sync", fail)

    with pytest.raises(StorageError, match="was written, but the disk does not confirm it"):
        write_file(tmp_path / "file", b"new")


def test_a_name_that_is_taken_is_never_replaced_by_a_move(tmp_path):
    (tmp_path / "source").write_text("new")
    (tmp_path / "target").write_text("old")

    with pytest.raises(FileExistsError):
        move_new(tmp_path / "source", tmp_path / "target")

    assert [(tmp_path / name).read_text() for name in ("source", "target")] == ["new", "old"]


@pytest.fixture(params=["exchange", "no exchange"])
def system(request, monkeypatch):
    """A system that can exchange two folders in one step, and one that cannot."""
    if request.param == "no exchange":
        monkeypatch.setattr(atomic, "_renameat2", lambda: None)
    return request.param


def test_a_replaced_folder_is_the_new_one_and_the_old_one_is_where_it_came_from(tmp_path, system):
    for name in ("draft", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()

    replace_folder(tmp_path / "draft", tmp_path / "target")

    assert (names(tmp_path / "target"), names(tmp_path / "draft")) == (["draft"], ["target"])


@pytest.mark.parametrize("empty", [False, True])
def test_a_folder_is_moved_to_where_there_is_none(tmp_path, system, empty):
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "file").touch()
    if empty:
        (tmp_path / "target").mkdir()

    replace_folder(tmp_path / "draft", tmp_path / "target")

    assert names(tmp_path) == ["target"]


def test_a_folder_that_is_replaced_is_never_missing(tmp_path):
    for name in ("draft", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    missing, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            missing.append(not (tmp_path / "target" / "file").exists())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(200):
        replace_folder(tmp_path / "draft", tmp_path / "target")
    stop.set()
    watcher.join()

    assert not any(missing)


def test_an_error_of_ours_keeps_its_own_sentence():
    with (
        pytest.raises(StoreUnreachableError, match=r"^the store does not answer$"),
        storage_errors("answers.jsonl cannot be written", "make room"),
    ):
        raise StoreUnreachableError("the store does not answer")
