"""A damaged or hostile store gives one clear StorageError: no other error, no crash, no hang, no giant allocation."""

import json
import os
import random
import shutil
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
from stores.hostile import is_refused, part, read_meta, replace_arrays, replace_options, seal, write_meta


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with vectors, texts, a normalization, an index and a journal with two changes."""
    path = tmp_path_factory.mktemp("hostile") / "store"
    rng = np.random.default_rng(0)
    features, texts = rng.normal(size=(60, 4)), [f"text {n}" for n in range(60)]
    Datastore.build(features, rng.integers(3, size=60), texts=texts, index="IVF4,Flat", normalize="standardize").save(
        path
    )
    store = Datastore.load(path)
    store.add(features[:3], [1, 2, 0], texts=["a", "b", "c"])
    store.remove([1, 61])
    return path


@pytest.fixture
def folder(template, tmp_path):
    return shutil.copytree(template, tmp_path / "store")


def file_named(folder, start):
    return next(entry for entry in folder.iterdir() if entry.name.startswith(start))


FILES = ["arrays.", "index.", "journal.", "meta.json"]


@pytest.mark.parametrize("start", FILES)
def test_a_missing_file_is_named(folder, start):
    target = file_named(folder, start)
    target.unlink()

    with pytest.raises(StorageError, match=rf"{target.name} is missing|has no meta\.json"):
        Datastore.load(folder)


@pytest.mark.parametrize("start", ["arrays.", "index.", "meta.json"])
def test_a_truncated_file_is_refused_wherever_it_is_cut(folder, start):
    target = file_named(folder, start)
    content = target.read_bytes()

    for size in {0, 1, 7, 8, 9, len(content) // 2, len(content) - 1}:
        target.write_bytes(content[:size])
        assert is_refused(folder)


@pytest.mark.parametrize("start", FILES)
def test_a_flipped_bit_is_refused_wherever_it_is(folder, start):
    target, rng = file_named(folder, start), random.Random(start)
    content = target.read_bytes()

    for _ in range(60):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        target.write_bytes(flipped)
        assert is_refused(folder)


@pytest.mark.parametrize("start", FILES)
def test_an_appended_byte_is_refused(folder, start):
    target = file_named(folder, start)
    target.write_bytes(target.read_bytes() + (b"}" if start == "meta.json" else bytes(16) + b"\x01"))

    assert is_refused(folder)


@pytest.mark.parametrize("start", FILES)
def test_a_file_of_another_store_is_refused(folder, start, tmp_path):
    rng = np.random.default_rng(1)
    Datastore.build(rng.normal(size=(60, 4)), rng.integers(3, size=60), index="IVF4,Flat").save(tmp_path / "other")
    shutil.copy(file_named(tmp_path / "other", start), file_named(folder, start))

    assert is_refused(folder)


def test_arrays_and_index_swapped_are_refused(folder):
    arrays, index = part(folder).read_bytes(), part(folder, "index").read_bytes()
    part(folder).write_bytes(index)
    part(folder, "index").write_bytes(arrays)

    assert is_refused(folder)
    seal(folder)
    assert is_refused(folder)


@pytest.mark.parametrize("start", FILES)
@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "pipe", "folder", "device"])
def test_what_is_not_a_plain_file_is_refused_without_waiting(folder, start, kind, tmp_path):
    target = file_named(folder, start)
    target.rename(tmp_path / "real")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to({"symlink": tmp_path / "real", "device": "/dev/zero"}.get(kind, "nowhere"))

    with pytest.raises(StorageError, match=r"is not a plain file: do not trust|is missing"):
        Datastore.load(folder)


ARRAYS = {
    "vectors with NaN": {"vectors": np.full((60, 4), np.nan, np.float32)},
    "vectors with infinity": {"vectors": np.full((60, 4), np.inf, np.float32)},
    "vectors too long": {"vectors": np.full((60, 4), 1e30, np.float32)},
    "vectors of float64": {"vectors": np.zeros((60, 4))},
    "vectors in one dimension": {"vectors": np.zeros(240, np.float32)},
    "vectors without columns": {"vectors": np.zeros((60, 0), np.float32)},
    "too few vectors": {"vectors": np.zeros((59, 4), np.float32)},
    "no vectors": {"vectors": None},
    "ids that fall": {"ids": np.arange(60)[::-1].copy()},
    "equal ids": {"ids": np.zeros(60, np.int64)},
    "negative ids": {"ids": np.arange(60) - 1},
    "ids beyond the next": {"ids": np.arange(60) + 1},
    "ids that wrap around": {"ids": np.array([0, *range(2**62, 2**62 + 58), 59])},
    "ids of float64": {"ids": np.arange(60.0)},
    "negative labels": {"labels": np.full(60, -1)},
    "labels of uint8": {"labels": np.zeros(60, np.uint8)},
    "text ends that fall": {"text_ends": np.arange(60)[::-1].copy()},
    "text ends beyond the text": {"text_ends": np.full(60, 10**12)},
    "negative text ends": {"text_ends": np.full(60, -5)},
    "texts that are not UTF-8": {"text_content": np.full(500, 255, np.uint8)},
    "texts of another type": {"text_content": np.zeros(500, np.float32)},
    "too few texts": {"text_present": np.ones(59, bool)},
    "a mean that is NaN": {"normalize_mean": np.full(4, np.nan)},
    "a scale of zero": {"normalize_scale": np.zeros(4)},
    "a scale that is NaN": {"normalize_scale": np.full(4, np.nan)},
    "a mean for other columns": {"normalize_mean": np.zeros(5)},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_contradict_each_other_are_refused_though_checksums_agree(folder, name):
    replace_arrays(folder, **ARRAYS[name])

    assert is_refused(folder)


def test_an_unknown_array_is_harmless(folder):
    replace_arrays(folder, extra=np.zeros(3))

    assert not is_refused(folder)


GOOD_INDEX = {"factory": "IVF4,Flat", "n_probe": None, "ef_search": None, "refine_factor": 1}
OPTIONS = {
    "a next id below the ids": {"next_id": 3},
    "a next id that is NaN": {"next_id": float("nan")},
    "a next id that is true": {"next_id": True},
    "a fractional next id": {"next_id": 60.5},
    "a next id beyond int64": {"next_id": 2**70},
    "a next id in words": {"next_id": "sixty"},
    "no next id": {"next_id": None},
    "an index that is a list": {"index": []},
    "an index without sense": {"index": {"shape": "round"}},
    "a factory that is a number": {"index": GOOD_INDEX | {"factory": 5}},
    "a factory that faiss dies of": {"index": GOOD_INDEX | {"factory": "HNSW0"}},
    "a negative n_probe": {"index": GOOD_INDEX | {"n_probe": -1}},
    "a huge n_probe": {"index": GOOD_INDEX | {"n_probe": 10**30}},
    "an ef_search for an IVF": {"index": GOOD_INDEX | {"ef_search": 5}},
    "an unknown normalization": {"normalize": "l3"},
    "a normalization that is a list": {"normalize": ["l2"]},
    "no normalization where arrays say so": {"normalize": "none"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_we_never_write_are_refused_though_checksums_agree(folder, name):
    replace_options(folder, **OPTIONS[name])

    assert is_refused(folder)


def test_a_large_but_legal_n_probe_and_refine_factor_do_no_harm(folder):
    replace_options(folder, index=GOOD_INDEX | {"n_probe": 2**31 - 1, "refine_factor": 2**31 - 1})

    assert not is_refused(folder)


def test_an_index_over_other_rows_is_refused(folder, tmp_path):
    Datastore.build(np.eye(50), np.arange(50), index="IVF4,Flat").save(tmp_path / "other")
    shutil.copy(part(tmp_path / "other", "index"), part(folder, "index"))
    seal(folder)

    with pytest.raises(StorageError, match=r"indexes 50 rows of 50, not \(60, 4\): it was replaced"):
        Datastore.load(folder)


def test_a_kind_of_index_that_we_never_write_is_refused(folder):
    import faiss

    index = faiss.index_factory(4, "LSH")
    index.train(np.eye(4, dtype=np.float32))
    index.add(np.ones((60, 4), dtype=np.float32))
    faiss.write_index(index, str(part(folder, "index")))
    seal(folder)

    with pytest.raises(StorageError, match="is not a faiss index written by knn-ue: do not trust this folder"):
        Datastore.load(folder)


def test_mutated_tensor_headers_with_right_checksums_are_refused_or_harmless(folder):
    target, rng = part(folder), random.Random(0)
    content = target.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")

    for _ in range(150):
        mutated = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            mutated[rng.randrange(header_end)] = rng.choice(b'0123456789{}[]",:-.eFI\x00\xff')
        target.write_bytes(mutated)
        seal(folder)
        is_refused(folder)


@pytest.mark.parametrize("length", [0, 1, 2**20 + 1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_header_length_that_lies_is_refused(folder, length):
    target = part(folder)
    target.write_bytes(struct.pack("<Q", length) + target.read_bytes()[8:])
    seal(folder)

    assert is_refused(folder)


@pytest.mark.parametrize(
    "header",
    [
        {"vectors": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**62]}},
        {"vectors": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"vectors": [1, 2, 3]},
        {"vectors": None},
        {"__metadata__": {"a": 1}},
        [],
        "vectors",
    ],
    ids=str,
)
def test_a_tensor_header_that_lies_is_refused(folder, header):
    encoded = json.dumps(header).encode()
    part(folder).write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(4))
    seal(folder)

    assert is_refused(folder)


def test_a_deeply_nested_tensor_header_is_refused(folder):
    encoded = b'{"vectors":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    part(folder).write_bytes(struct.pack("<Q", len(encoded)) + encoded)
    seal(folder)

    assert is_refused(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=JSON)
def test_any_value_anywhere_in_a_sealed_meta_json_is_refused_or_harmless(folder, template, data, value):
    meta = read_meta(template)
    place, key = meta, data.draw(st.sampled_from(sorted(meta)))
    while isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place)))
    place[key] = value
    write_meta(folder, meta)

    is_refused(folder)


def hostile_record(folder, **arrays):
    """Append a journal record with right checksums."""
    from knn_ue.storage.tensors import arrays_to_bytes
    from knn_ue.stores.folder import _head, zlib

    body = arrays_to_bytes(arrays)
    with file_named(folder, "journal.").open("ab") as file:
        file.write(_head(len(body), zlib.crc32(body)) + body)


GOOD_RECORD = {
    "features": np.ones((1, 4), np.float32),
    "ids": np.array([63]),
    "labels": np.array([0]),
    "text_content": np.zeros(0, np.uint8),
    "text_ends": np.zeros(1, np.int64),
    "text_present": np.zeros(1, bool),
}
RECORDS = {
    "features of NaN": {"features": np.full((1, 4), np.nan, np.float32)},
    "features of another width": {"features": np.ones((1, 5), np.float32)},
    "features of float64": {"features": np.ones((1, 4))},
    "an id that exists": {"ids": np.array([3])},
    "an id too far": {"ids": np.array([10**9])},
    "ids of float64": {"ids": np.array([63.0])},
    "a negative label": {"labels": np.array([-1])},
    "two labels": {"labels": np.array([0, 0])},
    "texts beyond the end": {"text_ends": np.array([50])},
    "text that is not UTF-8": {
        "text_content": np.full(3, 255, np.uint8),
        "text_ends": np.array([3]),
        "text_present": np.ones(1, bool),
    },
}


def test_a_sealed_record_as_we_write_it_is_read(folder):
    hostile_record(folder, **GOOD_RECORD)

    assert Datastore.load(folder).ids[-1] == 63


@pytest.mark.parametrize("name", RECORDS)
def test_a_sealed_record_that_we_never_write_is_refused(folder, name):
    hostile_record(folder, **(GOOD_RECORD | RECORDS[name]))

    assert is_refused(folder)


@pytest.mark.parametrize("ids", [np.array([0.5]), np.array([[1]])])
def test_a_sealed_removal_that_we_never_write_is_refused(folder, ids):
    hostile_record(folder, removed_ids=ids)

    assert is_refused(folder)


def test_a_sealed_removal_of_ids_that_do_not_exist_does_no_harm(folder):
    hostile_record(folder, removed_ids=np.array([-5, 999, 2**62]))

    assert not is_refused(folder)
