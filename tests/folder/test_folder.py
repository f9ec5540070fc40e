"""A folder is written in one step, opened equal, copied, and refused with a sentence when it is not what it was."""

import json
import os
import random
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from held import fitted_in, forge, forge_database, held, seal
from knn_ue.errors import InvalidInputError, StaleFolderError, StorageError
from knn_ue.folder import Part, copy_folder, kind_of, open_folder, replace_fitted, write_folder
from knn_ue.stores import Datastore

ARRAYS = {"f64": np.array([0.1, np.inf, np.nan]), "i64": np.array([[2**62], [-1]])}


def blob(folder):
    (folder / "blob").write_bytes(b"blob")


INNER = Part(kind="inner thing", state={"b": 2}, arrays={"one": np.ones(1)})
THING = Part(kind="thing", state={"a": 1}, arrays=ARRAYS, fill=blob, parts={"inner": INNER})


def write(path, **changes):
    write_folder(path, replace(THING, **changes))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "folder")
    return tmp_path / "folder"


def content_of(path):
    root = open_folder(path)
    inner = root.parts["inner"]
    return root.state, root.files["blob"].read_bytes(), root.arrays["i64"].tolist(), inner.state, inner.arrays["one"][0]


def test_what_was_written_comes_back_equal(folder):
    assert content_of(folder) == ({"a": 1}, b"blob", [[2**62], [-1]], {"b": 2}, 1.0)
    assert (open_folder(folder).kind, open_folder(folder).parts["inner"].kind) == ("thing", "inner thing")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    state=st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
            lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_any_json_state_comes_back_equal(tmp_path, state):
    write(tmp_path / "folder", state=state, arrays={})

    assert open_folder(tmp_path / "folder").state == state


def test_another_kind_is_refused_by_name(folder):
    with pytest.raises(StorageError, match="holds a 'thing', not a 'datastore': load it with the class that saved it"):
        open_folder(folder, kind="datastore")


def test_the_kind_can_be_asked_for_without_reading_the_rest(folder):
    (fitted_in(folder) / "arrays.safetensors").unlink()

    assert kind_of(folder) == "thing"


def test_a_write_replaces_what_the_folder_held_and_touches_nothing_else(folder):
    (folder / "fitted-0123456789abcdef").mkdir()  # left by a crash
    (folder / "README.md").write_text("mine")

    write(folder, state={"a": 2})

    assert open_folder(folder).state == {"a": 2}
    assert {path.name for path in folder.iterdir()} - {"changes.db-journal"} == {
        "README.md",
        "changes.db",
        fitted_in(folder).name,
    }


def test_a_part_in_memory_and_a_part_that_was_read_can_be_written_together(folder, tmp_path):
    read = open_folder(folder)
    write_folder(tmp_path / "other", replace(read, state={"a": 9}))
    shutil.rmtree(folder)

    assert content_of(tmp_path / "other") == ({"a": 9}, b"blob", [[2**62], [-1]], {"b": 2}, 1.0)


def no_name(folder):
    (folder / ".hidden").write_bytes(b"")


def fails(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"parts": {"Bad-Name": INNER}}, InvalidInputError, "a part must be named by lower-case letters"),
        ({"fill": no_name}, InvalidInputError, "a file of a folder cannot be named"),
        ({"state": {"a": object()}}, TypeError, "not JSON serializable"),
        ({"state": {"a": "x" * (1 << 26)}}, StorageError, "the parameters are larger than 67108864 bytes"),
        ({"fill": fails}, KeyboardInterrupt, None),
    ],
)
def test_a_write_that_fails_leaves_what_was_there(folder, change, error, words):
    before = fitted_in(folder)

    with pytest.raises(error, match=words):
        write(folder, **change)

    assert fitted_in(folder) == before
    assert open_folder(folder).state == {"a": 1}


def test_a_first_write_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "new" / "folder", fill=fails)

    assert list(tmp_path.iterdir()) == []


