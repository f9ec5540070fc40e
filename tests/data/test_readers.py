"""JSON lines and plain text; what is written is what is read."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn_ue.data import PairRow, TaggedRow, TextRow, read_rows
from knn_ue.errors import InvalidInputError

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30).filter(str.strip)
text_rows = st.lists(st.builds(TextRow, text, text), min_size=1, max_size=5)
pair_rows = st.lists(st.builds(PairRow, text, text, text), min_size=1, max_size=5)


def as_json(rows: list[TextRow] | list[PairRow], *, ascii_only: bool) -> bytes:
    keys = rows[0].__slots__
    records = [{key: getattr(row, key) for key in keys} for row in rows]
    return "".join(json.dumps(record, ensure_ascii=ascii_only) + "\n" for record in records).encode()


def as_table(header: list[str], rows: list[list[str]], delimiter: str) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows([header, *rows])
    return out.getvalue().encode()


@quick
@given(rows=text_rows, ascii_only=st.booleans())
def test_texts_written_as_json_lines_are_read_back(tmp_path: Path, rows: list[TextRow], ascii_only: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(as_json(rows, ascii_only=ascii_only))

    assert list(read_rows(path, "text-classification")) == rows


@quick
@given(rows=pair_rows)
def test_pairs_written_as_gzip_json_lines_are_read_back(tmp_path: Path, rows: list[PairRow]) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(as_json(rows, ascii_only=False)))

    assert list(read_rows(str(path), "text-pair")) == rows


@quick
@given(rows=text_rows)
def test_texts_written_as_csv_are_read_back(tmp_path: Path, rows: list[TextRow]) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(as_table(["id", "text", "label"], [["1", row.text, row.label] for row in rows], ","))

    assert list(read_rows(path, "text-classification")) == rows


@quick
@given(rows=pair_rows)
def test_pairs_written_as_tsv_are_read_back(tmp_path: Path, rows: list[PairRow]) -> None:
    path = tmp_path / "a.tsv"
    records = [[row.label, row.premise, row.hypothesis] for row in rows]
    path.write_bytes(as_table(["Label", "Premise", "Hypothesis"], records, "\t"))

    assert list(read_rows(path, "text-pair")) == rows


def test_whole_number_labels_become_strings(write) -> None:
    path = write("a.jsonl", '{"text": "fine", "label": 1}\n')

    assert list(read_rows(path, "text-classification")) == [TextRow("fine", "1")]


def test_votes_of_raters_are_kept(write) -> None:
    path = write("a.jsonl", '{"text": "fine", "label": "pos", "label_counts": {"pos": 4, "neg": 1}}\n')

    (row,) = read_rows(path, "text-classification")

    assert row.label_counts == {"pos": 4, "neg": 1}


def test_unknown_keys_and_blank_lines_are_ignored(write) -> None:
    path = write("a.jsonl", '\n{"text": "fine", "label": "pos", "id": [7]}\r\n\n')

    assert list(read_rows(path, "text-classification")) == [TextRow("fine", "pos")]


def test_a_line_separator_inside_a_text_does_not_end_the_line(write) -> None:
    path = write("a.jsonl", '{"text": "one\u2028two\x85three", "label": "pos"}\n')

    (row,) = read_rows(path, "text-classification")

    assert row.text == "one\u2028two\x85three"


def test_unlabeled_rows_have_no_label_even_where_the_file_has(write) -> None:
    path = write("a.jsonl", '{"text": "fine"}\n{"text": "poor", "label": null}\n{"text": "so so", "label": "pos"}\n')

    rows = list(read_rows(path, "text-classification", labeled=False))

    assert rows == [TextRow("fine"), TextRow("poor"), TextRow("so so")]


def test_a_txt_file_has_one_text_a_line(write) -> None:
    path = write("a.txt", 'مرحبا 🙂\r\nsaid "so", he\n')

    assert list(read_rows(path, "text-classification", labeled=False)) == [
        TextRow("مرحبا 🙂"),
        TextRow('said "so", he'),
    ]


def test_a_txt_file_has_one_sentence_a_line_for_tagging(write) -> None:
    path = write("a.txt", "Ada wrote\nto  Charles .\n")

    rows = list(read_rows(path, "token-classification", labeled=False))

    assert rows == [
        TaggedRow(("Ada", "wrote"), raw_text="Ada wrote"),
        TaggedRow(("to", "Charles", "."), raw_text="to  Charles ."),
    ]


def test_columns_in_a_txt_file_without_labels_are_noticed(write) -> None:
    path = write("a.txt", "-DOCSTART- -X- O O\n\nAda NNP I-NP B-PER\n")

    with pytest.raises(InvalidInputError, match=r"line 1: .*looks like CoNLL columns.*rename it to \.conll"):
        list(read_rows(path, "token-classification", labeled=False))


def test_a_blank_line_in_a_txt_file_is_an_empty_text(write) -> None:
    path = write("a.txt", "fine\n\npoor\n")

    with pytest.raises(InvalidInputError, match=r"a\.txt, line 2: a line must not be empty"):
        list(read_rows(path, "text-classification", labeled=False))


@pytest.mark.parametrize(
    ("task", "labeled", "words"),
    [("text-classification", True, "cannot hold labels"), ("text-pair", False, "cannot hold pairs of texts")],
)
def test_a_txt_file_holds_single_texts_only(write, task, labeled: bool, words: str) -> None:
    path = write("a.txt", "fine\n")

    with pytest.raises(InvalidInputError, match=words):
        read_rows(path, task, labeled=labeled)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "fine", "label": "pos"', r"must be one JSON object \(.* at column 32\), got '\{\"text\""),
        ("[1, 2]", r"must be a JSON object, got '\[1, 2\]'"),
        ('"fine"', "must be a JSON object"),
        ("9" * 5000, "must be one JSON object"),
        ("[" * 100_000, "must be one JSON object"),
        ('{"label": "pos"}', r"the key 'text' is missing, got \['label'\]"),
        ('{"text": null, "label": "pos"}', "text must not be null"),
        ('{"text": 5, "label": "pos"}', "text must be a string, got 5"),
        ('{"text": " \\n", "label": "pos"}', "text must not be empty"),
        ('{"text": "a\\u0000b", "label": "pos"}', "text must not hold NUL characters"),
        ('{"text": "a\\ud800b", "label": "pos"}', "text must be valid Unicode"),
        ('{"text": "fine"}', r"the key 'label' is missing, got \['text'\]"),
        ('{"text": "fine", "label": true}', "label must be a string or a whole number, got True"),
        ('{"text": "fine", "label": 0.5}', "label must be a string or a whole number, got 0.5"),
        ('{"text": "fine", "label": ""}', "label must not be empty"),
        ('{"text": "fine", "label": "pos", "label_counts": {"pos": -1}}', "label_counts must give a whole number"),
        ('{"text": "fine", "label": "pos", "label_counts": {"pos": 0}}', "label_counts must hold at least one vote"),
    ],
)
def test_a_bad_line_names_file_line_rule_value_and_way_out(write, line: str, words: str) -> None:
    path = write("a.jsonl", '{"text": "fine", "label": "pos"}\n\n' + line + "\n")

    with pytest.raises(InvalidInputError, match=rf"a\.jsonl, line 3: .*{words}.*: ."):
        list(read_rows(path, "text-classification"))


def test_the_value_in_a_message_is_shortened(write) -> None:
    path = write("a.jsonl", "x" * 1_000_000)

    with pytest.raises(InvalidInputError) as caught:
        list(read_rows(path, "text-classification"))

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("key", ["premise", "hypothesis"])
def test_a_pair_needs_both_texts(write, key: str) -> None:
    record = {"premise": "a", "hypothesis": "b", "label": "neutral"}
    path = write("a.jsonl", json.dumps(record | {key: ""}))

    with pytest.raises(InvalidInputError, match=f"line 1: {key} must not be empty"):
        list(read_rows(path, "text-pair"))


@pytest.mark.parametrize("argument", ["task", "scheme"])
def test_an_unknown_choice_is_an_error(argument: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{argument} must be one of .*got 'nonsense'"):
        read_rows("a.jsonl", **({"task": "text-pair"} | {argument: "nonsense"}))
