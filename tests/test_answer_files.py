"""Files of answers: nothing of the user beside them is touched, and every field of the input has a column."""

import pytest

from knn_ue.cli.answer_file import AnswerFile
from knn_ue.data import TextRow, read_rows
from knn_ue.errors import InvalidInputError, KnnUeError


def write(output, **fields):
    answers = AnswerFile(output)
    answers.check(resume=False, overwrite=False)
    with answers.open(resume=False) as file:
        answers.write(file, TextRow("a"), {"label": "pos", **fields})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_of_the_user_named_like_a_draft_stays(suffix, tmp_path):
    mine, precious = tmp_path / f"answers{suffix}.draft", tmp_path / "precious.txt"
    precious.write_text("my notes")
    mine.symlink_to(precious)

    write(tmp_path / f"answers{suffix}")

    assert mine.is_symlink()
    assert precious.read_text() == "my notes"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"answers{suffix}", mine.name, "precious.txt"]


def test_a_link_that_appears_in_the_place_of_unfinished_answers_is_not_followed(tmp_path):
    precious, answers = tmp_path / "precious.txt", AnswerFile(tmp_path / "answers.jsonl")
    precious.write_text("my notes")
    answers.check(resume=False, overwrite=False)
    answers.part.symlink_to(precious)

    with pytest.raises(KnnUeError, match="cannot be written"), answers.open(resume=False):
        pass

    assert precious.read_text() == "my notes"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_a_number_that_no_column_of_numbers_takes_is_written_as_text(number, tmp_path):
    import pyarrow.parquet as pq

    write(tmp_path / "answers.parquet", number=number)

    assert pq.read_table(tmp_path / "answers.parquet").to_pylist()[0]["number"] == str(number)


def test_the_largest_whole_numbers_of_a_column_stay_numbers(tmp_path):
    import pyarrow.parquet as pq

    write(tmp_path / "answers.parquet", number=2**63 - 1)

    assert pq.read_table(tmp_path / "answers.parquet").to_pylist()[0]["number"] == 2**63 - 1


def test_a_field_that_is_nested_without_end_is_refused_with_its_place(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"text": "b", "x": ' + "[" * 900 + "]" * 900 + "}\n")

    with pytest.raises(InvalidInputError, match=r"rows.jsonl, line 2: a field may hold .* 100 deep at most, got 'x'"):
        list(read_rows(tmp_path / "rows.jsonl", "text-classification", labeled=False, extras=True))
