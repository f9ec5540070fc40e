"""Batch work on a real Ray cluster of two nodes; nodes, workers and drivers are killed while it runs."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cli_files import ENV, run, start, write_rows
from engines import MILVUS, RAY, end_node, processes_with, ray_folder, ray_node
from knn_ue.distributed import build_store, predict_files
from knn_ue.distributed.cluster import WorkerLostError, cluster, run_parts
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import MilvusStore
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
N_ROWS, PART_ROWS = 360, 6
N_PARTS = N_ROWS // PART_ROWS


@pytest.fixture(scope="module", autouse=True)
def connection():
    """One connection for all tests here: each would take seconds."""
    with cluster(os.environ[RAY], None):
        yield


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
    """The bytes of every part of a run of one worker in which nothing dies, by the part's name."""
    done = predict_files(ue, [rows], ue.parent / "undisturbed", workers=1, part_rows=PART_ROWS, device="cpu")
    assert done.n_rows == N_ROWS
    return bytes_of(ue.parent / "undisturbed")


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name.startswith("part-")}


def worker_at(work):
    """Return a process that does this work, once there is one."""
    end = time.monotonic() + 60
    while not (found := processes_with(f"ray::{work}")):
        assert time.monotonic() < end, "no worker works"
    return found[:1]


def kill(pids):
    assert pids
    for pid in pids:
        subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)


def test_the_answers_are_those_of_the_plain_command(ue, rows, undisturbed):
    pipe = UncertaintyPipeline.load(ue, device="cpu")

    answers = [json.loads(line) for part in undisturbed.values() for line in part.splitlines()]

    plain = [answer.to_dict() for answer in pipe.predict_stream(str(rows))]
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in plain]
    assert [answer["score"] for answer in answers] == pytest.approx([answer["score"] for answer in plain], rel=1e-4)
    assert [answer["text"] for answer in answers] == [row["text"] for row in ROWS[TEXT](N_ROWS, start=300)]


def test_done_counts_and_hashes_what_is_there(ue, undisturbed):
    done = json.loads((ue.parent / "undisturbed" / "done.json").read_text())

    assert done["rows"] == N_ROWS and len(done["parts"]) == N_PARTS
    assert [part["sha256"] for part in done["parts"]] == [hashlib.sha256(x).hexdigest() for x in undisturbed.values()]


def test_a_killed_driver_is_resumed_to_the_same_bytes(ue, rows, undisturbed, tmp_path):
    output = tmp_path / "out"
    options = ["--engine", "ray", "--address", os.environ[RAY], "--part-rows", PART_ROWS, "--device", "cpu"]
    with start("predict", ue, "--input", rows, "--output", output, *options) as driver:
        end = time.monotonic() + 600
        while len(list(output.glob("part-*"))) < 3:
            assert driver.poll() is None, driver.stderr.read()
            assert time.monotonic() < end, "no parts appeared"
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
    n_before = len(list(output.glob("part-*")))
    assert n_before < N_PARTS and not (output / "done.json").exists()

    done = predict_files(ue, [rows], output, workers=1, part_rows=PART_ROWS, device="cpu", resume=True)

    assert done.n_resumed >= n_before and bytes_of(output) == undisturbed


def test_the_bytes_are_the_same_where_a_worker_and_then_a_node_are_killed(ue, rows, undisturbed, tmp_path):
    folder, killed = ray_folder(), []

    def progress(_name, n_done, _all):
        if not killed:
            kill(worker_at("_answer"))
            killed.append("worker")
        elif killed == ["worker"] and n_done > N_ROWS // 6:
            kill(processes_with(str(folder)))
            killed.append("node")

    try:
        ray_node("127.0.0.7", folder, head=os.environ[RAY])
        done = predict_files(
            ue, [rows], tmp_path / "out", workers=3, part_rows=PART_ROWS, device="cpu", progress=progress
        )
    finally:
        end_node(folder)

    assert killed == ["worker", "node"] and done.n_rows == N_ROWS
    assert bytes_of(tmp_path / "out") == undisturbed


def test_a_part_whose_workers_always_die_ends_the_run_in_one_sentence():
    def ended(part):  # in here, so that a worker need not import this file
        os._exit(part)

    with pytest.raises(WorkerLostError, match=r"4 workers died at the same part \(.*\): continue with resume"):
        list(run_parts(ended, [(0, 1)], 1))