def test_a_failed_cleanup_does_not_fail_the_write(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("os.rmdir", refuse)
        patch.setattr("os.unlink", refuse)
        write(folder, state={"a": 2})

    assert open_folder(folder).state == {"a": 2}
    write(folder, state={"a": 3})
    assert len(list(folder.glob("fitted-*"))) == 1


def test_an_interrupt_just_after_the_commit_leaves_the_new_content(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("knn_ue.folder.folder.remove_unnamed", interrupted)
        write(folder, state={"a": 2})

    assert open_folder(folder).state == {"a": 2}
    write(folder, state={"a": 3})
    assert len(list(folder.glob("fitted-*"))) == 1


def test_a_writer_waits_until_the_other_is_done(folder):
    with held(folder):
        thread = threading.Thread(target=write, args=(folder,), kwargs={"state": {"a": 2}})
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert open_folder(folder).state == {"a": 1}
    thread.join()

    assert open_folder(folder).state == {"a": 2}


def test_a_reader_whose_files_vanish_under_a_new_write_reads_the_new_ones(folder, monkeypatch):
    from knn_ue.folder.part import read_tree

    calls = []

    def read(fitted, sha256):
        calls.append(fitted)
        if len(calls) == 1:
            write(folder, state={"a": 2})
        return read_tree(fitted, sha256)

    monkeypatch.setattr("knn_ue.folder.folder.read_tree", read)

    assert open_folder(folder).state == {"a": 2}
    assert len(calls) == 2


def test_who_opened_a_folder_that_was_saved_again_must_open_it_again(folder):
    live = open_folder(folder).live
    write(folder, state={"a": 2})

    with pytest.raises(StaleFolderError, match="was saved, compacted, tuned or replaced since it was opened"):
        live.refresh()
    with pytest.raises(StaleFolderError, match="was saved, compacted, tuned or replaced since it was opened"):
        live.put("domain", {"a": 3})

    assert open_folder(folder).live.parts == {}


# --- parts that came later ----------------------------------------------------------------------------------------


def test_a_part_that_was_fitted_again_is_read_instead_of_the_first(folder):
    open_folder(folder).live.put("inner", {"b": 3}, {"one": np.zeros(1)})

    inner = open_folder(folder).parts["inner"]
    assert (inner.state, inner.arrays["one"][0]) == ({"b": 3}, 0.0)


def test_a_fitted_part_that_is_replaced_keeps_the_parts_it_does_not_hold(folder):
    live = open_folder(folder).live
    live.put("inner", {"b": 3})
    live.put("domain", {"c": 4})

    replace_fitted(live, THING)

    now = open_folder(folder)
    assert now.parts["inner"].state == {"b": 2}
    assert now.live.later("dom") == {"ain": ({"c": 4}, {})}


def test_a_write_of_another_thing_keeps_no_part_of_the_one_before(folder):
    open_folder(folder).live.put("domain", {"c": 4})

    write(folder)

    assert open_folder(folder).live.parts == {}


def test_a_part_that_was_taken_away_is_gone(folder):
    live = open_folder(folder).live
    live.put("domain", {"c": 4})
    live.put("domain", None)

    assert live.later("") == open_folder(folder).live.later("") == {}


# --- copies -------------------------------------------------------------------------------------------------------


def test_a_copy_holds_the_same_and_changes_alone(folder, tmp_path):
    open_folder(folder).live.put("inner", {"b": 3}, {"one": np.zeros(1)})
    copy_folder(folder, tmp_path / "copy")
    open_folder(folder).live.put("inner", {"b": 4}, {"one": np.ones(1)})

    assert content_of(tmp_path / "copy")[3:] == ({"b": 3}, 0.0)
    open_folder(tmp_path / "copy").live.put("inner", {"b": 5}, {"one": np.ones(1)})
    assert content_of(folder)[3:] == ({"b": 4}, 1.0)


def test_a_plain_copy_of_all_files_is_a_folder_too(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)

    assert content_of(tmp_path / "copy") == ({"a": 1}, b"blob", [[2**62], [-1]], {"b": 2}, 1.0)


def test_who_opened_a_folder_does_not_go_on_in_a_copy_that_took_its_place(folder, tmp_path):
    live = open_folder(folder).live
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)

    with pytest.raises(StaleFolderError, match="replaced since it was opened: open it again"):
        live.put("domain", {"a": 3})


def test_a_copy_never_replaces_what_is_there(folder, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_text("mine")

    with pytest.raises(StorageError, match="exists already: choose a new folder"):
        copy_folder(folder, tmp_path / "copy")


def test_a_damaged_folder_is_not_copied_as_if_it_were_whole(folder, tmp_path):
    (fitted_in(folder) / "blob").write_bytes(b"blub")

    with pytest.raises(StorageError, match="does not match its checksum"):
        copy_folder(folder, tmp_path / "copy")


def test_a_folder_that_is_written_meanwhile_is_copied_as_it_was_at_one_moment(tmp_path):
    Datastore.build(np.eye(4), [0, 1, 2, 3]).save(tmp_path / "store")
    store, done = Datastore.load(tmp_path / "store"), threading.Event()

    def write_on():
        while not done.is_set():
            for number in range(3):
                store.add([[number, 0, 0, 1]], [number])
            store.compact()

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        sizes = []
        for number in range(8):
            copy_folder(tmp_path / "store", tmp_path / f"copy{number}")
            copy = Datastore.load(tmp_path / f"copy{number}")
            assert copy.ids.tolist() == list(range(len(copy)))
            sizes.append(len(copy))
    finally:
        done.set()
        writer.join()

    assert sizes == sorted(sizes)
    assert len(store) >= sizes[-1] > 4


# --- a folder that is not what it was -----------------------------------------------------------------------------


def test_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(StorageError, match=r"the folder .*nowhere does not exist: check the path"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"has no changes\.db, so it is not a knn-ue folder or was never saved"):
        open_folder(tmp_path)


def test_a_folder_with_files_of_others_is_refused_and_left_alone(tmp_path):
    (tmp_path / "song.mp3").write_bytes(b"la")

    with pytest.raises(StorageError, match=r"holds other files \(song.mp3 and 0 more\) and no changes.db: choose"):
        write(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["song.mp3"]


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "changes.db")) as database:
        database.execute("create table songs (name text)")
    before = (tmp_path / "changes.db").read_bytes()

    with pytest.raises(StorageError, match=r"has other tables than this version writes: .*; nothing was written"):
        write(tmp_path)

    assert (tmp_path / "changes.db").read_bytes() == before


def test_a_plain_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")

    with pytest.raises(StorageError, match=r"file cannot be written \(File exists\): what it held is unchanged"):
        write(tmp_path / "file")


@pytest.mark.parametrize("path", ["a" * 300, "nul\x00byte"])
def test_a_path_that_cannot_exist_is_refused(path):
    with pytest.raises(StorageError):
        open_folder(path)


FILES = ["arrays.safetensors", "blob", "fitted.json", "inner/arrays.safetensors"]


@pytest.mark.parametrize("name", [*FILES, "."])
def test_a_missing_file_is_named(folder, name):
    target = fitted_in(folder) / name
    shutil.rmtree(target) if target.is_dir() else target.unlink()

    with pytest.raises(StorageError, match=f"{'fitted.json' if name == '.' else name} is missing: restore the folder"):
        open_folder(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused_wherever_it_is_cut(folder, name):
    target = fitted_in(folder) / name
    content = target.read_bytes()

    for size in {0, 1, len(content) // 2, len(content) - 1}:
        target.write_bytes(content[:size])
        with pytest.raises(StorageError, match=r"bytes instead of|does not match its checksum"):
            open_folder(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_wherever_it_is(folder, name):
    target, rng = fitted_in(folder) / name, random.Random(name)
    content = target.read_bytes()

    for _ in range(20):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        target.write_bytes(flipped)
        with pytest.raises(StorageError, match="does not match its checksum"):
            open_folder(folder)


@pytest.mark.parametrize("name", FILES)
def test_an_appended_byte_is_refused(folder, name):
    target = fitted_in(folder) / name
    target.write_bytes(target.read_bytes() + b" ")

    with pytest.raises(StorageError, match=r"bytes instead of|does not match its checksum"):
        open_folder(folder)


@pytest.mark.parametrize("place", ["extra.py", "inner/extra.bin", "other/extra.bin", ".hidden"])
def test_a_file_that_nothing_names_is_refused(folder, place):
    target = fitted_in(folder) / place
    target.parent.mkdir(exist_ok=True)
    target.write_text("")

    with pytest.raises(StorageError, match=rf"{place} should not be there: restore the folder from a backup"):
        open_folder(folder)


def test_a_folder_inside_that_is_a_link_is_refused(folder, tmp_path):
    inner = fitted_in(folder) / "inner"
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=r"inner(/arrays\.safetensors)? (should not be there|is missing)"):
        open_folder(folder)


def test_a_fitted_folder_that_is_a_link_is_refused(folder, tmp_path):
    fitted = fitted_in(folder)
    fitted.rename(tmp_path / "elsewhere")
    fitted.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=r"fitted\.json is missing"):
        open_folder(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "pipe", "folder", "device"])
def test_what_is_not_a_plain_file_is_refused_without_waiting(folder, name, kind, tmp_path):
    target = fitted_in(folder) / name
    target.rename(tmp_path / "real")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to({"symlink": tmp_path / "real", "device": "/dev/zero"}.get(kind, "nowhere"))

    with pytest.raises(StorageError, match=r"is not a plain file: do not trust|is missing"):
        open_folder(folder)


def test_the_fitted_part_of_another_folder_is_refused(folder, tmp_path):
    write(tmp_path / "other", state={"a": 2})
    name = fitted_in(folder)
    shutil.rmtree(name)
    shutil.copytree(fitted_in(tmp_path / "other"), name)

    with pytest.raises(StorageError, match=r"fitted\.json does not match its checksum: it was altered; restore"):
        open_folder(folder)


def contents(folder, content):
    """Write another `fitted.json`, with a checksum that fits."""
    import hashlib

    encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
    (fitted_in(folder) / "fitted.json").write_bytes(encoded)
    forge_database(folder, f"update folder set sha256 = '{hashlib.sha256(encoded).hexdigest()}'")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format": ' + b"9" * 5000 + b"}",
        b"null",
        [],
        {},
        "text",
        3,
        {"format": 2},
        {"format": 2, "parts": []},
        {"format": 2, "parts": {}},
        {"format": 2, "parts": {"": None}},
        {"format": 2, "parts": {"inner": {"kind": "thing", "state": {}, "files": {}, "grows": None}}},
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_table_of_contents_that_is_not_ours_is_one_sentence(folder, content):
    contents(folder, content)

    with pytest.raises(StorageError, match=r"does not hold a valid table of contents|should not be there") as error:
        open_folder(folder)

    assert "\n" not in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize("number", [0, 1, 3, 99, "2", None, True, float("nan")])
