"""Batch work on a real Ray cluster of two nodes; nodes, workers and drivers are killed while it runs."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cli_files import ENV, run, start, write_rows
from engines import RAY, end_process, processes_with, ray_node
from knn_ue.distributed import evaluate_files, predict_files
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import TEXT, fit
from tiny_models import ROWS, one_thread, tiny_model

pytest.importorskip("torch")
pytest.importorskip("ray")

__all__ = ["one_thread", "tiny_model"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(RAY not in os.environ, reason=f"no Ray: python tests/engines.py start FOLDER sets {RAY}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
N_ROWS, PART_ROWS = 800, 20


@pytest.fixture(scope="module")
def ue(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray") / "ue"
    fit(tiny_model("bert", TEXT), TEXT, index="exact").save(folder)
    return folder


@pytest.fixture(scope="module")
def rows(ue):
    return write_rows(ue.parent / "rows.jsonl", ROWS[TEXT](N_ROWS, start=300))


@pytest.fixture(scope="module")
def undisturbed(ue, rows):
    """The bytes of every part of a run in which nothing dies, by the part's name."""
    done = predict_files(ue, [rows], ue.parent / "undisturbed", address=os.environ[RAY], part_rows=PART_ROWS)
    assert done.n_rows == N_ROWS
    return bytes_of(ue.parent / "undisturbed")


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name.startswith("part-")}


def command(ue, rows, output, *more):
    options = ["--engine", "ray", "--address", os.environ[RAY], "--part-rows", PART_ROWS, "--device", "cpu"]
    return ["predict", ue, "--input", rows, "--output", output, *options, *more]


def wait_for_parts(folder, n_parts, process):
    end = time.monotonic() + 120
    while len(list(folder.glob("part-*"))) < n_parts:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "no parts appeared"
        time.sleep(0.02)


def test_the_answers_are_those_of_the_plain_command(ue, rows, undisturbed):
    pipe = UncertaintyPipeline.load(ue, device="cpu")

    answers = [json.loads(line) for part in undisturbed.values() for line in part.splitlines()]

    plain = [answer.to_dict() for answer in pipe.predict_stream(str(rows))]
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in plain]
    assert [answer["score"] for answer in answers] == pytest.approx([answer["score"] for answer in plain], rel=1e-4)
    assert [answer["text"] for answer in answers] == [row["text"] for row in ROWS[TEXT](N_ROWS, start=300)]


def test_done_counts_and_hashes_what_is_there(ue, undisturbed):
    done = json.loads((ue.parent / "undisturbed" / "done.json").read_text())

    assert done["rows"] == N_ROWS and len(done["parts"]) == N_ROWS // PART_ROWS
    assert [part["sha256"] for part in done["parts"]] == [hashlib.sha256(x).hexdigest() for x in undisturbed.values()]


def test_a_killed_driver_is_resumed_to_the_same_bytes(ue, rows, undisturbed, tmp_path):
    output = tmp_path / "out"
    with start(*command(ue, rows, output)) as driver:
        wait_for_parts(output, 3, driver)
        driver.send_signal(signal.SIGKILL)
    n_before = len(list(output.glob("part-*")))
    assert n_before < N_ROWS // PART_ROWS and not (output / "done.json").exists()

    done = predict_files(ue, [rows], output, address=os.environ[RAY], part_rows=PART_ROWS, resume=True)

    assert done.n_resumed >= n_before and bytes_of(output) == undisturbed


@pytest.mark.parametrize("victim", ["worker", "node"])
def test_the_bytes_are_the_same_where_a_worker_or_node_is_killed(victim, ue, rows, undisturbed, tmp_path):
    output = tmp_path / "out"
    address, node = os.environ[RAY], []
    if victim == "node":
        _, node = ray_node("127.0.0.7", head=address)
    try:
        with start(*command(ue, rows, output, "--workers", 2 if victim == "worker" else 3)) as driver:
            wait_for_parts(output, 2, driver)
            victims = node if victim == "node" else processes_with("ray::_Predictor")[:1]
            assert victims
            for pid in [*victims, *(processes_with("ray::_Predictor")[-1:] if victim == "node" else [])]:
                subprocess.run(["kill", "-9", str(pid)], check=False)
            _, errors = driver.communicate(timeout=240)
    finally:
        for pid in node:
            end_process(pid)

    assert driver.returncode == 0, errors
    assert bytes_of(output) == undisturbed
    assert json.loads((output / "done.json").read_text())["rows"] == N_ROWS


def test_a_local_cluster_is_started_and_ended_by_the_command(ue, tmp_path):
    rows = write_rows(tmp_path / "few.jsonl", ROWS[TEXT](30))
    options = ["--engine", "ray", "--workers", "1", "--part-rows", "10", "--json"]
    arguments = ["predict", str(ue), "--input", str(rows), "--output", str(tmp_path / "out"), *options]

    done = subprocess.run(
        [sys.executable, "-c", "from knn_ue.cli import app; app()", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | ENV,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["parts"]) == (30, 3)


def test_a_changed_folder_a_finished_run_and_a_bad_row_are_one_sentence(ue, rows, undisturbed, tmp_path):
    address = os.environ[RAY]
    with pytest.raises(StorageError, match="already holds a run: continue it with resume"):
        predict_files(ue, [rows], ue.parent / "undisturbed", address=address, part_rows=PART_ROWS)
    with pytest.raises(InvalidInputError, match="an option has changed"):
        predict_files(ue, [rows], ue.parent / "undisturbed", address=address, part_rows=PART_ROWS, resume=True, top=1)
    bad = write_rows(tmp_path / "bad.jsonl", [*ROWS[TEXT](30), {"text": 7}])
    with pytest.raises(InvalidInputError, match=r"bad\.jsonl, line 31: "):
        predict_files(ue, [bad], tmp_path / "out", address=address, part_rows=10)


def test_evaluate_gives_the_numbers_of_one_process(ue, tmp_path):
    test = write_rows(tmp_path / "test.jsonl", ROWS[TEXT](90, start=500))

    found = evaluate_files(ue, [test], address=os.environ[RAY], part_rows=25, device="cpu")

    expected = UncertaintyPipeline.load(ue, device="cpu").evaluate(str(test))
    for name, scores in expected.tables["test"].scores.items():
        assert found.tables["test"].scores[name] == pytest.approx(scores, rel=1e-3, abs=1e-3)


def test_the_evaluate_command_runs_on_ray(ue, tmp_path):
    test = write_rows(tmp_path / "test.jsonl", ROWS[TEXT](60, start=500))

    result = run("evaluate", ue, "--test", test, "--engine", "ray", "--address", os.environ[RAY], "--json")

    assert result.exit_code == 0, result.output
