"""The limits of a row hold for parquet too, and what a file cannot say becomes one sentence."""

import numpy as np
import pytest

from knn_ue.data import Limits, read_rows
from knn_ue.errors import InvalidInputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
TEXT, WORDS = "text-classification", "token-classification"


def written(folder, **columns):
    pq.write_table(pa.table(columns), folder / "rows.parquet", compression="zstd")
    return folder / "rows.parquet"


def rows_in(path, task=TEXT, **options):
    return list(read_rows(str(path), task, **options))


@pytest.mark.parametrize("stored", ["dictionary", "plain"])
def test_a_text_that_all_rows_share_does_not_take_all_memory(stored, tmp_path):
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array(["x" * (8 << 20)]))
    texts = shared if stored == "dictionary" else shared.slice(0, 50).dictionary_decode()
    path = written(tmp_path, text=texts, label=["pos"] * len(texts))
    assert path.stat().st_size < 100_000

    with pytest.raises(InvalidInputError, match=r"row 1: a row must be shorter than 4 MiB, got '8388611 bytes'"):
        rows_in(path)


def test_a_row_of_the_greatest_length_is_read_and_a_longer_one_is_named(tmp_path):
    path = written(tmp_path, text=["a", "b" * 997, "c" * 998], label=["pos"] * 3)

    assert len(rows_in(path, limits=Limits(row_bytes=1001))) == 3
    with pytest.raises(InvalidInputError, match="row 3: a row must be shorter"):
        rows_in(path, limits=Limits(row_bytes=1000))


def test_the_words_of_a_sentence_count_together(tmp_path):
    path = written(tmp_path, tokens=[["a"] * 3, ["b" * 100] * 20], tags=[["O"] * 3, ["O"] * 20])

    assert len(rows_in(path, WORDS)) == 2
    with pytest.raises(InvalidInputError, match="row 2: a row must be shorter"):
        rows_in(path, WORDS, limits=Limits(row_bytes=2000))


def test_fields_that_are_passed_on_count_too(tmp_path):
    extra = [{"a": "x", "b": [1, 2]}, {"a": "x" * 3000, "b": []}]
    path = written(tmp_path, text=["a", "b"], label=["pos", "neg"], extra=extra)

    assert [row.extra["extra"] for row in rows_in(path, extras=True)] == extra
    with pytest.raises(InvalidInputError, match="row 2: a row must be shorter"):
        rows_in(path, extras=True, limits=Limits(row_bytes=2000))


def test_a_text_that_is_not_utf8_is_one_sentence(tmp_path):
    ends, content = np.array([0, 2], np.int32).tobytes(), b"\xff\xfe"
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(content)])

    with pytest.raises(InvalidInputError, match=r"is not a readable parquet file \(.*utf-8.*\): write it again"):
        rows_in(written(tmp_path, text=text, label=["pos"]))


def test_a_date_that_python_does_not_know_is_one_sentence(tmp_path):
    when = pa.array([2**62], pa.timestamp("us"))

    with pytest.raises(InvalidInputError, match="is not a readable parquet file"):
        rows_in(written(tmp_path, text=["a"], label=["pos"], when=when), extras=True)


@pytest.mark.parametrize("missing", [[None, "b"], ["a", None]])
def test_missing_values_are_as_elsewhere(missing, tmp_path):
    path = written(tmp_path, text=["a", "b"], label=["pos", "neg"], extra=pa.array(missing))

    assert [row.extra.get("extra") for row in rows_in(path, extras=True)] == missing
