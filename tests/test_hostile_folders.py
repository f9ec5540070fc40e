"""Whatever is in a folder, loading it gives the store that was saved or one clear error: no crash, no hang."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn_ue import KnnUE, StorageError, WeightParams
from knn_ue.stores import Datastore


@pytest.fixture(scope="module", params=["exact", "IVF4,SQ8"])
def saved(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("saved") / "store"
    Datastore.build(rng.normal(size=(200, 4)), rng.integers(0, 3, 200), texts=["x"] * 200, index=request.param).save(
        path
    )
    store = Datastore.load(path)
    store.add(np.zeros((2, 4)), [1, 2], texts=["new", "newer"])
    store.remove([0])
    return path


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "store"))


def contents(path: Path):
    store = Datastore.load(path)
    return store.search(np.zeros((1, 4)), len(store)).ids.tolist()


def file_named(folder: Path, start: str) -> Path:
    return next(entry for entry in folder.iterdir() if entry.name.startswith(start))


def rewrite_meta(folder: Path, change) -> None:
    """Change meta.json as an attacker would: with a checksum that fits."""
    meta = json.loads((folder / "meta.json").read_text())
    del meta["checksum"]
    change(meta)
    meta["checksum"] = hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()
    (folder / "meta.json").write_text(json.dumps(meta))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_is_noticed(saved, tmp_path, data):
    name = data.draw(st.sampled_from(sorted(entry.name for entry in saved.iterdir())))
    content = bytearray((saved / name).read_bytes())
    place = data.draw(st.integers(0, len(content) * 8 - 1))
    content[place // 8] ^= 1 << place % 8
    folder = tmp_path / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    (folder / name).write_bytes(content)

    try:
        found = contents(folder)
    except StorageError:
        return

    assert found == contents(saved)  # white space in meta.json, say


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_truncated_file_is_noticed(saved, tmp_path, data):
    name = data.draw(st.sampled_from(sorted(x.name for x in saved.iterdir() if not x.name.startswith("journal"))))
    size = (saved / name).stat().st_size
    folder = tmp_path / "cut"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    os.truncate(folder / name, data.draw(st.integers(0, size - 1)))

    with pytest.raises(StorageError):
        contents(folder)


@pytest.mark.slow
def test_a_journal_cut_anywhere_keeps_every_whole_record(saved, folder):
    journal = file_named(folder, "journal")
    whole = journal.read_bytes()
    lengths = set()
    for size in range(len(whole), 40, -1):
        os.truncate(journal, size)
        lengths.add(len(Datastore.load(folder)))

    assert lengths == {201, 202, 200}


def test_a_store_with_a_torn_journal_can_be_written_again(folder):
    journal = file_named(folder, "journal")
    os.truncate(journal, journal.stat().st_size - 3)
    Datastore.load(folder).add(np.ones((1, 4)), [0])

    assert len(Datastore.load(folder)) == 203


@pytest.mark.parametrize("start", ["arrays", "journal", "meta"])
def test_a_missing_file_is_named(folder, start):
    missing = file_named(folder, start)
    missing.unlink()

    with pytest.raises(StorageError, match=missing.name):
        Datastore.load(folder)


def test_a_file_of_another_store_is_noticed(folder, tmp_path):
    Datastore.build(np.ones((200, 4)), np.zeros(200, int)).save(tmp_path / "other")
    shutil.copy(file_named(tmp_path / "other", "arrays"), file_named(folder, "arrays"))

    with pytest.raises(StorageError):
        Datastore.load(folder)


def test_a_future_format_asks_for_an_upgrade(folder):
    rewrite_meta(folder, lambda meta: meta.update(format=99))

    with pytest.raises(StorageError, match="format 99"):
        Datastore.load(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "", "meta.json", None, 3])
def test_a_name_that_leaves_the_folder_is_refused(folder, name):
    rewrite_meta(folder, lambda meta: meta["files"]["arrays"].update(name=name))

    with pytest.raises(StorageError):
        Datastore.load(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "3",
        "{",
        "[" * 100_000,
        '{"format": "x"}',
        '{"format": 1}',
        '{"format": NaN}',
        "\x00",
        "\ud800",
    ],
)
def test_a_meta_file_of_garbage_is_refused(folder, text):
    (folder / "meta.json").write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(StorageError):
        Datastore.load(folder)


@pytest.mark.parametrize("key", ["kind", "identity", "generation", "options", "files", "folders"])
@pytest.mark.parametrize("value", [None, 3, [], "x", {"a": 1}])
def test_a_meta_entry_of_another_type_is_refused(folder, key, value):
    rewrite_meta(folder, lambda meta: meta.update({key: value}))

    try:
        Datastore.load(folder)
    except StorageError:
        return
    assert (key, value) in [("folders", None), ("identity", "x")]


@pytest.mark.parametrize("value", [-1, 10**18, "x", None, [], 1.5])
@pytest.mark.parametrize("key", ["next_id", "index", "normalize"])
def test_an_option_of_another_type_is_refused(folder, key, value):
    rewrite_meta(folder, lambda meta: meta["options"].update({key: value}))

    try:
        Datastore.load(folder)
    except StorageError:
        return
    assert (key, value) == ("next_id", 10**18)  # unusual, but a store that had given so many ids


@pytest.mark.parametrize("start", ["arrays", "journal", "meta"])
def test_a_pipe_in_place_of_a_file_does_not_hang(folder, start):
    place = file_named(folder, start)
    place.unlink()
    os.mkfifo(place)

    with pytest.raises(StorageError, match="not a plain file"):
        Datastore.load(folder)


@pytest.mark.parametrize("start", ["arrays", "journal"])
def test_a_link_out_of_the_folder_is_refused(folder, tmp_path, start):
    place = file_named(folder, start)
    shutil.move(place, tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="not a plain file"):
        Datastore.load(folder)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_hostile_arrays_with_fitting_checksums_give_a_storage_error_or_load(saved, tmp_path, data):
    folder = tmp_path / "hostile"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    place = file_named(folder, "arrays")
    content = bytearray(place.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(len(content), 700) - 1))] = data.draw(st.integers(0, 255))
    place.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    rewrite_meta(folder, lambda meta: meta["files"]["arrays"].update(size=len(content), sha256=digest))

    with suppress(StorageError):
        contents(folder)


def test_a_folder_that_is_not_ours_says_so(tmp_path):
    with pytest.raises(StorageError, match="not a knn-ue folder"):
        Datastore.load(tmp_path)


def test_a_swapped_store_inside_a_calibrator_is_noticed(tmp_path):
    params = WeightParams(alpha=1.0, tau=1.0)
    for name, value in (("a", 0.0), ("b", 1.0)):
        KnnUE(Datastore.build(np.full((9, 2), value), np.zeros(9, int)), n_neighbors=3, params=params).save(
            tmp_path / name
        )
    inside = [next(entry for entry in (tmp_path / name).iterdir() if entry.is_dir()) for name in ("a", "b")]
    shutil.rmtree(inside[0])
    shutil.copytree(inside[1], inside[0])

    with pytest.raises(StorageError, match="replaced"):
        KnnUE.load(tmp_path / "a")
