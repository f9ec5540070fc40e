"""One record per task, asked by both of its names."""

from typing import get_args

import pytest

from knn_ue.data import read_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task, task_name


def test_every_name_of_a_task_has_its_record():
    assert tuple(TASKS) == get_args(Task)


@pytest.mark.parametrize("record", TASKS.values(), ids=lambda record: record.cli_name)
def test_a_task_is_known_by_both_names(record):
    assert task_name(record.name) == task_name(record.cli_name) == record.name


def test_an_unknown_task_is_refused_with_those_there_are():
    with pytest.raises(InvalidInputError, match=r"'text-classification' \(text\), .*, got 'poetry'"):
        task_name("poetry")


def test_the_keys_of_a_row_include_its_label_only_where_it_is_labeled():
    record = TASKS["token-classification"]

    assert (record.keys(labeled=True), record.keys(labeled=False)) == (("tokens", "tags"), ("tokens",))


def test_files_are_read_by_either_name(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "fine", "label": "pos"}\n', encoding="utf-8")

    assert list(read_rows(path, "text")) == list(read_rows(path, "text-classification"))
