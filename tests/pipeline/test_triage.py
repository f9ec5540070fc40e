"""What is let through, and what a person sees first: by hand, in Python and from the shell."""

import csv
import json

import numpy as np
import pytest

from cli_files import read_lines, run, write_rows
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.triage import Scores, triage
from knn_ue.toy import given_answers


def rows_of(outputs):
    names = outputs.class_names
    both = zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
    return [
        {"id": number, "text": text, "answer": names[answer], "label": names[label]}
        for number, (text, answer, label) in enumerate(both)
    ]


@pytest.fixture(scope="module")
def labeled():
    return rows_of(given_answers(n_labeled=400, seed=4)[0])


@pytest.fixture(scope="module")
def new():
    strange = {"text": "the committee resumed its budget talks", "answer": "food", "label": "travel"}
    return [*rows_of(given_answers(n_test=300, seed=5)[1]), {"id": 300, **strange}]


@pytest.fixture(scope="module")
def folder(labeled, tmp_path_factory):
    place = tmp_path_factory.mktemp("triage")
    UncertaintyPipeline.from_answers().fit(labeled, false_alarm_rate=0.01).save(place / "ue")
    return place


def scores_of(pipe, rows):
    scores = Scores()
    for answer in pipe([{key: row[key] for key in ("text", "answer")} for row in rows]):
        scores.add(answer)
    return scores


def test_the_row_that_is_wrong_most_probably_comes_first_and_expectations_are_met(folder, new):
    pipe = UncertaintyPipeline.load(folder / "ue")

    found = triage(scores_of(pipe, new), pipe.fitted_)

    wrong = np.array([row["answer"] != row["label"] for row in new])
    for_people = found.order[: len(new) - found.n_through]
    assert not found.through[for_people].any() and (np.diff(found.score[for_people]) >= 0).all()
    assert found.found_after(50) == pytest.approx(wrong[for_people[:50]].sum(), abs=8)
    assert 1 - wrong[found.through].mean() > 0.9
    assert "an estimate, no promise, of a precision of 95.0 %" in found.promise


def test_an_unfamiliar_input_goes_to_a_person_whatever_its_score(folder, new):
    pipe = UncertaintyPipeline.load(folder / "ue")

    found = triage(scores_of(pipe, new), pipe.fitted_, abstain_below=0.0)

    assert found.unfamiliar[300] and not found.through[300]
    assert found.why(300) == "unlike the inputs that scores were fitted on"
    assert found.n_through == int((~found.unfamiliar).sum())


def test_a_promise_that_was_found_is_kept_and_one_that_was_not_is_said(labeled, new):
    promised = UncertaintyPipeline.from_answers().fit(labeled, target_precision=0.9)
    with pytest.warns(match="cannot be promised"):
        beyond = UncertaintyPipeline.from_answers().fit(labeled, target_precision=0.999)

    kept, estimated = (triage(scores_of(pipe, new), pipe.fitted_) for pipe in (promised, beyond))

    assert kept.promise == promised.promises[0] and kept.least == promised.threshold_.threshold
    assert estimated.promise.startswith("an estimate, no promise") and "cannot be promised" in estimated.promise


def test_nothing_to_triage_is_refused(folder):
    with pytest.raises(InvalidInputError, match="nothing to triage"):
        triage(Scores(), UncertaintyPipeline.load(folder / "ue").fitted_)


@pytest.fixture(scope="module")
def unlabeled(folder, new):
    return write_rows(folder / "new.jsonl", [{key: row[key] for key in ("id", "text", "answer")} for row in new])


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_the_shell_writes_each_row_once_in_the_order_of_the_queue(folder, unlabeled, new, suffix):
    output = folder / f"queue{suffix}"

    result = run("triage", folder / "ue", "--input", unlabeled, "--output", output, "--json")

    summary = json.loads(result.stdout)
    lines = (
        read_lines(output)
        if suffix == ".jsonl"
        else list(csv.DictReader(output.read_text(encoding="utf-8").splitlines()))
    )
    assert sorted(int(line["id"]) for line in lines) == list(range(len(new)))
    assert [int(line["place"]) for line in lines] == list(range(1, len(new) + 1))
    routes = [line["route"] for line in lines]
    assert routes == ["person"] * summary["n_person"] + ["through"] * summary["n_through"]
    assert "already exists" in run("triage", folder / "ue", "--input", unlabeled, "--output", output).output


def test_the_page_shows_rows_as_text_and_says_what_is_let_through(folder, unlabeled):
    write_rows(folder / "hostile.jsonl", [{"text": "<script>alert(1)</script> soup", "answer": "<b>sport</b>"}] * 3)

    result = run("triage", folder / "ue", "--input", folder / "hostile.jsonl", "--output", folder / "queue.html")

    page = (folder / "queue.html").read_text(encoding="utf-8")
    assert result.exit_code == 0 and "are let through" in result.stdout
    assert "<script>" not in page and "&lt;b&gt;sport" in page and "What a person sees first" in page
    assert sorted(path.name for path in folder.glob(".queue*")) == []


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("--output", "queue.xlsx"), "a queue is written as .csv, .jsonl, .html"),
        (("--target-precision", "1"), "must lie strictly between 0 and 1, got 1.0"),
        (("--target-precision", "0.9", "--abstain-below", "0.5"), "pass one of them"),
        (("--output", "nowhere/queue.csv"), "no place for a file"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_model_is_loaded(folder, unlabeled, arguments, rule):
    assert rule in run("triage", folder / "ue", "--input", unlabeled, *arguments).output
