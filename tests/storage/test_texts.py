"""Texts are stored and read back as valid Unicode, so that whoever shows them can encode them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from knn_ue.storage.tensors import PackedTexts, valid_unicode

from knn_ue.errors import StorageError
from knn_ue.stores import Datastore

HALF = "a\ud800b"


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


def test_a_store_of_an_earlier_version_is_read_as_valid_unicode():
    content = np.frombuffer(HALF.encode("utf-8", "surrogatepass"), dtype=np.uint8)

    assert PackedTexts(content, np.array([len(content)]), np.array([True]))[0] == "a\ufffdb"


def test_bytes_that_are_no_text_at_all_are_an_error():
    content = np.frombuffer(b"\xff\xfe", dtype=np.uint8)

    with pytest.raises(StorageError, match="is not UTF-8: restore the folder from a backup"):
        PackedTexts(content, np.array([2]), np.array([True]))[0]
