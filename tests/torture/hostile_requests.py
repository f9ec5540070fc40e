"""Hostile requests: whatever a client sends, it gets an answer below 500, or 503, in time; and the server lives on."""

import errno
import json
import random
import socket
import time
from typing import Any

from torture.forked_server import ForkedServer, forked_servers
from torture.mutations import HOSTILE
from torture.processes import start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_SECONDS = 40.0  # to be answered, on a busy machine
_CLOSED = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}  # before all was sent, as a server may where it refuses
_TEXTS = (
    "a film", "", " ", "\0", "\ud800", "a\udfffb", "\U0001f600" * 300, "<script>alert(1)</script>", "ü" * 5000,
    "\u202e", "\r\n\r\n", "a " * 9000, "{{7*7}}", "%s%n", "\ufeff", "../../etc/passwd",
)  # fmt: skip
_ADDRESSES = (
    "/predict", "/explain", "/examples", "/refit", "/reload", "/examples/1_1", "/examples/1.0", "/examples/-1",
    "/examples/99999999999999999999999", "/examples/%00", "/examples/١", "/examples/ 1", "/examples/0x1", "/info",
    "/drift", "/validation", "/metrics", "/health", "/ready", "/../../etc/passwd", "/page/../../../etc/passwd",
    "/page/%2e%2e/x", "/nothing", "/" + "a" * 5000, "//", "/predict?x=" + "a" * 3000,
)  # fmt: skip
_METHODS = ("POST", "POST", "POST", "GET", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "x")


def attack(plan: Plan) -> None:
    """Send hostile requests, and after every hundred of them ask an honest question."""
    rng = random.Random(plan.seed)
    path = plan.folder / "ue"
    assert wait(start(make_ue, path, TEXT, "knn-ue"), 300) == 0
    with forked_servers(path, plan.folder, 1, "--max-wait", 10) as (server,):
        expected = set(_honest(server))
        while not plan.tally.tried or plan.left > 0:
            for _ in range(100 if plan.seconds > 30 else 20):
                _send_one(server, rng, plan)
            if not server.running.is_alive():
                plan.tally.blame("crashed", f"the server ended with {server.running.exitcode}")
                return
            if set(_honest(server)) != expected:
                plan.tally.blame("wrong", "an honest question gets no honest answer")


def _honest(server: ForkedServer) -> Any:
    status, answer = server.post("/predict", {"inputs": "the film was great"}, timeout=_SECONDS)
    assert status == 200, answer
    return answer["answers"][0]  # its keys and no numbers: examples were added meanwhile


def _send_one(server: ForkedServer, rng: random.Random, plan: Plan) -> None:
    request, described = _request(rng)
    began = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=_SECONDS) as connection:
            connection.sendall(request)
            if rng.random() < 0.05:
                return  # a client that hangs up
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
    except OSError as error:
        if error.errno in _CLOSED:
            return
        plan.tally.blame("wrong", f"{described}: {error!r} after {time.monotonic() - began:.0f} s")
        return
    finally:
        plan.tally.tried += 1
    status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
    if status >= 500 and status != 503:
        plan.tally.blame("wrong", f"{described}: status {status}")
    if b"root:" in answer or b"Traceback" in answer:
        plan.tally.blame("wrong", f"{described}: an answer shows what it must not")


def _request(rng: random.Random) -> tuple[bytes, str]:
    """Return a request, mostly HTTP and mostly JSON, and words for it."""
    method = rng.choice(_METHODS)
    address = rng.choice(_ADDRESSES[:3] if rng.random() < 0.7 else _ADDRESSES)
    body = _body(rng)
    if rng.random() < 0.1:
        place = rng.randrange(len(body) + 1)
        body = body[:place] + rng.randbytes(rng.randrange(1, 30)) + body[place:]
    length = rng.choice([len(body)] * 12 + [0, -1, 10**12, "x", len(body) + 50, max(0, len(body) - 3)])
    headers = ["Host: 127.0.0.1", f"Content-Length: {length}", "Connection: close"]
    headers.append(
        rng.choice(["Content-Type: application/json"] * 8 + ["Content-Type: text/plain", "X: " + "a" * 9000])
    )
    if rng.random() < 0.05:
        headers.append(rng.choice(["Transfer-Encoding: chunked", "Host: evil.example", "Content-Encoding: gzip"]))
    head = "\r\n".join([f"{method} {address} HTTP/1.1", *headers, "", ""]).encode("utf-8", "replace")
    return head + body, f"{method} {address[:60]} length {length} {body[:80]!r}"


def _body(rng: random.Random) -> bytes:
    text: Any = rng.choice(_TEXTS) if rng.random() < 0.8 else rng.choice(HOSTILE)
    row: Any = {"text": text, "label": rng.choice(["pos", "neg", "x", None, 3])}
    document: Any = rng.choice([
        {"inputs": text}, {"inputs": [text] * rng.choice([0, 1, 3, 129])}, {"inputs": {"text": text}},
        {"examples": [row]},
        {"inputs": text, "top": rng.choice(HOSTILE)}, {"inputs": text, "abstain_below": rng.choice(HOSTILE)},
        {"examples": [row] * rng.choice([2, 200])}, rng.choice(HOSTILE), {}, {"inputs": [[text, text]]},
    ])  # fmt: skip
    if rng.random() < 0.03:
        return b"[" * 100_000
    return json.dumps(document).encode()