def test_another_format_is_refused_with_the_way_out(folder, number):
    contents(folder, {"format": number, "parts": {}})

    with pytest.raises(StorageError, match="this version reads 2: refit, or upgrade with pip install -U knn-ue"):
        open_folder(folder)


def file_entry(**values):
    return lambda parts: parts[""]["files"]["blob"].update(values)


def renamed(name):
    return lambda parts: parts[""]["files"].update({name: parts[""]["files"].pop("blob")})


def moved_part(name):
    return lambda parts: parts.update({name: parts.pop("inner")})


@pytest.mark.parametrize(
    "change",
    [
        *(renamed(name) for name in ("../blob", "/etc/passwd", "a/b", "", ".blob", "..", "nul\0byte", "x" * 300)),
        *(moved_part(name) for name in ("..", "../inner", "/inner", "inner/", "a//b", "Inner", "un/known", "inner\n")),
        *(file_entry(size=size) for size in ("12", 1.5, True, float("nan"), -1, 2**70, None)),
        *(file_entry(sha256=sha256) for sha256 in ("0" * 64, "", None, 3)),
        *(lambda parts, value=value: parts[""].update(kind=value) for value in (None, 3, [])),
        *(lambda parts, value=value: parts[""].update(state=value) for value in (None, 3, [], "x")),
        *(lambda parts, value=value: parts[""].update(files=value) for value in (None, 3, [], {}, {"blob": "blob"})),
        *(lambda parts, value=value: parts[""].update(grows=value) for value in (3, [], {}, {"n_columns": 3})),
        lambda parts: parts[""].pop("kind"),
        lambda parts: parts[""].update(strange=1),
        lambda parts: parts.update({"/".join("abcdefghij"[:n]): dict(parts["inner"], files={}) for n in range(1, 11)}),
    ],
)
def test_an_entry_that_we_never_write_is_refused_though_the_checksum_agrees(folder, change):
    forge(folder, change)

    with pytest.raises(StorageError) as error:
        open_folder(folder)

    assert "\n" not in str(error.value) and len(str(error.value)) < 600


def test_a_folder_of_a_later_format_is_not_overwritten(folder):
    forge_database(folder, "update folder set format = 99")
    before = fitted_in(folder)

    with pytest.raises(StorageError, match="has format 99, this version reads 2"):
        write(folder)

    assert fitted_in(folder) == before


def test_sealed_files_open_as_they_are(folder):
    seal(folder)

    assert content_of(folder)[0] == {"a": 1}
