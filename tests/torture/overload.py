"""Ten times as many requests as a server can answer: each gets an answer or 503 in time, and memory stays flat."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field

from torture.forked_server import ForkedServer, forked_servers
from torture.processes import start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_TIMES = 10
_SECONDS = 60.0
_REQUESTS = 20_000
_INPUTS = 16  # per request
_MAX_WAIT = 2.0
_MARGIN = 20.0
_GROWTH = 96 << 20  # bytes of memory that may come after the first quarter
_OPEN = 400  # requests of ours at once: below the limits of the server and of this process


@dataclass
class _Seen:
    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


def attack(plan: Plan) -> None:
    """Measure what the server can do, then ask ten times as much of it."""
    path = plan.folder / "ue"
    assert wait(start(make_ue, path, TEXT, "knn-ue"), 300) == 0
    scale = min(1.0, plan.seconds / _SECONDS)
    with forked_servers(path, plan.folder, 1, "--max-queue", 256, "--max-wait", _MAX_WAIT) as (server,):
        before = server.post("/predict", {"inputs": "the film was great"})
        capacity = asyncio.run(_capacity(server, min(5.0, 1 + plan.seconds / 10)))
        seen = asyncio.run(_flood(server, _TIMES * capacity, scale * _SECONDS, int(scale * _REQUESTS)))
        plan.tally.tried += sum(seen.statuses.values())
        if not server.running.is_alive():
            plan.tally.blame("crashed", f"the server ended with {server.running.exitcode}")
            return
        for fault in seen.faults:
            plan.tally.blame("wrong", fault)
        if seen.slowest > _MAX_WAIT + _MARGIN:
            plan.tally.blame("wrong", f"a request took {seen.slowest:.1f} s, though --max-wait is {_MAX_WAIT:g} s")
        first = max(seen.memory[: max(1, len(seen.memory) // 4)])
        growth = max(0, max(seen.memory) - first)
        if growth > _GROWTH:
            plan.tally.blame("wrong", f"memory grew from {first >> 20} to {max(seen.memory) >> 20} MiB")
        if server.post("/predict", {"inputs": "the film was great"}) != before:
            plan.tally.blame("wrong", "after the flood the same question gets another answer")
    answered, refused = seen.statuses[200], seen.statuses[503]
    plan.tally.note = (
        f"{capacity:.0f} requests of {_INPUTS} inputs per second answered alone; {answered:,} answered, {refused:,} "
        f"refused with 503, slowest {seen.slowest:.1f} s, memory {first >> 20} MiB and {growth >> 20} more"
    )


def _body() -> bytes:
    content = json.dumps({"inputs": ["the film was great indeed " * 8] * _INPUTS, "top": 1}).encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return head.encode() + b"\r\nConnection: close\r\n\r\n" + content


async def _ask(server: ForkedServer, seen: _Seen, body: bytes) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_MAX_WAIT + 3 * _MARGIN):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(body)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        seen.faults.append(f"a request broke after {time.monotonic() - began:.1f} s: {error!r}")
        return
    seen.slowest = max(seen.slowest, time.monotonic() - began)
    head = answer.partition(b"\r\n\r\n")[0].lower()
    status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
    seen.statuses[status] += 1
    if status not in (200, 503):
        seen.faults.append(f"status {status}: {answer[-200:]!r}")
    if status == 503 and b"retry-after:" not in head:
        seen.faults.append("503 without Retry-After")


async def _capacity(server: ForkedServer, seconds: float) -> float:
    """Return the requests per second that are answered where eight clients wait for their answers."""
    seen, body, end = _Seen(), _body(), time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < end:
            await _ask(server, seen, body)

    await asyncio.gather(*(client() for _ in range(8)))
    return max(1.0, seen.statuses[200] / seconds)


async def _flood(server: ForkedServer, rate: float, seconds: float, n_requests: int) -> _Seen:
    """Send `rate` requests per second for at least `seconds` and until `n_requests` were sent."""
    seen, body, running = _Seen(), _body(), set()
    began, n_sent = time.monotonic(), 0
    while server.running.is_alive() and (time.monotonic() - began < seconds or n_sent < n_requests):
        due = int((time.monotonic() - began) * rate) - n_sent
        for _ in range(min(max(0, due), _OPEN - len(running))):
            task = asyncio.create_task(_ask(server, seen, body))
            running.add(task)
            task.add_done_callback(running.discard)
            n_sent += 1
        seen.memory.append(server.memory())
        await asyncio.sleep(0.02)
    await asyncio.gather(*running)
    seen.memory.append(server.memory() if server.running.is_alive() else 0)
    return seen
