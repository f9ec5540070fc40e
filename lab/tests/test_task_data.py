"""Rows: drawn the same everywhere, and made to fit what the model knows."""

from dataclasses import replace

import pytest

from knn_ue.data import TaggedRow, TextRow
from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.setups import folder_setups
from knn_ue_lab.reproduce.task_data import TaskData, draw, fit_labels
from tiny_data import tiny_scale, write_data, write_rows


def task_data(folder, **changes):
    return TaskData(folder_setups(folder)[0], replace(tiny_scale(), **changes))


def test_a_draw_is_the_same_each_time_and_a_longer_one_begins_with_it():
    rows = [TextRow(str(number), "pos") for number in range(50)]

    assert draw(rows, 10) == draw(rows, 10) == draw(rows, 30)[:10]
    assert draw(rows, 10) != rows[:10]
    assert sorted(draw(rows, None), key=lambda row: int(row.text)) == rows


def test_texts_with_labels_the_model_does_not_know_are_left_out_and_counted(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    rows = [{"text": "so so", "label": "mixed"}, {"text": "a great film", "label": "pos"}]
    write_rows(tmp_path / "sentiment" / "odd" / "test.jsonl", rows)

    found = task_data(tmp_path).sets["odd"]

    assert [row.text for row in found.rows] == ["a great film"]
    assert (found.n_dropped, found.n_rows_read, found.role) == (1, 2, "out")


def test_texts_that_the_model_was_trained_on_are_counted(tmp_path):
    data = write_data(tmp_path, tasks=("sentiment",))
    known = (data / "sentiment" / "home" / "train.jsonl").read_text().splitlines()[:3]
    with (data / "sentiment" / "away" / "test.jsonl").open("a") as file:
        file.write("\n".join(known) + "\n")

    sets = task_data(data).sets

    assert (sets["away"].n_trained_on, sets["home"].n_trained_on) == (3, 0)


def test_a_set_of_unknown_labels_only_is_there_to_be_told_apart(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "odd" / "test.jsonl", [{"text": "so so", "label": "mixed"}])

    found = task_data(tmp_path).sets["odd"]

    assert (found.role, found.labeled, len(found.rows)) == ("outside", False, 1)


def test_entities_of_unknown_types_become_o_and_types_a_set_never_uses_are_ignored():
    rows, unused = fit_labels([TaggedRow(("a", "b", "c"), ("B-LOC", "B-GPE", "I-GPE"))], frozenset({"LOC", "PER"}))

    assert rows[0].tags == ("B-LOC", "O", "O")
    assert unused == {"PER"}


def test_a_validation_split_of_other_labels_is_told(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "home" / "val.jsonl", [{"text": "fine", "label": "green"}] * 9)

    rule = r"has 0 rows with a label of the training rows \(it has green; they have neg, pos\): at least 2 are needed"
    with pytest.raises(InvalidInputError, match=rule):
        _ = task_data(tmp_path).stopping


def test_different_validation_rows_stop_the_training_and_fit_the_method(data):
    found = task_data(data)

    assert len(found.stopping) == len(found.fitting) == 20
    assert not {row.text for row in found.stopping} & {row.text for row in found.fitting}


def test_at_the_papers_scale_the_same_rows_do_both_as_in_the_paper(data):
    found = task_data(data, shared_validation=True)

    assert found.stopping == found.fitting


def test_keys_change_with_the_rows_and_not_with_their_place(data, tmp_path):
    write_data(tmp_path)
    here, there = task_data(data), task_data(tmp_path)

    assert (here.train_key, here.scores_key) == (there.train_key, there.scores_key)

    write_rows(tmp_path / "sentiment" / "away" / "test.jsonl", [{"text": "a great film", "label": "pos"}])
    changed = task_data(tmp_path)
    assert changed.train_key == here.train_key
    assert changed.scores_key != here.scores_key
