"""A real Milvus that is stopped while a server answers from it."""

import os
import signal
import time
from pathlib import Path

import pytest

from engines import MILVUS_VENV, Milvus
from knn_ue.errors import StoreUnreachableError
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


@pytest.fixture(scope="module")
def milvus(tmp_path_factory):
    server = Milvus(Path(os.environ[MILVUS_VENV]), tmp_path_factory.mktemp("milvus")).open_network()
    try:
        yield server.start()
    finally:
        server.stop()


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
