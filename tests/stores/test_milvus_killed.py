"""A real Milvus that is killed while rows are added, stopped while a server answers, and shared by two servers."""

import http.client
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engines import MILVUS_VENV, Milvus
from knn_ue.errors import StorageError, StoreUnreachableError
from knn_ue.pipeline.folder import OpenedFolder
from knn_ue.stores import MilvusStore
from pipelines import TEXT, fit
from serving_process import Server
from tiny_models import one_thread, tiny_model

__all__ = ["one_thread", "tiny_model"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        MILVUS_VENV not in os.environ,
        reason=f"no Milvus to kill: python tests/engines.py start FOLDER --milvus VENV sets {MILVUS_VENV}",
    ),
]
N_COLUMNS, BATCH = 32, 20


@pytest.fixture(scope="module")
def milvus(tmp_path_factory):
    server = Milvus(Path(os.environ[MILVUS_VENV]), tmp_path_factory.mktemp("milvus")).open_network()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def servers(milvus, tiny_model, tmp_path_factory):
    """Two servers on one collection: the first searches with strong consistency, the second with that of a session."""
    folder, address = tmp_path_factory.mktemp("servers"), f"{milvus.address}/shared"
    pipe = wait_for(lambda: fit(tiny_model("bert", TEXT), TEXT, store=f"{address}?consistency=strong&timeout=4"))
    pipe.save(folder / "strong")
    pipe.save(folder / "session")
    opened = {"store": MilvusStore.open(f"{address}?timeout=4")}
    session = OpenedFolder.open(folder / "session")
    session.edit(lambda now: (replace(now, calibrator=now.calibrator.with_stores(opened)), None))
    with ExitStack() as stack:
        found = [Server(folder / name, "--device", "cpu") for name in ("strong", "session")]
        for server in found:
            stack.callback(server.process.stderr.close)
            stack.callback(server.end, signal.SIGKILL)
        yield [server.wait() for server in found]


def batch(number, n_rows=BATCH):
    features = np.random.default_rng(number).normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    return features, np.zeros(n_rows, dtype=int), [f"{number} {row}" for row in range(n_rows)]


def add(store, number):
    features, labels, texts = batch(number)
    store.add(features, labels, texts=texts)
    return texts


def stored_texts(store):
    return [text for part in store.rows() for text in part.texts]


def test_nothing_acknowledged_is_lost_and_nothing_is_twice_after_a_kill(milvus):
    features, labels, texts = batch(0)
    store = MilvusStore.build(f"{milvus.address}/killed?timeout=6", features, labels, texts=texts, index="flat")
    acknowledged = set(texts)
    killer = threading.Timer(1.5, lambda: milvus.send(signal.SIGKILL))
    killer.start()
    with pytest.raises(StoreUnreachableError, match=r"milvus://.*/killed does not answer .*; .*: check that Milvus"):
        for number in range(1, 10_000):
            acknowledged.update(add(store, number))
    killer.join()

    waiting = ThreadPoolExecutor().submit(store.patient().search, features, 1)
    milvus.start()
    found = wait_for(lambda: stored_texts(store))

    np.testing.assert_allclose(waiting.result(120).distances, 0, atol=1e-3)

    assert len(found) == len(set(found))
    assert acknowledged <= set(found) <= acknowledged | set(batch(number)[2])

    again = wait_for(lambda: add(store, number))

    assert sorted(stored_texts(store)) == sorted(acknowledged | set(again))


def test_what_one_server_stores_the_others_see_as_their_consistency_says(servers):
    strong, session = servers
    first, second = (f"nobody else has seen film {number}" for number in (1, 2))

    stored_first = added_by(strong, first)
    wait_for(lambda: assert_nearest(session, first, stored_first))
    stored_second = added_by(session, second)
    assert_nearest(session, second, stored_second)
    assert_nearest(strong, second, stored_second)

    assert session.ask("DELETE", f"/examples/{stored_second}")[0] == 200
    assert nearest(session, second) != stored_second and nearest(strong, second) != stored_second


def test_a_stopped_milvus_is_a_sentence_at_the_deadline_and_a_503_until_it_runs_again(milvus, servers):
    server, _ = servers
    question, example = {"inputs": "a film"}, {"examples": [{"text": "a film", "label": "pos"}]}
    assert server.post("/predict", question)[0] == 200

    milvus.send(signal.SIGSTOP)
    try:
        began = time.monotonic()
        status, problem = server.post("/predict", question)
        seconds = time.monotonic() - began
        refused = server.post("/examples", example)
        ready = server.ask("GET", "/ready")
        wait = retry_after(server)
    finally:
        milvus.resume()

    assert (status, problem["code"]) == (503, "store_unreachable") and 3 < seconds < 60
    assert milvus.address in problem["error"] and "\n" not in problem["error"] and "Traceback" not in problem["error"]
    assert refused[0] == ready[0] == 503 and wait >= 1
    wait_for(lambda: assert_answers(server, question))
    wait_for(lambda: assert_ready(server))


def added_by(server, text):
    status, found = server.post("/examples", {"examples": [{"text": text, "label": "pos"}]})
    assert status == 201, found
    return found["ids"][0][0]


def nearest(server, text):
    status, found = server.post("/predict", {"inputs": text, "top": 1})
    assert status == 200, found
    return found["answers"][0]["neighbors"][0]["id"]


def assert_nearest(server, text, number):
    assert nearest(server, text) == number


def assert_answers(server, question):
    assert server.post("/predict", question)[0] == 200


def assert_ready(server):
    assert server.ask("GET", "/ready")[0] == 200


def retry_after(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", "/predict", b'{"inputs": "a film"}', {"Content-Type": "application/json"})
        return int(connection.getresponse().headers["Retry-After"])
    finally:
        connection.close()


def wait_for(work, seconds=120):
    """Return the result of `work` once it works: a server that was just started loads its collections for a while."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (StoreUnreachableError, StorageError, OSError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
