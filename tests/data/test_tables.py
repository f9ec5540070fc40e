"""CSV and TSV files that people and programs really write."""

import pytest

from knn_ue.data import PairRow, TextRow, read_rows
from knn_ue.errors import InvalidInputError


def test_a_quoted_field_may_hold_commas_quotes_and_line_ends(write) -> None:
    path = write("a.csv", '\ufefftext,label\r\n"so, he said\n""fine""",pos\r\n')

    assert list(read_rows(path, "text-classification")) == [TextRow('so, he said\n"fine"', "pos")]


def test_column_order_case_and_extra_columns_do_not_matter(write) -> None:
    path = write("a.tsv.gz", "id\tLabel \tTEXT\n1\tpos\tfine, really\n")

    assert list(read_rows(path, "text-classification")) == [TextRow("fine, really", "pos")]


def test_the_label_column_may_be_missing_for_prediction(write) -> None:
    path = write("a.csv", "premise,hypothesis\na,b\n")

    assert list(read_rows(path, "text-pair", labeled=False)) == [PairRow("a", "b")]


def test_a_text_longer_than_the_csv_default_limit_is_read(write) -> None:
    path = write("a.csv", f"text,label\n{'word ' * 50_000},pos\n")

    (row,) = read_rows(path, "text-classification")

    assert len(row.text) == 250_000


@pytest.mark.parametrize(
    ("broken", "line", "words"),
    [
        ("poor\n", 5, "a record must have 2 fields as the header has, this one has 1, got 'poor'"),
        ("so, so,neg\n", 5, "a record must have 2 fields as the header has, this one has 3"),
        ('"poor,neg\nfine,pos\n', 5, r"the record that begins here is broken \(unexpected end of data\), got '\"poor"),
        ('"poor" film,neg\n', 5, "the record that begins here is broken .* a quote inside a quoted field twice"),
        ('"poor,neg\n"fine",pos\n', 5, "the record that begins here is broken"),
        ("poor\rfilm,neg\n", 5, "the record that begins here is broken"),
        (",neg\n", 5, "text must not be empty"),
        ("poor,\n", 5, "label must not be empty"),
        ("\n\npoor\n", 7, "a record must have 2 fields"),
    ],
)
def test_a_broken_record_is_an_error_at_its_first_line(write, broken: str, line: int, words: str) -> None:
    path = write("a.csv", 'text,label\n"two\nlines",pos\nfine,pos\n' + broken)

    with pytest.raises(InvalidInputError, match=rf"a\.csv, line {line}: {words}"):
        list(read_rows(path, "text-classification"))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "great film,1",
            "the header has no column text or label \\(columns are separated by commas\\), got 'great film,1'",
        ),
        (
            "review;label",
            "no column text \\(columns are separated by semicolons\\), got 'review;label': .* name them: text='review'",
        ),
        ("text,label,text", "the header must name text once"),
    ],
)
def test_a_wrong_header_is_an_error(write, header: str, words: str) -> None:
    path = write("a.csv", header + "\nfine,pos\n")

    with pytest.raises(InvalidInputError, match=rf"a\.csv, line 1: .*{words}"):
        list(read_rows(path, "text-classification"))


def test_a_header_alone_is_an_empty_file(write) -> None:
    path = write("a.csv", "text,label\n")

    with pytest.raises(InvalidInputError, match="is empty"):
        list(read_rows(path, "text-classification"))


def test_a_csv_file_of_tags_is_refused(write) -> None:
    path = write("a.csv", "tokens,tags\n")

    with pytest.raises(InvalidInputError, match=r"must end in one of .*\.conll.* got '\.csv'"):
        read_rows(path, "token-classification")


def test_votes_are_json_in_a_table_and_may_be_missing(write) -> None:
    lines = ["text,label,label_counts", 'fine,pos,"{""pos"": 2, ""neg"": 1}"', "dull,neg,"]
    path = write("a.csv", "\n".join(lines) + "\n")

    assert [row.label_counts for row in read_rows(path, "text-classification")] == [{"pos": 2, "neg": 1}, None]

    path = write("b.csv", "text,label,label_counts\nfine,pos,two of three\n")
    with pytest.raises(InvalidInputError, match="line 2: label_counts must give a whole number"):
        list(read_rows(path, "text-classification"))


def test_a_name_that_stands_twice_is_refused_where_a_column_would_be_lost(write) -> None:
    path = write("a.csv", "id,id,text,label\n1,2,fine,pos\n")

    assert list(read_rows(path, "text-classification")) == [TextRow("fine", "pos")]
    with pytest.raises(InvalidInputError, match="line 1: the header must name id once, got 'id,id,text,label'"):
        list(read_rows(path, "text-classification", extras=True))
