"""The command, as people run it: listed, run, killed and resumed, at both scales."""

import json
import os
import random
import time

import pytest
from typer.testing import CliRunner

from knn_ue.cli import app
from knn_ue_lab.reproduce.recheck import largest_difference
from tiny_data import write_data
from torture.processes import kill, start, start_command, wait


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def cells_of(folder):
    return {path.name: json.loads(path.read_text()) for path in folder.rglob("*.json") if "compared" not in path.name}


def test_the_list_shows_every_table_with_its_cells(data, encoder, tmp_path):
    shown = invoke("list", "--data", data, "--encoder", encoder, "--out", tmp_path)

    assert shown.exit_code == 0
    for name in ("sentiment", "detection", "top-k-ner", "recomputed", "toy", "human"):
        assert name in shown.output


def test_one_task_may_have_an_encoder_of_its_own(data, encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a folder called cased may lie where tests are started
    arguments = ("list", "--scale", "reference", "--data", data, "--out", tmp_path, "--encoder", encoder)

    shown = invoke(*arguments, "--encoder", f"ner={tmp_path}")

    assert shown.exit_code == 0, shown.output
    assert invoke(*arguments[:-2], "--encoder", f"nli={tmp_path}").exit_code == 1  # cased, which ner needs, is not here


def test_a_table_needs_only_the_encoders_of_its_own_tasks(data, encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("--scale", "reference", "--data", data, "--out", tmp_path, "--report-only")
    others = [word for task in ("sentiment", "nli", "intent") for word in ("--encoder", f"{task}={encoder}")]

    shown = invoke("sentiment", *arguments, *others)

    assert shown.exit_code == 0, shown.output
    assert "fetch_cased.py --out cased" in invoke("ner", *arguments, *others).output


def test_the_outcomes_of_the_claims_are_told_and_tables_without_claims_are_not(data, encoder, tmp_path):
    arguments = ("--data", data, "--encoder", encoder, "--out", tmp_path, "--report-only")

    shown = invoke("nli", "human", *arguments)

    assert "nli, 24 claims: 0 hold, 0 do not hold, 0 are undecided, 24 cannot be tested here" in shown.stderr
    assert "0 claims" not in shown.stderr
    assert "human, " not in shown.stderr


def test_the_folder_of_the_page_is_made(tmp_path):
    page = tmp_path / "new" / "page.md"

    assert invoke("toy", "--out", tmp_path, "--page", page).exit_code == 0
    assert "121.57" in page.read_text()


def test_the_toy_table_needs_no_model_and_no_data(tmp_path):
    shown = invoke("toy", "--out", tmp_path)

    assert shown.exit_code == 0
    assert "121.57" in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "there is no table 'nonsense'"),
        (["list", "all"], "list stands alone"),
        (["all", "--scale", "huge"], "scale must be one of"),
        (["all", "--in-domain", "x"], "--in-domain takes TASK=NAME"),
        (["all", "--data", "nowhere"], "the data folder nowhere does not exist"),
        (["all", "--in-domain", "ner=x"], "name it with --data"),
        (["all", "--ontonotes", "x"], "--ontonotes goes with the paper's own sets"),
        (["toy", "--fresh", "--report-only"], "--fresh, --report-only ask for different things"),
        (
            ["weights", "--scale", "base"],
            "sentiment at this scale reads its encoder from the folder mpnet: make it with",
        ),
        (["all", "--encoder", "tags=x"], "the task of --encoder must be one of 'sentiment', 'nli', 'ner', 'intent'"),
        (["toy", "--recheck", "2"], "there is no measured cell to check"),
    ],
)
def test_bad_requests_get_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    shown = invoke(*arguments, "--out", tmp_path / "out")

    assert shown.exit_code == 1
    assert sentence in shown.output


@pytest.mark.slow
def test_the_papers_scale_runs_end_to_end_on_a_tiny_model_and_tiny_files(tiny_model, tmp_path):
    data = write_data(tmp_path / "data", tasks=("nli",))
    deberta = tiny_model("deberta-v2", "text-classification")

    arguments = ("--scale", "paper", "--seeds", 1, "--data", data, "--encoder", deberta, "--out", tmp_path)
    process = start_command(tmp_path / "log", "reproduce", "nli", "brier", "time-k", *arguments, "--draws", 20)
    code = wait(process, 400)

    output = (tmp_path / "log").read_text()
    assert code == 0, output
    assert "3 tables" in output, output
    cells = cells_of(tmp_path / "cells")
    assert {name.split(".seed")[0] for name in cells} >= {"sngp", "posterior", "mdsn", "dac", "knn-ue", "mc-dropout"}
    assert len([name for name in cells if name.startswith("model-label-smoothing")]) == 5
    text = (tmp_path / "results.md").read_text()
    assert "batch 32, learning rate 1e-05" in text


def count_cells(folder):
    """Count the cells of a run that is still writing: its files come and go, so none is opened."""
    names = [name for _, _, files in os.walk(folder / "cells") for name in files]
    return len([name for name in names if name.endswith(".json") and "compared" not in name])


def kill_once(process, reached, chance):
    """Kill a process as soon as it has come so far, or a random moment later."""
    while process.is_alive() and not reached():
        time.sleep(0.005)
    time.sleep(chance)
    return kill(process)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_and_resumed_has_the_same_cells(data, encoder, tmp_path):
    arguments = ("reproduce", "weights", "--seeds", 2, "--data", data, "--encoder", encoder, "--draws", 20)
    chance = random.Random(20)
    wait(start(int), 600)  # the process that others are forked from has loaded everything

    began = time.monotonic()
    whole = start_command(tmp_path / "log", *arguments, "--out", tmp_path / "whole")
    assert wait(whole, 900) == 0, (tmp_path / "log").read_text()
    took = time.monotonic() - began
    expected = cells_of(tmp_path / "whole" / "cells")
    killed = tmp_path / "killed"
    # Each run goes further than the one before, and the last still has a third of the work to do when it is killed.
    moments = [
        lambda: any(killed.glob("*")),
        lambda: count_cells(killed) >= len(expected) // 3,
        lambda: count_cells(killed) >= 2 * len(expected) // 3,
    ]
    for reached in moments:
        process = start_command(tmp_path / "log", *arguments, "--out", killed)
        assert kill_once(process, reached, chance.uniform(0.0, 0.02) * took) == -9, (tmp_path / "log").read_text()
    assert 0 < count_cells(killed) < len(expected)
    resumed = start_command(tmp_path / "log", *arguments, "--out", killed)
    assert wait(resumed, 900) == 0, (tmp_path / "log").read_text()

    found = cells_of(killed / "cells")
    assert set(found) == set(expected)
    for name, content in expected.items():
        assert largest_difference(content, found[name]) == 0.0, name


def test_where_the_hub_cannot_be_reached_every_cell_says_so_and_the_results_are_written_all_the_same(tmp_path):
    shown = invoke("weights", "--scale", "paper", "--seeds", 1, "--out", tmp_path, "--encoder", tmp_path)

    assert shown.exit_code == 1
    assert "FAILED: hub:stanfordnlp/imdb:train cannot be loaded" in shown.output
    assert "cannot be tested here" in (tmp_path / "results.md").read_text()
