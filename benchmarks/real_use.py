"""A server in real use: 64 clients predict, explain, correct, label, remove, adapt, refit and look.

    python benchmarks/real_use.py ue --texts texts.jsonl --minutes 60 --out benchmarks/real_use.json

`texts` has a text and a label in each line; `ue` is a UE folder for them, of which a copy is served. Clients think for
a third of a second on average between requests. Printed and written: memory, open files and threads of the server
every 15 seconds, the slope of its memory after the first 10,000 requests, latencies and statuses by kind, and `lost`:
how many examples the copy lacks of those that were acknowledged and not removed.
"""

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.folder import copy_folder
from serving import _environment, _port

CLIENTS, THINK_SECONDS, DOMAINS = 64, 0.35, 5
WARM = 10_000  # requests, after which memory should not grow
KINDS = {  # how many of 10,000 requests are of each kind
    "predict": 7000,
    "explain": 800,
    "correct": 800,
    "label": 200,
    "remove": 600,
    "adapt": 5,
    "refit": 5,
    "drift": 290,
    "reload": 100,
    "metrics": 200,
}


class Users:
    """What the clients know together."""

    def __init__(self, port: int, rows: list[dict[str, Any]], end: float) -> None:
        self.port, self.rows, self.end = port, rows, end
        self.lock = threading.Lock()
        self.ids: list[int] = []
        self.n_stored = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[str] = Counter()

    @property
    def n_requests(self) -> int:
        """How many requests were answered."""
        return sum(self.statuses.values())

    def use(self, number: int) -> None:
        """Ask until the time is over."""
        rng = random.Random(number)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        while time.time() < self.end:
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
            method, path, body = self.request(kind, rng)
            if path:
                headers = {"Content-Type": "application/json", "Idempotency-Key": f"{number}-{rng.getrandbits(64):x}"}
                begun = time.perf_counter()
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                answer = connection.getresponse()
                said = answer.read()
                self.note(kind, answer.status, time.perf_counter() - begun, said)
            time.sleep(rng.expovariate(1 / THINK_SECONDS))
        connection.close()

    def request(self, kind: str, rng: random.Random) -> tuple[str, str, Any]:
        """Return method, address and body; no address where there is nothing to remove."""
        row, domain = rng.choice(self.rows), f"domain {rng.randrange(DOMAINS)}"
        if kind in ("predict", "explain"):
            return "POST", f"/{kind}", {"inputs": row["text"], "top": rng.choice([0, 5])}
        if kind == "correct":
            return "POST", "/examples", {"examples": [row]}
        if kind == "label":
            return "POST", "/examples", {"examples": [row], "labels_of": domain, "random_sample": True}
        if kind == "adapt":
            return "POST", "/adapt", {"examples": rng.sample(self.rows, 20), "domain": domain}
        if kind == "remove":
            with self.lock:
                return "DELETE", f"/examples/{self.ids.pop()}" if self.ids else "", None
        return "GET" if kind in ("drift", "metrics") else "POST", f"/{kind}", None

    def note(self, kind: str, status: int, seconds: float, said: bytes) -> None:
        """Remember an answer."""
        with self.lock:
            self.seconds[kind].append(seconds)
            self.statuses[f"{kind} {status}"] += 1
            if status == 201:
                self.ids += json.loads(said)["ids"][0]
            self.n_stored += (status == 201) - (kind == "remove" and status == 200)


def main() -> None:
    """Serve a copy of a folder, use it, and write what was seen."""
    options = _options()
    lines = options.texts.read_text(encoding="utf-8").splitlines()
    rows = [{key: json.loads(line)[key] for key in ("text", "label")} for line in lines[:2000]]
    with tempfile.TemporaryDirectory() as place:
        copy_folder(options.ue, Path(place) / "ue")
        command = [sys.executable, "-c", "from knn_ue.cli import app; app()", "serve", f"{place}/ue", "--port", "0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_environment(1))
        try:
            found = watch(server.pid, Users(_port(server), rows, time.time() + 60 * options.minutes))
        finally:
            server.terminate()
            server.wait(60)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def watch(pid: int, users: Users) -> dict[str, Any]:
    """Let the clients work, and return what was seen of the server meanwhile."""
    before = _stored(users.port)
    threads = [threading.Thread(target=users.use, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    seen: list[tuple[int, float, int, int]] = []
    while time.time() < users.end:
        time.sleep(15)
        opened, tasks = (len(list(Path(f"/proc/{pid}/{name}").iterdir())) for name in ("fd", "task"))
        seen.append((users.n_requests, _megabytes(pid), opened, tasks))
        print("requests {}, memory {:.1f} MB, files {}, threads {}".format(*seen[-1]), flush=True)
    for thread in threads:
        thread.join()
    late = [(n, megabytes) for n, megabytes, *_ in seen if n >= WARM]
    slope = 10_000 * float(np.polyfit(*zip(*late, strict=True), 1)[0]) if len(late) > 2 else None
    found = {
        "requests": users.n_requests,
        "statuses": dict(sorted(users.statuses.items())),
        "MB per 10,000 requests, after the first 10,000": slope,
        "files": [min(row[2] for row in seen), max(row[2] for row in seen)],
        "lost": before + users.n_stored - _stored(users.port),
        "milliseconds": {
            kind: {f"p{level}": round(1000 * float(np.percentile(seconds, level)), 1) for level in (50, 99)}
            for kind, seconds in sorted(users.seconds.items())
        },
        "seen": seen,
    }
    print(json.dumps({key: value for key, value in found.items() if key != "seen"}, indent=1))
    return found


def _stored(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/info")
    n_stored: int = json.loads(connection.getresponse().read())["n_stored"]
    connection.close()
    return n_stored


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ue", type=Path, help="a UE folder for texts")
    parser.add_argument("--texts", type=Path, required=True, help="JSON lines with a text and a label each")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
