"""Files with very many columns, words or spans are read in time that grows with their size, not with its square."""

import json
import time

import pytest

from knn_ue.data import read_rows
from knn_ue.errors import InvalidInputError

TEXT, WORDS = "text-classification", "token-classification"
_SECONDS = 15.0  # of the processor; the square of these sizes takes minutes


def test_a_header_of_very_many_columns_is_read(tmp_path):
    n_columns = 100_000
    names = ",".join(f"c{number}" for number in range(n_columns))
    (tmp_path / "wide.csv").write_text(f"text,label,{names}\na,pos{',' * n_columns}\n")

    began = time.process_time()
    (row,) = read_rows(tmp_path / "wide.csv", TEXT)

    assert row.label == "pos"
    assert time.process_time() - began < _SECONDS


def test_very_many_marked_spans_are_read(tmp_path):
    n_words = 50_000
    spans = [{"value": {"start": 2 * n, "end": 2 * n + 1, "labels": ["PER"]}} for n in range(0, n_words, 2)]
    task = {"data": {"tokens": ["a"] * n_words}, "annotations": [{"result": spans}]}
    (tmp_path / "task.json").write_text(json.dumps([task]))

    began = time.process_time()
    (row,) = read_rows(tmp_path / "task.json", WORDS)

    assert row.tags[:4] == ("B-PER", "O", "B-PER", "O")
    assert time.process_time() - began < _SECONDS


def test_a_weight_of_hundreds_of_digits_is_one_sentence(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "pos", "sample_weight": 1' + "0" * 400 + "}\n")

    with pytest.raises(InvalidInputError, match="sample_weight must be a positive number"):
        list(read_rows(tmp_path / "rows.jsonl", TEXT))
