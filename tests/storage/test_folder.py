"""A folder is replaced in one step, read back equal, and refused with a sentence when it is not what it was."""

import json
import os
import shutil
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_ue.storage import folder as storage
from knn_ue.storage import kind_of, parse_folder, read_folder, write_folder
from knn_ue.storage.atomic import locked, waiting_at_most

from knn_ue.errors import InvalidInputError, StorageError
from stores.hostile import read_meta, write_meta

ARRAYS = {
    "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "f64": np.array([0.1, np.inf, np.nan]),
    "i64": np.array([[2**62], [-1]]),
    "u8": np.frombuffer(b"odd length!", dtype=np.uint8),
    "flags": np.array([True, False, True]),
    "nothing": np.empty((0, 4), dtype=np.float32),
}


def write(path, **changes):
    arguments = {"kind": "thing", "options": {"a": 1}, "arrays": ARRAYS, **changes}
    return write_folder(path, **arguments)


def names(path):
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "folder")
    return tmp_path / "folder"


def test_arrays_of_every_type_come_back_equal_and_memory_mapped(folder):
    arrays = read_folder(folder).arrays

    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert not arrays[name].flags.writeable


def test_the_arrays_file_is_one_that_the_safetensors_library_reads(folder):
    from safetensors.numpy import load_file

    (file,) = folder.glob("arrays.*")

    np.testing.assert_array_equal(load_file(file)["f64"], ARRAYS["f64"])


def test_an_array_larger_than_a_chunk_is_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.storage.tensors._CHUNK_BYTES", 1000)
    large = np.random.default_rng(0).normal(size=(333, 7))
    write(tmp_path / "folder", arrays={"large": large[::-1]})

    np.testing.assert_array_equal(read_folder(tmp_path / "folder").arrays["large"], large[::-1])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    options=st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
            lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_any_json_options_come_back_equal(tmp_path, options):
    write(tmp_path / "folder", options=options, arrays={})

    assert read_folder(tmp_path / "folder").options == options


def test_options_with_numbers_as_keys_can_be_read_back(tmp_path):
    write(tmp_path / "folder", options={"weights": {10: "ten", 9: "nine"}})

    assert read_folder(tmp_path / "folder").options == {"weights": {"10": "ten", "9": "nine"}}


def test_files_and_folders_are_written_by_their_owners_and_found_again(tmp_path):
    write(
        tmp_path / "folder",
        files={"blob": lambda path: path.write_bytes(b"blob")},
        folders={"inner": lambda path: write(path, kind="inner thing")},
    )

    stored = read_folder(tmp_path / "folder", kind="thing")

    assert stored.files["blob"].read_bytes() == b"blob"
    assert read_folder(stored.folders["inner"]).kind == "inner thing"


def test_a_sub_folder_given_as_a_path_is_kept(tmp_path):
    write(tmp_path / "folder", folders={"inner": write})
    kept = read_folder(tmp_path / "folder").folders["inner"]
    write(tmp_path / "folder", options={"a": 2}, folders={"inner": kept})

    stored = read_folder(tmp_path / "folder")

    assert stored.options == {"a": 2}
    assert stored.folders["inner"] == kept
    assert len([name for name in names(tmp_path / "folder") if name.startswith("inner.")]) == 1


def test_a_swapped_sub_folder_is_refused(tmp_path):
    write(tmp_path / "folder", folders={"inner": write})
    inner = read_folder(tmp_path / "folder").folders["inner"]
    shutil.rmtree(inner)
    write(inner)

    with pytest.raises(StorageError, match="is not the folder that was saved: it was replaced"):
        read_folder(tmp_path / "folder")


def test_a_sub_folder_that_is_a_link_is_refused(tmp_path):
    write(tmp_path / "folder", folders={"inner": write})
    inner = read_folder(tmp_path / "folder").folders["inner"]
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="is not the folder that was saved: it was replaced"):
        read_folder(tmp_path / "folder")


def test_another_kind_is_refused_by_name(folder):
    with pytest.raises(StorageError, match="holds a 'thing', not a 'datastore': load it with the class that saved it"):
        read_folder(folder, kind="datastore")


def test_the_kind_can_be_asked_for_without_reading_the_rest(folder):
    for file in folder.glob("arrays.*"):
        file.unlink()

    assert kind_of(folder) == "thing"


def test_a_write_removes_what_a_crash_left_behind_and_nothing_else(folder):
    for name in (
        "arrays.00000001-deadbeef.safetensors",
        "meta.json.00000009-deadbeef",
        "journal.00000003-0a0a0a0a.log",
    ):
        (folder / name).write_text("stale")
    (folder / "inner.00000001-deadbeef").mkdir()
    (folder / "inner.00000001-deadbeef" / "file").write_text("stale")
    (folder / "README.md").write_text("mine")

    write(folder)

    assert [name.split(".")[0] for name in names(folder)] == ["README", "arrays", "meta"]


