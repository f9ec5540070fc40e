"""sample and adapt, and predict, evaluate and explain in a domain."""

import json

import pytest

from cli_files import TASKS, data_of, read_lines, run, write_rows
from tiny_models import ROWS, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")

__all__ = ["tiny_model"]


@pytest.fixture(scope="module")
def made(tiny_model, tmp_path_factory):
    """Return a UE folder that was adapted to "reviews", by the commands themselves, and the file of labels."""
    folder = tmp_path_factory.mktemp("adapt")
    train, validation, _ = data_of("text", folder)
    model, ue = tiny_model("bert", TASKS["text"]), folder / "ue"
    run("fit", model, "--train", train, "--validation", validation, "--out", ue, "--task", "text", "--neighbors", 8)
    # An untrained model says the same of all, so of evenly mixed labels half are wrong.
    labeled = write_rows(folder / "labeled.jsonl", ROWS[TASKS["text"]](30, start=300))
    result = run("adapt", ue, "--labeled", labeled, "--domain", "reviews", "--force", "--json")
    assert result.exit_code == 0, result.output
    return ue, labeled, json.loads(result.stdout)


def predict(ue, rows, tmp_path, *options):
    source = write_rows(tmp_path / "input.jsonl", rows)
    result = run("predict", ue, "--input", source, "--output", tmp_path / "out.jsonl", "--overwrite", *options)
    assert result.exit_code == 0, result.output
    return read_lines(tmp_path / "out.jsonl")


def test_adapt_reports_before_and_after_with_intervals(made):
    unit = made[2]["units"]["rows"]

    assert made[2]["domain"] == "reviews" and made[2]["applied"]
    assert unit["n"] == 30 and len(unit["nll_change"]) == 2 and unit["nll_before"] > 0


@pytest.mark.slow
def test_predict_gives_the_scores_of_the_domain_asked_for_and_of_each_row(made, tmp_path):
    plain = [{"text": "a great film"}]

    (general,) = predict(made[0], plain, tmp_path)
    (there,) = predict(made[0], plain, tmp_path, "--domain", "reviews")
    (own,) = predict(made[0], [plain[0] | {"domain": "reviews"}], tmp_path)

    assert "domain" not in general and there["domain"] == own["domain"] == "reviews"
    assert there["score"] == own["score"] != general["score"]


def test_evaluate_and_explain_take_a_domain(made):
    scores = [
        json.loads(run("evaluate", made[0], "--test", made[1], "--json", *domain).stdout)["tables"]["test"]["scores"]
        for domain in ([], ["--domain", "reviews"])
    ]
    explained = json.loads(run("explain", made[0], "a great film", "--domain", "reviews", "--json").stdout)

    assert scores[1]["knn-ue"]["nll"] != scores[0]["knn-ue"]["nll"]
    assert explained[0]["weight"] > 0


def test_an_unknown_domain_is_one_sentence(made, tmp_path):
    result = run("explain", made[0], "a text", "--domain", "tweets")

    assert result.exit_code == 1 and "which has general, reviews" in result.output


@pytest.mark.slow
def test_undo_forgets_the_domain(made, tmp_path):
    ue, labeled, _ = made
    run("adapt", ue, "--labeled", labeled, "--domain", "tweets", "--force")

    undone = run("adapt", ue, "--domain", "tweets", "--undo")
    again = run("adapt", ue, "--domain", "tweets", "--undo")

    assert undone.exit_code == 0 and "removed the domain tweets" in undone.output
    assert again.exit_code == 1 and "is not a domain" in again.output


@pytest.mark.slow
def test_rows_that_are_no_random_sample_change_nothing(made):
    result = run("adapt", made[0], "--labeled", made[1], "--domain", "corrections", "--not-random")

    assert result.exit_code == 0 and "not a random sample" in result.output
    assert run("explain", made[0], "a text", "--domain", "corrections").exit_code == 1


@pytest.mark.slow
def test_sample_writes_rows_whose_labels_wait_to_be_filled_in(made, tmp_path):
    ue, labeled, _ = made

    result = run(
        "sample", ue, "--input", labeled, "--n", 12, "--strategy", "stratified", "--output", tmp_path / "s.jsonl"
    )
    rows = read_lines(tmp_path / "s.jsonl")

    assert result.exit_code == 0 and len(rows) == 12
    assert all(row["label"] is None and row["sample_weight"] > 0 for row in rows)
    filled = write_rows(tmp_path / "filled.jsonl", [row | {"label": "pos"} for row in rows])
    assert run("adapt", ue, "--labeled", filled, "--domain", "filled").exit_code == 0


def test_sample_writes_tasks_for_label_studio(made, tmp_path):
    result = run(
        "sample", made[0], "--input", made[1], "--n", 5, "--format", "label-studio", "--output", tmp_path / "tasks.json"
    )
    tasks = json.loads((tmp_path / "tasks.json").read_text())

    assert len(tasks) == 5 and set(tasks[0]["data"]) == {"text", "sample_weight"}
    assert '<Choice value="pos"/>' in result.output


@pytest.mark.slow
def test_what_label_studio_exports_as_csv_can_be_adapted_to(made, tmp_path):
    exported = tmp_path / "project.csv"
    lines = [f'"film {number}",{number},pos,1.5' for number in range(12)]
    exported.write_text("\n".join(["text,id,label,sample_weight", *lines]) + "\n")

    result = run("adapt", made[0], "--labeled", exported, "--domain", "exported", "--json")

    assert result.exit_code == 0 and json.loads(result.stdout)["n_rows"] == 12


def test_sample_adapt_and_index_add_take_columns_of_other_names(made, tmp_path):
    rows = ROWS[TASKS["text"]](12, start=400)
    source = tmp_path / "odd.csv"
    source.write_text("Review Text,Mood?\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows))
    text, label = ("--text-column", "Review Text"), ("--label-column", "Mood?")

    refused = run("sample", made[0], "--input", source, "--output", tmp_path / "no.jsonl")
    drawn = run("sample", made[0], "--input", source, "--output", tmp_path / "to_label.jsonl", "--n", 5, *text)
    adapted = run("adapt", made[0], "--labeled", source, "--domain", "odd", *text, *label)
    added = run("index", "add", made[0], "--input", source, *text, *label)

    assert "--text-column NAME" in refused.stderr
    assert (drawn.exit_code, adapted.exit_code, added.exit_code) == (0, 0, 0)
    assert len(read_lines(tmp_path / "to_label.jsonl")) == 5
