"""Files that are no text, no gzip or no file at all."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from knn_ue.data import Limits, read_rows
from knn_ue.errors import InvalidInputError

GOOD = '{"text": "fine", "label": "pos"}\n'


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"no\.jsonl does not exist: check the path"):
        read_rows(tmp_path / "no.jsonl", "text-classification")


def test_a_misspelled_source_is_pointed_to_the_named_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"vadr:movies does not exist.*vader:movies"):
        read_rows("vadr:movies", "text-classification")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is a folder, but a file is needed"):
        read_rows(tmp_path, "text-classification")


@pytest.mark.parametrize("path", ["x" * 5000 + ".csv", "a\0b.csv"])
def test_a_text_in_place_of_a_path_is_one_clear_sentence(path: str) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be opened .*: check the path"):
        read_rows(path, "text-classification")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(write) -> None:
    path = write("a.jsonl", GOOD)
    path.chmod(0)

    with pytest.raises(InvalidInputError, match=r"cannot be opened .*: check its permissions"):
        list(read_rows(path, "text-classification"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.gz", "a.txt"])
@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_an_error(write, name: str, content: bytes) -> None:
    path = write(name, content)

    with pytest.raises(InvalidInputError, match="is empty: at least one row is needed"):
        list(read_rows(path, "text-classification", labeled=name != "a.txt"))


def test_an_unknown_extension_lists_the_known_ones(write) -> None:
    path = write("a.xlsx", b"PK")

    with pytest.raises(InvalidInputError, match=r"must end in one of \.jsonl.*\.csv.*got '\.xlsx'"):
        read_rows(path, "text-classification")


def test_a_byte_that_is_not_utf8_is_an_error_at_its_line(write) -> None:
    path = write("a.jsonl", GOOD.encode() + '{"text": "café", "label": "pos"}\n'.encode("latin-1"))

    with pytest.raises(
        InvalidInputError, match=r"a\.jsonl, line 2: byte 14 is not UTF-8, got .*save the file as UTF-8"
    ):
        list(read_rows(path, "text-classification"))


def test_utf16_is_named(write) -> None:
    path = write("a.csv", "text,label\nfine,pos\n".encode("utf-16"))

    with pytest.raises(InvalidInputError, match="is written in UTF-16 or UTF-32, but UTF-8 is needed"):
        list(read_rows(path, "text-classification"))


def test_a_nul_byte_is_an_error_at_its_line(write) -> None:
    path = write("a.csv", b"text,label\nfi\0ne,pos\n")

    with pytest.raises(InvalidInputError, match="line 2: a text file must not hold NUL bytes"):
        list(read_rows(path, "text-classification"))


def test_a_byte_order_mark_is_no_text(write) -> None:
    path = write("a.jsonl", b"\xef\xbb\xbf" + GOOD.encode())

    (row,) = read_rows(path, "text-classification")

    assert row.text == "fine"


def test_a_truncated_gzip_file_is_an_error(write) -> None:
    path = write("a.jsonl.gz", gzip.compress(GOOD.encode() * 1000)[:-20])

    with pytest.raises(InvalidInputError, match=r"a\.jsonl\.gz is a broken gzip file, unreadable from line"):
        list(read_rows(path, "text-classification"))


def test_a_damaged_gzip_file_is_an_error(write) -> None:
    content = bytearray(gzip.compress(os.urandom(2000)))
    content[1000:1010] = bytes(10)
    path = write("a.txt.gz", bytes(content))

    with pytest.raises(InvalidInputError):
        list(read_rows(path, "text-classification", labeled=False))


def test_a_plain_file_named_gz_is_an_error(write) -> None:
    path = write("a.jsonl.gz", GOOD.encode())

    with pytest.raises(InvalidInputError, match=r"is not a gzip file although its name ends in \.gz"):
        list(read_rows(path, "text-classification"))


def test_a_gzip_file_that_lost_its_ending_is_read(write) -> None:
    path = write("a.jsonl", gzip.compress(GOOD.encode()))

    assert len(list(read_rows(path, "text-classification"))) == 1


def test_a_line_without_end_is_refused_before_it_fills_the_memory(write) -> None:
    path = write("a.txt", "x" * 2000)

    with pytest.raises(InvalidInputError, match=r"line 1: a row must be shorter than .*row_bytes=N"):
        list(read_rows(path, "text-classification", labeled=False, limits=Limits(row_bytes=1000)))


def test_rows_before_a_bad_line_can_be_had(write) -> None:
    path = write("a.jsonl", GOOD + "broken\n")

    assert next(read_rows(path, "text-classification")).text == "fine"


@pytest.mark.slow
def test_memory_stays_flat_over_a_long_file(write) -> None:
    line = json.dumps({"text": "word " * 100, "label": "pos"}) + "\n"
    path = write("a.jsonl.gz", line * 10_000)
    tracemalloc.start()

    n_rows = sum(1 for _ in read_rows(path, "text-classification"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert n_rows == 10_000
    assert peak < 1 << 20
