"""Arrays, texts and `Outputs` come back as they were written; texts always as valid Unicode."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.errors import StorageError
from knn_ue.folder.tensors import (
    PackedTexts,
    map_arrays,
    outputs_from_arrays,
    outputs_to_arrays,
    valid_unicode,
    write_arrays,
)
from knn_ue.stores import Datastore
from knn_ue.types import Outputs

HALF = "a\ud800b"
ARRAYS = {
    "f16": np.array([[0.5], [1.0]], dtype=np.float16),
    "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "f64": np.array([0.1, np.inf, np.nan]),
    "i64": np.array([[2**62], [-1]]),
    "u8": np.frombuffer(b"odd length!", dtype=np.uint8),
    "flags": np.array([True, False, True]),
    "nothing": np.empty((0, 4), dtype=np.float32),
}


def assert_equal_arrays(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert not found[name].flags.writeable


@pytest.mark.parametrize("mapped_bytes", [0, 1 << 26])
def test_arrays_of_every_type_come_back_equal_read_or_mapped(tmp_path, monkeypatch, mapped_bytes):
    monkeypatch.setattr("knn_ue.folder.tensors._MAPPED_BYTES", mapped_bytes)
    write_arrays(tmp_path / "file", ARRAYS)

    assert_equal_arrays(map_arrays(tmp_path / "file"), ARRAYS)


def test_the_file_is_one_that_the_safetensors_library_reads(tmp_path):
    from safetensors.numpy import load_file

    write_arrays(tmp_path / "file", ARRAYS)

    np.testing.assert_array_equal(load_file(tmp_path / "file")["f64"], ARRAYS["f64"])


def test_an_array_larger_than_a_chunk_is_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.folder.tensors._CHUNK_BYTES", 1000)
    large = np.random.default_rng(0).normal(size=(333, 7))[::-1]

    write_arrays(tmp_path / "file", {"large": large})

    np.testing.assert_array_equal(map_arrays(tmp_path / "file")["large"], large)


FULL = {
    "features": np.arange(6, dtype=np.float32).reshape(3, 2),
    "labels": [0, 1, 1],
    "layers": [np.full((3, 2), number, dtype=np.float32) for number in range(11)],
    "groups": [0, 0, 1],
    "texts": ["a", "", "c"],
    "words": ["A", "", "é"],
}


@pytest.mark.parametrize("left_out", [None, *FULL])
def test_outputs_come_back_equal(left_out):
    given = {name: value for name, value in FULL.items() if name != left_out}
    outputs = Outputs(logits=np.eye(3, 2), class_names=["x", "y"], **given)

    back = outputs_from_arrays(outputs_to_arrays(outputs) | {"other": np.empty(0)}, ["x", "y"])

    assert (back.texts, back.words, back.class_names) == (outputs.texts, outputs.words, outputs.class_names)
    for name in ("logits", "features", "labels", "groups", "layers"):
        np.testing.assert_array_equal(getattr(back, name), getattr(outputs, name))


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=()))))
def test_whatever_is_packed_can_be_encoded(texts):
    packed = PackedTexts.pack(texts)

    assert [text is None for text in packed] == [text is None for text in texts]
    for before, text in zip(texts, packed, strict=True):
        json.dumps(text, ensure_ascii=False).encode()
        assert text is None or len(text) == len(before) or max(before) >= "\ud800"


@given(st.text())
def test_valid_text_stays_as_it_is(text):
    assert PackedTexts.pack([text])[0] == valid_unicode(text) == text


def test_half_a_pair_becomes_one_replacement_character_in_memory_on_disk_and_after_every_change(tmp_path):
    built = Datastore.build(np.eye(2), [0, 1], texts=[HALF, "b"])
    built.save(tmp_path)
    store = Datastore.load(tmp_path)
    store.add(np.eye(2), [0, 1], texts=["c", HALF])

    expected = ["a\ufffdb", "b", "c", "a\ufffdb"]
    assert built.texts_of([0, 1]) == expected[:2]
    assert store.texts_of(range(4)) == expected
    assert Datastore.load(tmp_path).texts_of(range(4)) == expected
    store.compact()
    assert Datastore.load(tmp_path).texts_of(range(4)) == expected


def test_bytes_that_are_no_text_at_all_are_an_error():
    content = np.frombuffer(b"\xff\xfe", dtype=np.uint8)

    with pytest.raises(StorageError, match="is not UTF-8: restore the folder from a backup"):
        PackedTexts(content, np.array([2]), np.array([True]))[0]
