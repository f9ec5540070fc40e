"""The commands on a tagger fitted with knn-ue-entity: predict, explain, evaluate, report and index."""

import json

import pytest

from cli_files import TASKS, data_of, read_lines, run
from tiny_models import tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

__all__ = ["tiny_model"]


@pytest.fixture(scope="module")
def made(tiny_model, tmp_path_factory):
    """A UE folder and the file of test sentences; the model was never trained."""
    folder = tmp_path_factory.mktemp("entities")
    train, validation, test = data_of("ner", folder)
    model = tiny_model("bert", TASKS["ner"])
    options = ["--out", folder / "ue", "--task", "ner", "--neighbors", 8, "--method", "knn-ue-entity"]
    fitted = run("fit", model, "--train", train, "--validation", validation, *options)
    assert fitted.exit_code == 0, fitted.output
    return folder / "ue", test


def test_predict_writes_scores_of_entities_and_sentences_and_what_was_missed(made, tmp_path):
    ue, test = made

    result = run("predict", ue, "--input", test, "--output", tmp_path / "answers.jsonl")

    assert result.exit_code == 0, result.output
    answers = read_lines(tmp_path / "answers.jsonl")
    keys = {"tags", "words", "entities", "score", "none_missed", "missed", "familiarity", "unfamiliar"}
    assert all(answer.keys() == keys for answer in answers)
    assert any(entity["neighbors"] for answer in answers for entity in answer["entities"])


def test_explain_shows_entities_with_their_reasons(made):
    ue, _ = made

    shown = run("explain", ue, "Ada went to Oslo", "--top", 2)
    (sentence,) = json.loads(run("explain", ue, "Ada went to Oslo", "--top", 2, "--json").stdout)

    assert shown.stdout.startswith("Ada went to Oslo\n") and "\nall entities right and none missed: " in shown.stdout
    assert [len(entity["neighbors"]) for entity in sentence["entities"]] == [2] * len(sentence["entities"])
    assert all(entity["text"] in shown.stdout for entity in sentence["entities"])


@pytest.mark.slow
def test_evaluate_and_report_measure_sentences_beside_entities(made, tmp_path):
    ue, test = made

    result = run("evaluate", ue, "--test", test, "--report", tmp_path / "report", "--bootstrap", 10, "--json")

    assert result.exit_code == 0, result.output
    tables = json.loads(result.stdout)["tables"]
    assert {"test", "test/entities", "test/sentences"} <= tables.keys()
    assert tables["test/sentences"]["scores"].keys() == {"raw", "temperature", "knn-ue-entity"}
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Sentences: do those with an error have lower confidence?" in page


def test_tuning_the_index_fits_the_entities_again(made):
    ue, _ = made

    result = run("index", "tune", ue, "--dry-run", "--json")

    assert result.exit_code == 0, result.output
