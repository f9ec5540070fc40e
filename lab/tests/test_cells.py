"""Cells on disk: found by their key, written whole, shared between processes."""

import json
import math

import numpy as np
import pytest

from knn_ue_lab.reproduce.cells import CellName, CellStore

NAME = CellName("sentiment", "knn-ue.seed0", "abc123")


@pytest.fixture
def store(tmp_path):
    return CellStore(tmp_path / "cells", tmp_path / "work")


def test_a_cell_is_read_as_it_was_written(store):
    written = store.write(NAME, {"sets": {"imdb": {"ece": np.float64(0.123456789), "n": np.int64(3)}}})

    assert store.read(NAME) == written
    assert written["sets"]["imdb"] == {"ece": 0.1234568, "n": 3}
    assert (store.cells / "sentiment" / "knn-ue.seed0.abc123.json").is_file()


def test_what_follows_from_cells_replaces_what_followed_from_others(store):
    old = CellName("sentiment", "compared-x", "1")
    kept = CellName("sentiment", "compared-x-y", "1")
    store.write(old, {})
    store.write(kept, {})

    store.write(CellName("sentiment", "compared-x", "2"), {}, only=True)

    assert store.read(old) is None
    assert store.read(kept) is not None


def test_a_cell_of_another_key_is_another_cell(store):
    store.write(NAME, {"x": 1})

    assert store.read(CellName("sentiment", "knn-ue.seed0", "other")) is None


def test_what_is_not_a_number_becomes_null_so_that_every_reader_can_read_it(store):
    store.write(NAME, {"x": math.nan, "y": math.inf})

    assert json.loads((store.cells / NAME.file).read_text()) == {"key": "abc123", "x": None, "y": None}


@pytest.mark.parametrize("damage", ["", "{", '{"key": "wrong"}', "[1]", '{"key": "abc123", "kind": "scores"}'])
def test_a_damaged_cell_is_measured_again(store, damage):
    store.write(NAME, {"x": 1})
    (store.cells / NAME.file).write_text(damage)

    assert store.read(NAME) is None


def test_arrays_come_back_and_damaged_ones_are_missing(store):
    store.write_arrays(NAME, "a set/b", {"confidence": np.array([0.5, 0.25])})
    assert store.read_arrays(NAME, "a set/b")["confidence"].tolist() == [0.5, 0.25]

    for file in store.work.rglob("*.safetensors"):
        file.write_bytes(b"")
    assert store.read_arrays(NAME, "a set/b") is None
    assert store.read_arrays(NAME, "elsewhere") is None


def test_sets_with_names_alike_keep_their_own_arrays(store):
    names = ("far test", "far_test", "far%5Ftest", "far/test")
    for number, name in enumerate(names):
        store.write_arrays(NAME, name, {"group": np.array([number])})

    assert [store.read_arrays(NAME, name)["group"].tolist() for name in names] == [[0], [1], [2], [3]]


def test_answers_lie_beside_the_cell_and_damaged_ones_are_missing(store):
    store.write_answers(NAME, {"a set/b": {"correct": np.array([True, False])}, "a set": {"correct": np.array([True])}})
    file = store.cells / "sentiment" / "knn-ue.seed0.abc123.npz"

    assert store.read_answers(NAME, "a set/b")["correct"].tolist() == [True, False]
    assert store.read_answers(NAME, "a set")["correct"].tolist() == [True]
    assert store.read_answers(NAME, "elsewhere") is None
    for content in (b"", file.read_bytes()[:-40], bytes(len(file.read_bytes()))):
        file.write_bytes(content)
        assert store.read_answers(NAME, "a set") is None


def test_answers_are_the_same_bytes_whenever_they_are_written(store):
    files = []
    for _ in range(2):
        store.write_answers(NAME, {"a": {"labels": np.arange(5)}})
        files.append((store.cells / NAME.file.with_suffix(".npz")).read_bytes())

    assert files[0] == files[1]


def test_one_key_is_reserved_by_one_at_a_time(store):
    with store.reserved("k", wait=False) as first, store.reserved("k", wait=False) as second:
        assert (first, second) == (True, False)
    with store.reserved("k", wait=False) as third:
        assert third
