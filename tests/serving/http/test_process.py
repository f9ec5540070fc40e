"""A real server in a real process: loaded until it refuses, killed, fed garbage; and nothing is lost.

Most are forks of a process that has loaded everything; the last two start from nothing, as a user's do.
"""

import json
import os
import random
import resource
import signal
import socket
import threading
import time
from contextlib import ExitStack
from http.client import HTTPException

import pytest

from held import fitted_in, held
from knn_ue.pipeline import UncertaintyPipeline
from serving_process import Server
from serving_process import serving as serving_from_nothing
from torture.forked_server import serving

pytestmark = pytest.mark.slow
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def stored(path):
    """Return id -> (text, label name) of what is on disk."""
    pipe = UncertaintyPipeline.load(path, device="cpu")
    store = pipe.calibrator_.store
    ids = store.ids.tolist()
    labels = store.arrays()[1].tolist()
    return {
        number: (text, pipe.class_names[label])
        for number, text, label in zip(ids, store.texts_of(ids), labels, strict=True)
    }


class Writer(threading.Thread):
    """A client that adds and removes until its server is gone, and remembers what was acknowledged, and what not."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__()
        self.server, self.label = server, name
        self.added: dict[int, str] = {}
        self.removed: set[int] = set()
        self.unsure: set[int] = set()

    def run(self) -> None:
        for step in range(10_000):
            text = f"{self.label} step {step}"
            try:
                status, found = self.server.post("/examples", {"examples": [{"text": text, "label": "pos"}]})
                assert status == 201, found
                (number,) = found["ids"][0]
                self.added[number] = text
                if step % 3 == 2:
                    victim = random.choice(sorted(self.added.keys() - self.removed - self.unsure))
                    self.unsure.add(victim)
                    status, found = self.server.ask("DELETE", f"/examples/{victim}")
                    assert status == 200, found
                    self.unsure.discard(victim)
                    self.removed.add(victim)
            except (OSError, ValueError, HTTPException):  # no answer, or half of one: not acknowledged
                return


def check_nothing_lost(path, writers):
    found = stored(path)
    for writer in writers:
        for number, text in writer.added.items():
            if number in writer.removed:
                assert number not in found
            elif number not in writer.unsure:  # a removal that was never acknowledged may have happened or not
                assert found[number] == (text, "pos")


def test_every_line_that_a_server_without_a_terminal_prints_is_json(folder):
    with serving(folder()) as server:
        server.end()

        events = [json.loads(line)["event"] for line in server.lines]

    assert events == ["ready", "listening", "stopped"]


def test_kill_nine_at_random_moments_loses_nothing_that_was_acknowledged(folder):
    path = folder()
    writers = []
    chance = random.Random(7)
    for round_number in range(3):
        with serving(path) as server:
            now = [Writer(server, f"round {round_number} client {number}") for number in range(3)]
            for writer in now:
                writer.start()
            time.sleep(chance.uniform(0.2, 1.5))
            server.end(signal.SIGKILL)
            for writer in now:
                writer.join()
        writers += now
        check_nothing_lost(path, writers)
    assert sum(len(writer.added) for writer in writers) >= 8


def test_two_processes_on_one_folder_lose_nothing(folder):
    path = folder()
    with serving(path) as one, serving(path) as two:
        writers = [Writer(server, f"server {number}") for number, server in enumerate((one, two))]
        for writer in writers:
            writer.start()
        time.sleep(3)
        for server in (one, two):
            assert server.end(signal.SIGTERM) == 143
        for writer in writers:
            writer.join()

    check_nothing_lost(path, writers)
    assert all(len(writer.added) > 3 for writer in writers)


def test_a_loaded_server_refuses_with_a_time_to_come_again_and_stays_well(folder):
    body = {"inputs": [f"the film number {number} was great indeed" for number in range(16)]}
    statuses: list[int] = []
    healthy: list[float] = []

    with serving(folder(), "--max-items", 16, "--max-queue", 64, "--batch-items", 16) as server:

        def ask() -> None:
            for _ in range(8):
                status, found = server.post("/predict", body)
                statuses.append(status)
                assert len(found["answers"]) == 16 if status == 200 else found["code"] == "queue_full", found

        threads = [threading.Thread(target=ask) for _ in range(32)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            begun = time.monotonic()
            assert server.ask("GET", "/health")[0] == 200
            healthy.append(time.monotonic() - begun)
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        after = server.post("/predict", body)
        _, metrics = server.ask("GET", "/metrics")

    assert after[0] == 200 and set(statuses) == {200, 503} and len(statuses) == 256
    assert statuses.count(200) >= 16
    assert sorted(healthy)[len(healthy) // 2] < 2
    assert f'knn_ue_refused_total{{code="queue_full"}} {statuses.count(503)}.0' in metrics.decode()


def test_sigterm_finishes_what_was_begun(folder):
    results: list[tuple[int, int]] = []
    body = {"inputs": [f"the film number {number} was great indeed" for number in range(64)]}

    with serving(folder(), "--batch-items", 8) as server:

        def ask() -> None:
            status, found = server.post("/predict", body)
            results.append((status, len(found.get("answers", []))))

        for _ in range(50):  # a fast server may have answered all before it is asked how many wait
            results.clear()
            threads = [threading.Thread(target=ask) for _ in range(6)]
            for thread in threads:
                thread.start()
            queued = False
            while not queued and any(thread.is_alive() for thread in threads):
                queued = b"knn_ue_queue_items 0.0" not in server.ask("GET", "/metrics")[1]
            if queued:
                break
        assert queued, "no request was ever waiting"
        code = server.end(signal.SIGTERM)
        for thread in threads:
            thread.join()
        with pytest.raises(OSError):
            server.ask("GET", "/health", timeout=2)

    assert code == 143
    assert results == [(200, 64)] * 6
    assert json.loads(server.lines[-1])["event"] == "stopped"


def test_sigterm_ends_in_time_though_a_change_waits_for_another_process(folder):
    path = folder()
    row = {"examples": [{"text": "never acknowledged", "label": "pos"}]}
    told: list[tuple[int, dict[str, str]]] = []
    with serving(path, "--drain-seconds", 1) as server:
        with held(path):  # as a writer that hangs would
            thread = threading.Thread(target=lambda: told.append(server.post("/examples", row)))
            thread.start()
            time.sleep(1)
            begun = time.monotonic()
            code = server.end(signal.SIGTERM)
        thread.join()

    assert code == 143 and time.monotonic() - begun < 40
    assert json.loads(server.lines[-1])["event"] == "stopped_early"
    assert [(status, found["code"]) for status, found in told] == [(503, "stopping")]
    assert len(stored(path)) == 60


def test_too_many_connections_are_refused_in_words_and_files_stay_free(folder):
    with serving(folder()) as server, ExitStack() as stack:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (256, 256))  # 128 connections

        def connect():
            return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))

        idle = [connect() for _ in range(140)]
        assert server.ask("GET", "/health")[0] == 200
        client = connect()
        client.sendall(HEAD % 2 + b"{}")
        told = b"".join(iter(lambda: client.recv(10_000), b""))
        more = [connect() for _ in range(120)]
        assert more[-1].recv(1000) == b""  # not even told: the last files are for the folder
        for one in (*idle, *more):
            one.close()
        deadline = time.monotonic() + 300
        while server.post("/examples", {"examples": [{"text": "there is room", "label": "pos"}]})[0] != 201:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    assert told.startswith(b"HTTP/1.1 503") and b"\r\nretry-after: 1\r\n" in told.lower()
    assert b"too_many_connections" in told


def test_a_client_that_hangs_up_frees_its_place(folder):
    body = json.dumps({"inputs": [f"the film number {number} was great" for number in range(128)]}).encode()

    with serving(folder(), "--max-queue", 128, "--batch-items", 1) as server:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
                client.sendall(HEAD % len(body) + body)
                time.sleep(0.02)  # it is read, and waits
        deadline = time.monotonic() + 300
        while server.post("/predict", {"inputs": "a film"})[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        _, metrics = server.ask("GET", "/metrics")

    gone = [line for line in metrics.decode().splitlines() if line.startswith("knn_ue_cancelled_total")]
    assert float(gone[0].split()[1]) >= 1


def test_slow_and_broken_clients_hold_nobody_up(folder):
    with serving(folder()) as server:
        slow = []
        for content in (
            b"",
            b"GET /inf",
            HEAD % 100 + b"{",
        ):
            for _ in range(20):
                client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
                client.sendall(content)
                slow.append(client)
        for garbage in (b"\x16\x03\x01\x02", b"\0" * 500, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
                client.sendall(garbage)
        begun = time.monotonic()
        assert server.post("/predict", {"inputs": "a film"})[0] == 200
        assert time.monotonic() - begun < 30

        # Each of them is let go in the end: the first two kinds without a word, the third with one.
        words = [client.recv(1000) for client in slow]
        for client in slow:
            client.close()

    assert set(words[:40]) == {b""}
    assert all(word.startswith(b"HTTP/1.1 408") for word in words[40:])


def test_sighup_reads_the_folder_again(folder, tmp_path):
    from cli_files import run, write_rows

    path = folder()
    rows = write_rows(tmp_path / "new.jsonl", [{"text": "from the shell", "label": "neg"}])
    with serving(path) as server:
        assert run("index", "add", path, "--input", rows, "--device", "cpu").exit_code == 0
        os.kill(server.pid, signal.SIGHUP)
        deadline = time.monotonic() + 300
        while server.ask("GET", "/info")[1]["n_stored"] != 61:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_damaged_folder_is_refused_in_one_sentence(folder):
    path = folder()
    (fitted_in(path) / "arrays.safetensors").write_bytes(b"")

    with pytest.raises(RuntimeError) as refused, serving_from_nothing(path):
        pass

    lines = str(refused.value).strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("knn-ue: "), lines


def test_a_token_from_a_file_is_asked_for(folder, tmp_path):
    token = tmp_path / "token"
    token.write_text("correct-horse-battery-staple\n")

    with serving_from_nothing(folder(), "--token-file", token) as server:
        assert server.ask("GET", "/info")[0] == 401
        assert server.ask("GET", "/info", Authorization="Bearer correct-horse-battery-staple")[0] == 200
        assert server.end(signal.SIGINT) == 130
