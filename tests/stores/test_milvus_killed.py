"""A real Milvus that is killed, stopped and started again while a store writes to it and servers answer from it."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engines import MILVUS_VENV, Milvus
from knn_ue.errors import StoreUnreachableError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import MilvusStore
from pipelines import TEXT, fit
from serving_process import serving
from tiny_models import ROWS, one_thread, tiny_model

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
    server = Milvus(Path(os.environ[MILVUS_VENV]), tmp_path_factory.mktemp("milvus"))
    server.open_namespace()
    try:
        yield server.start()
    finally:
        server.stop()


def rows(start, n_rows=BATCH):
    return np.random.default_rng(start).normal(size=(n_rows, N_COLUMNS)).astype(np.float32)


def added(store, first):
    return store.add(rows(first), np.zeros(BATCH, dtype=int), ids=np.arange(first, first + BATCH)).tolist()


def present(store):
    return [number for part in store.rows() for number in part.ids.tolist()]


def test_nothing_acknowledged_is_lost_and_nothing_is_twice_after_a_kill(milvus):
    store = MilvusStore.build(f"{milvus.address}/killed?timeout=4", rows(0), np.zeros(BATCH, dtype=int), index="flat")
    sent, acknowledged = list(range(BATCH)), list(range(BATCH))
    killer = threading.Timer(1.5, lambda: milvus.send(signal.SIGKILL))
    killer.start()
    with pytest.raises(StoreUnreachableError, match="of the next 20 some may be"):
        for first in range(BATCH, 100_000, BATCH):
            sent += range(first, first + BATCH)
            acknowledged += added(store, first)
    killer.join()

    milvus.start()
    reopened = wait_for(lambda: MilvusStore.open(f"{milvus.address}/killed?timeout=20"))
    found = wait_for(lambda: present(reopened))

    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= set(sent)

    added(reopened, sent[-BATCH])

    assert sorted(present(reopened)) == sorted(set(acknowledged) | set(sent[-BATCH:]))


def test_a_stopped_server_is_a_sentence_at_the_deadline_and_a_503(milvus, tiny_model, tmp_path):
    address = f"{milvus.address}/stopped"
    wait_for(lambda: fit(tiny_model("bert", TEXT), TEXT, store=f"{address}?timeout=2").save(tmp_path / "ue"))
    question = {"inputs": ROWS[TEXT](1)[0]["text"]}
    with serving(tmp_path / "ue", "--device", "cpu") as server:
        assert server.post("/predict", question)[0] == 200
        milvus.send(signal.SIGSTOP)
        try:
            began = time.monotonic()
            status, problem = server.post("/predict", question)
            seconds = time.monotonic() - began
            ready = server.ask("GET", "/ready")
        finally:
            milvus.send(signal.SIGCONT)
        assert (status, problem["code"]) == (503, "store_unreachable") and address in problem["error"]
        assert seconds < 30 and ready[0] == 503
        wait_for(lambda: answers(server, question))
        assert server.ask("GET", "/ready")[0] == 200


def test_two_servers_on_one_store_share_what_is_added(milvus, tiny_model, tmp_path):
    address = f"{milvus.address}/shared?consistency=strong&timeout=20"
    wait_for(lambda: fit(tiny_model("bert", TEXT), TEXT, store=address).save(tmp_path / "one"))
    UncertaintyPipeline.load(tmp_path / "one", device="cpu").save(tmp_path / "two")
    new = {"text": "a film that nobody else has seen at all", "label": "pos"}

    with serving(tmp_path / "one", "--device", "cpu") as one, serving(tmp_path / "two", "--device", "cpu") as two:
        status, added_rows = one.post("/examples", {"examples": [new]})
        assert status == 201
        _, found = two.post("/predict", {"inputs": new["text"], "top": 1})
        assert found["answers"][0]["neighbors"][0]["id"] == added_rows["ids"][0][0]

        assert two.ask("DELETE", f"/examples/{added_rows['ids'][0][0]}")[0] == 200
        _, found = one.post("/predict", {"inputs": new["text"], "top": 1})
        assert found["answers"][0]["neighbors"][0]["id"] != added_rows["ids"][0][0]


def answers(server, question):
    status, found = server.post("/predict", question)
    assert status == 200, found


def wait_for(work, seconds=120):
    """Return the result of `work` once it works: a server that was just started loads its collections for a while."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (StoreUnreachableError, OSError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
