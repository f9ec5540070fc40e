"""The demo of given answers tells the truth about recorded answers, and what it writes can be used at once."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli_files import read_lines, run
from knn_ue.demo import run_answers_demo
from knn_ue.demo.answers_demo import _LABELED, recorded_answers
from knn_ue.errors import StorageError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run_answers_demo(tmp_path_factory.mktemp("demo") / "out")


def test_what_it_says_of_the_model_is_counted_over_all_recorded_answers(made):
    rows = recorded_answers()
    right = np.mean([row["answer"] == row["label"] for row in rows])

    assert f"right {100 * right:.1f} % of the time" in made.sentences[0]
    assert 0.6 < right < 0.9


def test_what_is_let_through_is_right_as_often_as_it_says(made):
    new = recorded_answers()[_LABELED:]
    result = run("triage", made.ue, "--input", made.folder / "new.csv", "--output", made.folder / "queue.jsonl")
    truth = {row["text"]: row["label"] for row in new}

    through = [line for line in read_lines(made.folder / "queue.jsonl") if line["route"] == "through"]

    right = sum(line["answer"] == truth[line["text"]] for line in through)
    assert result.exit_code == 0
    assert f"{right} of these {len(through)} are right" in made.sentences[1]
    assert right / len(through) > 0.9 and len(through) > 0.3 * len(new)
    by_own = float(re.search(r"surest, ([\d.]+) %", made.sentences[2])[1])
    assert by_own < 100 * right / len(through)


def test_report_and_queue_begin_with_the_same_sentences_and_the_tables_can_be_fitted_again(made):
    report = json.loads((made.folder / "report.json").read_text(encoding="utf-8"))
    rows = list(csv.DictReader((made.folder / "answered.csv").read_text(encoding="utf-8").splitlines()))

    assert report["headline"]["lead"][: len(made.sentences)] == list(made.sentences)
    assert any(note.startswith("the verifier pays") for note in report["notes"])
    assert len(rows) == _LABELED and {"text", "label", "answer", "confidence"} == rows[0].keys()
    assert "label" not in (made.folder / "new.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "What a person sees first" in made.queue.read_text(encoding="utf-8")


def test_a_file_of_others_is_left_alone(tmp_path):
    (tmp_path / "answered.csv").write_text("mine")

    with pytest.raises(StorageError, match="that the demo did not write"):
        run_answers_demo(tmp_path)

    assert (tmp_path / "answered.csv").read_text() == "mine"


def test_the_shell_refuses_another_size_or_another_demo():
    assert "has no other size" in run("demo", "answers", "--quick").output
    assert "is not one of answers" in run("demo", "answer").output


def test_the_guide_shows_what_it_prints(made):
    page = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")

    assert "\n".join(made.sentences) in page


def test_a_confidence_that_is_always_the_same_ranks_nothing_in_tables_and_pictures_alike(made):
    report = json.loads((made.folder / "report.json").read_text(encoding="utf-8"))
    page = (made.folder / "report.html").read_text(encoding="utf-8")

    area = 1000 * report["tables"]["test"]["scores"]["raw"]["aurc"]
    assert f"raw {area:.2f} and verdict" in page
    assert f"raw  (AURC {area:.1f})" in page
