"""Files of columns, and tagged sentences in JSON lines."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn_ue.data import TaggedRow, read_rows
from knn_ue.errors import InvalidInputError

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
token = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\r\n"), min_size=1, max_size=8).filter(
    lambda word: word.strip() and word != "-DOCSTART-"
)
sentence = st.lists(st.tuples(token, st.sampled_from(["O", "B-PER", "B-WORK-OF-ART"])), min_size=1, max_size=6)
rows = st.lists(sentence.map(lambda words: TaggedRow(*zip(*words, strict=True))), min_size=1, max_size=4)


def as_columns(rows: list[TaggedRow], separator: str) -> bytes:
    blocks = [
        "".join(f"{token}{separator}NN{separator}{tag}\n" for token, tag in zip(row.tokens, row.tags, strict=True))
        for row in rows
    ]
    return "\n".join(blocks).encode()


@quick
@given(rows=rows, separator=st.sampled_from(["\t", " ", "  "]))
def test_sentences_written_as_columns_are_read_back(tmp_path: Path, rows: list[TaggedRow], separator: str) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"# a comment\n" + as_columns(rows, separator))

    assert list(read_rows(path, "token-classification")) == rows


@quick
@given(rows=rows)
def test_sentences_written_as_json_lines_are_read_back(tmp_path: Path, rows: list[TaggedRow]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"tokens": row.tokens, "tags": row.tags}) + "\n" for row in rows))

    assert list(read_rows(path, "token-classification")) == rows


def test_documents_comments_and_blank_lines_are_no_tokens(write) -> None:
    path = write("a.txt", "-DOCSTART- -X- O O\n\n# id = 1\nAda NNP I-NP B-PER\n \t\n\n-DOCSTART- -X- O O\n# NN O O\n")

    assert list(read_rows(path, "token-classification")) == [TaggedRow(("Ada",), ("B-PER",)), TaggedRow(("#",), ("O",))]


def test_hash_tokens_are_tokens(write) -> None:
    path = write("a.tsv", "#\tO\n#nyc\tB-LOC\n")

    assert list(read_rows(path, "token-classification")) == [TaggedRow(("#", "#nyc"), ("O", "B-LOC"))]


def test_a_hash_token_without_a_tag_is_not_taken_for_a_comment(write) -> None:
    path = write("a.conll", "# text = we are\nwe PRP\n# NN\n1 CD\n")

    rows = list(read_rows(path, "token-classification", labeled=False))

    assert rows == [TaggedRow(("we", "#", "1"))]


def test_a_hash_token_with_a_misspelled_tag_is_an_error_not_a_comment(write) -> None:
    path = write("a.conll", "we O\n# B_PER\n")

    with pytest.raises(InvalidInputError, match="line 2: the last column must be a tag"):
        list(read_rows(path, "token-classification"))


def test_a_token_between_tabs_may_hold_a_space(write) -> None:
    path = write("a.conll.gz", "1 000\tO\r\nkm\u00a0h\tO\r\n")

    assert list(read_rows(path, "token-classification")) == [TaggedRow(("1 000", "km\u00a0h"), ("O", "O"))]


def test_tags_are_not_looked_at_without_labels(write) -> None:
    path = write("a.conll", "Ada nonsense\nwrote I-PER\n")

    rows = list(read_rows(path, "token-classification", labeled=False))

    assert rows == [TaggedRow(("Ada", "wrote"))]


def test_one_column_is_enough_without_labels(write) -> None:
    path = write("a.conll", "Ada\nwrote\n\n#nyc\n")

    rows = list(read_rows(path, "token-classification", labeled=False))

    assert rows == [TaggedRow(("Ada", "wrote")), TaggedRow(("#nyc",))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("wrote", "a line must hold a token and its tag, got 'wrote'"),
        ("#nyc", "a line must hold a token and its tag, got '#nyc'"),
        ("wrote VBD", "the last column must be a tag such as O, B-PER or I-PER, got 'VBD'"),
        ("wrote B-", "the last column must be a tag"),
        ("wrote VBD O", "as many columns as the first \\(2\\), this one has 3"),
        ("\tO", "a token must not be empty"),
        ("wrote I-PER", "an entity begins with I here \\(IOB1\\) but with B elsewhere"),
    ],
)
def test_a_bad_column_line_is_an_error_at_its_line(write, line: str, words: str) -> None:
    path = write("a.conll", f"Ada B-PER\n\nhas O\n{line}\n")

    with pytest.raises(InvalidInputError, match=rf"a\.conll, line 4: .*{words}.*: ."):
        list(read_rows(path, "token-classification"))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens do not go with 1 tags"),
        ({"tokens": [], "tags": []}, "tokens must not be empty"),
        ({"tokens": ["a", ""], "tags": ["O", "O"]}, "token 2 must not be empty"),
        ({"tokens": "a b", "tags": ["O", "O"]}, "tokens must be a list of strings, got 'a b'"),
        ({"tokens": ["a", 1], "tags": ["O", "O"]}, "tokens must be a list of strings, got 1"),
        ({"tokens": ["a"], "tags": [3]}, "tags must be a list of strings, got 3"),
        ({"tokens": ["a"], "tags": ["NN"]}, "a tag must be O, B-TYPE, I-TYPE .*got 'NN'"),
        ({"tokens": ["a"]}, "the key 'tags' is missing"),
    ],
)
def test_a_bad_tagged_record_is_an_error_at_its_line(write, record: dict[str, object], words: str) -> None:
    path = write("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n' + json.dumps(record))

    with pytest.raises(InvalidInputError, match=rf"a\.jsonl, line 2: .*{words}"):
        list(read_rows(path, "token-classification"))


def test_a_pipe_needs_the_scheme_to_be_stated(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.conll")

    with pytest.raises(InvalidInputError, match=r"can be read only once.*state the scheme"):
        read_rows(tmp_path / "a.conll", "token-classification")