def environment_of(process):
    try:
        return Path(f"/proc/{process}/environ").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def test_a_local_cluster_is_started_and_ended_by_the_command(ue, tmp_path):
    rows = write_rows(tmp_path / "few.jsonl", ROWS[TEXT](30))
    options = ["--engine", "ray", "--workers", "1", "--part-rows", "10", "--json"]
    arguments = ["predict", str(ue), "--input", str(rows), "--output", str(tmp_path / "out"), *options]
    mark = secrets.token_hex(8)  # other tests start nodes of their own at the same time

    def nodes():
        return [process for process in processes_with("raylet") if mark in environment_of(process)]

    command = [sys.executable, "-c", "from knn_ue.cli import app; app()", *arguments]
    environment = os.environ | ENV | {"KNN_UE_TEST_MARK": mark}
    seen, end = set(), time.monotonic() + 600
    with (
        (tmp_path / "stdout").open("w") as out,
        (tmp_path / "stderr").open("w") as err,
        subprocess.Popen(command, env=environment, stdout=out, stderr=err) as running,
    ):
        while running.poll() is None:
            seen.update(nodes())
            assert time.monotonic() < end, "the command has not ended"
            time.sleep(0.05)

    assert running.returncode == 0, (tmp_path / "stderr").read_text()
    found = json.loads((tmp_path / "stdout").read_text())
    assert (found["rows"], found["parts"]) == (30, 3)
    assert seen
    end = time.monotonic() + 60
    while left := nodes():
        assert time.monotonic() < end, f"the command has ended, its cluster has not: {left}"
        time.sleep(0.1)


def test_a_changed_folder_a_finished_run_and_a_bad_row_are_one_sentence(ue, rows, undisturbed, tmp_path):
    with pytest.raises(StorageError, match="already holds a run: continue it with resume"):
        predict_files(ue, [rows], ue.parent / "undisturbed", part_rows=PART_ROWS)
    with pytest.raises(InvalidInputError, match="an option has changed"):
        predict_files(ue, [rows], ue.parent / "undisturbed", part_rows=PART_ROWS, resume=True, top=1)
    bad = write_rows(tmp_path / "bad.jsonl", [*ROWS[TEXT](30), {"text": 7}])
    with pytest.raises(InvalidInputError, match=r"bad\.jsonl, line 31: "):
        predict_files(ue, [bad], tmp_path / "out", workers=1, part_rows=10)


def test_the_evaluate_command_gives_the_numbers_of_one_process(ue, tmp_path):
    rows = [row | ({"sample_weight": 3} if number % 3 else {}) for number, row in enumerate(ROWS[TEXT](90, start=500))]
    test = write_rows(tmp_path / "test.jsonl", rows)
    options = ["--engine", "ray", "--address", os.environ[RAY], "--workers", 1, "--part-rows", 25, "--device", "cpu"]

    result = run("evaluate", ue, "--test", test, *options, "--json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    expected = json.loads(run("evaluate", ue, "--test", test, "--device", "cpu", "--json").stdout)
    assert found["tables"]["test"]["weighted"]
    assert numbers_of(found) == pytest.approx(numbers_of(expected), rel=1e-3, abs=1e-3)


def numbers_of(plain, place=""):
    """Return the numbers of nested JSON by their place."""
    if isinstance(plain, dict | list):
        pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
        return {key: x for name, part in pairs for key, x in numbers_of(part, f"{place}/{name}").items()}
    return {place: plain} if isinstance(plain, int | float) and "seconds" not in place else {}


@pytest.mark.skipif(MILVUS not in os.environ, reason=f"no Milvus: tests/engines.py start FOLDER --milvus sets {MILVUS}")
def test_a_store_is_built_whole_and_once_although_a_worker_is_killed(tiny_model, tmp_path):
    model, address = tiny_model("bert", TEXT), f"milvus://{os.environ[MILVUS]}/ray_{secrets.token_hex(4)}"
    labeled = ROWS[TEXT](120)
    files = [write_rows(tmp_path / f"{name}.jsonl", part) for name, part in (("a", labeled[:70]), ("b", labeled[70:]))]
    killed = []

    def progress(name, _done, _all):
        if name == "stored" and not killed:
            killed.extend(worker_at("_store"))
            kill(killed)

    store = build_store(
        model, files, address, task=TEXT, index="flat", workers=2, part_rows=10, device="cpu", progress=progress
    )
    try:
        expected = UncertaintyPipeline.from_pretrained(model, TEXT, device="cpu").outputs(labeled)
        (found,) = store.rows()
    finally:
        MilvusStore.drop(address)

    assert killed
    assert found.ids.tolist() == list(range(120))
    assert list(found.texts) == [row["text"] for row in labeled]
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.vectors, expected.features, rtol=1e-4, atol=1e-5)
