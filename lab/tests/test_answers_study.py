"""The study of given answers, on a tiny task that is made up here."""

import gzip
import json

import numpy as np
import pytest

from knn_ue_lab.reproduce import answers_study
from knn_ue_lab.reproduce.answers_study import measures, read_cells, read_task, run
from knn_ue_lab.reproduce.answers_study_page import mean_over_tasks, page, value

TOPICS = ("refund", "delivery", "praise")


def answered(row):
    label = TOPICS[row % 3]
    wrong = TOPICS[(row + 1) % 3] if row % 5 == 0 else label
    answer = "I don't know" if row % 11 == 0 else wrong
    answers = {"weak": {"answer": answer, "confidence": 0.9}, "strong": {"answer": label if row % 17 else wrong}}
    return {"text": f"{label} please, number {row}", "label": label, "answers": answers}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    lines = "\n".join(json.dumps(answered(row)) for row in range(90))
    (folder / "topics.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers_study, "SIZES", (50, 60))
        patch.setattr(answers_study, "N_DRAWS", 2)
        for _ in range(2):
            run(folder, folder / "cells", folder, ["instant"], said.append)
        cells = read_cells(folder, folder / "cells", "instant")
    return folder, cells, said


def test_each_model_has_a_cell_with_every_size_method_and_draw(measured):
    _, cells, _ = measured

    assert sorted(cell["model"] for cell in cells) == ["strong", "weak"]
    assert {len(draws) for cell in cells for methods in cell["scores"].values() for draws in methods.values()} == {2}


def test_a_cell_that_is_there_is_not_measured_again(measured):
    assert measured[2] == ["instant: topics, 2 models"]


def test_own_scores_are_compared_where_there_are_some(measured):
    by_model = {cell["model"]: set(cell["scores"]["50"]) for cell in measured[1]}

    assert by_model["weak"] - by_model["strong"] == {"platt", "verifier+own"}


def test_an_answer_outside_the_list_is_kept_and_wrong(measured):
    task = read_task(measured[0] / "topics.jsonl.gz")

    assert task.answers["weak"].count("I don't know") == 9
    assert list(task.class_names) == sorted(TOPICS)


def test_the_measures_are_in_the_units_of_the_page():
    found = measures(np.array([0.9, 0.6]), np.array([True, False]))

    assert found == pytest.approx([96.6, 100.0, 18.5, 35.0], abs=0.05)


def test_the_mean_is_over_tasks_not_over_models():
    cells = [{"task": "a", "x": 1.0}, {"task": "a", "x": 3.0}, {"task": "b", "x": 10.0}]

    assert mean_over_tasks(cells, lambda cell: cell["x"]) == 6.0


def test_the_page_begins_with_three_sentences_and_has_a_table_per_task(measured):
    text = page({"instant": measured[1]})

    assert [line[:2] for line in text.splitlines()[2:5]] == ["1.", "2.", "3."]
    assert "### topics" in text and "| strong | " in text


def test_the_page_has_the_means_of_the_cells(measured):
    text = page({"instant": measured[1]})

    shown = [mean_over_tasks(measured[1], lambda cell, s=size: value(cell, s, "verifier", 3)) for size in ("50", "60")]
    assert f"{shown[0]:.1f} / {shown[1]:.1f}" in text


def test_a_page_without_cells_says_so():
    assert "Nothing was measured yet" in page({"instant": []})