def test_the_highest_generation_number_does_not_end_the_counting(folder):
    (folder / "arrays.99999999-deadbeef.safetensors").write_text("stale")

    write(folder)
    write(folder, options={"a": 3})

    assert read_folder(folder).options == {"a": 3}


def test_what_could_not_be_read_back_is_not_committed(folder):
    before = names(folder)

    with pytest.raises(InvalidInputError, match="a file must be named by lower-case letters"):
        write(folder, files={"Bad-Name": lambda path: path.write_bytes(b"")})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write(folder, options={"a": object()})
    with pytest.raises(StorageError, match="the options are larger than 16777216 bytes"):
        write(folder, options={"a": "x" * (1 << 24)})

    assert names(folder) == before
    assert read_folder(folder).options == {"a": 1}


def test_a_precondition_that_fails_stops_the_write(folder):
    def refuse():
        raise StorageError("not now")

    with pytest.raises(StorageError, match="not now"):
        write(folder, options={"a": 2}, precondition=refuse)

    assert read_folder(folder).options == {"a": 1}


def test_a_precondition_is_checked_while_no_other_writer_can_come_between(folder):
    def other_writer_has_to_wait():
        thread = threading.Thread(target=write, args=(folder,), kwargs={"options": {"a": "other"}}, daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        waiting.append(thread)

    waiting = []
    write(folder, options={"a": 2}, precondition=other_writer_has_to_wait)
    waiting[0].join()

    assert read_folder(folder).options == {"a": "other"}


def test_who_has_the_lock_may_take_it_again_and_others_wait_for_the_last_to_give_it_back(folder):
    with locked(folder):
        write(folder, options={"a": 2})  # takes it and gives it back
        thread = threading.Thread(target=write, args=(folder,), kwargs={"options": {"a": 3}})
        thread.start()
        thread.join(0.1)
        assert read_folder(folder).options == {"a": 2}
    thread.join()

    assert read_folder(folder).options == {"a": 3}


def test_a_writer_with_a_limit_gives_up_in_words_and_has_its_turn_when_there_is_one(folder):
    told = []

    def wait():
        with pytest.raises(StorageError, match=r"still being written by another process after 0\.05 s"):
            locked(folder, seconds=0.05).__enter__()
        told.append("refused")
        with locked(folder, seconds=30):
            told.append("let in")

    with locked(folder):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(1)
        assert told == ["refused"]
        with locked(folder, seconds=0):  # again, which takes no waiting
            pass
    thread.join()

    assert told == ["refused", "let in"]


def test_a_thread_can_bound_all_its_waiting_for_locks(folder):
    told = []

    def wait():
        with waiting_at_most(0.05), pytest.raises(StorageError, match="still being written by another process after"):
            write(folder, options={"a": 2})  # takes the lock of its own accord
        told.append("refused")

    with locked(folder):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(2)

    assert told == ["refused"]
    assert read_folder(folder).options == {"a": 1}


def test_a_reader_whose_files_vanish_under_a_new_write_reads_the_new_ones(folder):
    calls = []

    def parse(stored):
        calls.append(stored.options["a"])
        if len(calls) == 1:
            write(folder, options={"a": 2})
            raise StorageError("a file is gone")
        return stored

    assert parse_folder(folder, parse).options == {"a": 2}
    assert calls == [1, 2]


def test_an_error_of_the_parser_is_raised_when_nobody_wrote(folder):
    def parse(_):
        raise StorageError("damaged")

    with pytest.raises(StorageError, match="damaged"):
        parse_folder(folder, parse)


def test_a_failed_cleanup_does_not_fail_the_write(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    write(folder, options={"a": 2})

    assert read_folder(folder).options == {"a": 2}


def test_data_are_on_disk_before_the_commit_and_the_commit_before_the_return(tmp_path, monkeypatch):
    events, fsync, replace = [], os.fsync, os.replace

    def recorded_fsync(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}").rsplit("/", 1)[-1].split(".")[0])  # noqa: PTH115
        fsync(descriptor)

    def recorded_replace(source, target):
        events.append("commit")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    write(tmp_path / "folder", files={"blob": lambda path: path.write_bytes(b"b")})

    assert events == [tmp_path.name.split(".")[0], "arrays", "blob", "folder", "meta", "commit", "folder"]


# --- a folder that is not what it was -----------------------------------------------------------------------------


def damaged(folder, content):
    (folder / "meta.json").write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"meta\.json is not valid JSON: restore the folder from a backup"),
        (b"{", r"meta\.json is not valid JSON"),
        (b"\xff\xfe\x00", r"meta\.json is not valid JSON"),
        (b"[" * 100_000, r"meta\.json is not valid JSON"),
        (b'{"a":' * 100_000, r"meta\.json is not valid JSON"),
        (b'{"format": 1, "a": ' + b"[" * 990 + b"]" * 990 + b"}", r"meta\.json (is not valid JSON|does not match)"),
        (b" " * ((1 << 24) + 1), r"is larger than 16777216 bytes: do not trust this folder"),
        (b'{"format": ' + b"9" * 5000 + b"}", r"meta\.json is not valid JSON"),
        (b"null", "has no format number: it is not a knn-ue folder"),
        ([], "has no format number: it is not a knn-ue folder"),
        ({}, "has no format number: it is not a knn-ue folder"),
        ({"format": "1"}, "has no format number"),
        ({"format": True}, "has no format number"),
        ({"format": 0}, "has no format number"),
        ({"format": -3}, "has no format number"),
        ({"format": 2}, "has format 2, this version reads 1: upgrade with pip install -U knn-ue"),
        ({"format": 1}, "does not match its checksum: it was altered; restore it from a backup"),
        ({"format": 1, "checksum": [1]}, "does not match its checksum"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_meta_json_that_is_not_ours_is_refused_in_words(folder, content, words):
    with pytest.raises(StorageError, match=words):
        read_folder(damaged(folder, content))


def changed(key, value):
    return lambda meta: meta.__setitem__(key, value)


def changed_entry(key, value):
    return lambda meta: meta["files"]["arrays"].__setitem__(key, value)


LACKS, STRANGE = "lacks a required entry", "names a file that cannot be ours: do not trust this folder"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda meta: meta.pop("kind"), LACKS),
        (lambda meta: meta.pop("files"), LACKS),
        (changed("generation", "../../etc"), LACKS),
        (changed("generation", "00000001-0123456g"), LACKS),
        (changed("options", [1]), LACKS),
        (changed("identity", None), LACKS),
        (changed("files", {}), "names no arrays file"),
        (changed("files", {"arrays": "arrays"}), STRANGE),
        (changed("folders", {"inner": {"name": "../other", "identity": "x"}}), STRANGE),
        (changed("folders", {"inner": {"name": "inner.00000001-00000000", "identity": 5}}), STRANGE),
        (changed_entry("name", "../arrays.00000001-00000000.safetensors"), STRANGE),
        (changed_entry("name", "/etc/passwd"), STRANGE),
        (changed_entry("name", "meta.json"), STRANGE),
        (changed_entry("name", "arrays.00000001-00000000.safetensors\n"), STRANGE),
        (changed_entry("name", ""), STRANGE),
        (changed_entry("name", None), STRANGE),
        (changed_entry("size", "12"), STRANGE),
        (changed_entry("size", 1.5), STRANGE),
        (changed_entry("size", True), STRANGE),
        (changed_entry("size", float("nan")), STRANGE),
        (changed_entry("size", -1), "has .* bytes instead of -1: it is damaged"),
        (changed_entry("size", 2**70), "bytes instead of 1180591620717411303424: it is damaged"),
        (changed_entry("sha256", "0" * 64), "does not match its checksum: it is damaged or replaced"),
        (changed_entry("name", "arrays.00000001-00000000.safetensors"), "00000000.safetensors is missing: restore"),
        (changed("journal", True), "log is missing: restore the folder from a backup"),
    ],
)
def test_a_sealed_meta_json_that_we_never_write_is_refused_in_words(folder, change, words):
    meta = read_meta(folder)
    change(meta)
    write_meta(folder, meta)

    with pytest.raises(StorageError, match=words):
        read_folder(folder)


def test_repeated_keys_in_meta_json_do_no_harm(folder):
    content = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(content.replace("{", '{"kind": "other",', 1))

    assert read_folder(folder).kind == "thing"


def test_a_folder_of_a_later_format_is_not_overwritten(folder):
    write_meta(folder, read_meta(folder) | {"format": 99})
    before = names(folder)

    with pytest.raises(StorageError, match=r"has format 99, this version reads 1: .*; nothing was written"):
        write(folder)

    assert names(folder) == before


@pytest.mark.parametrize("path", ["a" * 300, "nul\x00byte"])
def test_a_path_that_cannot_exist_is_refused(path):
    with pytest.raises(StorageError, match=r"cannot be read|does not exist"):
        read_folder(path)


def test_the_format_number_is_written(folder):
    assert read_meta(folder)["format"] == storage.FORMAT == 1
