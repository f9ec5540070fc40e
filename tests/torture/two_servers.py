"""Two servers of one folder, clients that add and remove examples, and kill -9 at random moments."""

import random
import threading
import time
from typing import Any

from torture import ue_folder
from torture.forked_server import ForkedServer, forked_servers
from torture.ledger import Ledger
from torture.processes import start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_CLIENTS = 4
_FINE = {200, 201, 404, 503}  # 404: another client removed it; 503: busy


class _Clients:
    """Threads that change a folder through whichever server answers."""

    def __init__(self, servers: list[ForkedServer], ledger: Ledger, plan: Plan) -> None:
        self.servers = servers
        self._ledger = ledger
        self._plan = plan
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ids: list[int] = []
        self.n_acknowledged = 0
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(plan.seed + number),)) for number in range(_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every request end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, rng: random.Random) -> None:
        while not self._stop.is_set():
            server = rng.choice(self.servers)
            try:
                self._ask(server, rng)
            except Exception as error:
                self._blame(f"a request broke, though its server lives: {error!r:.200}")
                time.sleep(0.2)

    def _ask(self, server: ForkedServer, rng: random.Random) -> None:
        action = rng.random()
        if action < 0.55:
            texts = [f"the film was {rng.random():.17f}" for _ in range(rng.choice([1, 1, 3]))]
            rows = [{"text": text, "label": rng.choice(["pos", "neg"])} for text in texts]
            done = self._checked(server.ask_or_break("POST", "/examples", {"examples": rows}))
            if done is not None and done[0] == 201:
                ids = [number for example in done[1]["ids"] for number in example]
                self._ledger.added(ids, texts)
                with self._lock:
                    self._ids += ids
                    self.n_acknowledged += len(texts)
        elif action < 0.8:
            self._remove(server, rng)
        elif action < 0.95:
            self._checked(server.ask_or_break("POST", "/predict", {"inputs": "a film", "top": 3}))
        else:
            self._checked(server.ask_or_break("POST", "/refit"))

    def _remove(self, server: ForkedServer, rng: random.Random) -> None:
        with self._lock:
            if len(self._ids) < 20:
                return
            number = self._ids.pop(rng.randrange(len(self._ids)))
        self._ledger.removing([number])
        done = self._checked(server.ask_or_break("DELETE", f"/examples/{number}"))
        if done is not None and done[0] == 200:
            self._ledger.removed([number])

    def _checked(self, done: "tuple[int, Any] | None") -> "tuple[int, Any] | None":
        if done is not None and done[0] not in _FINE:
            self._blame(f"status {done[0]}: {done[1]!r:.200}")
        if done is None:
            time.sleep(0.02)
        return done

    def _blame(self, fault: str) -> None:
        with self._lock:
            self._plan.tally.blame("wrong", fault)


def attack(plan: Plan) -> None:
    """Kill and restart the servers in turn while clients go on."""
    rng = random.Random(plan.seed)
    path, ledger = plan.folder / "ue", Ledger(plan.folder / "ledger")
    assert wait(start(make_ue, path, TEXT, "knn-ue"), 300) == 0
    with forked_servers(path, plan.folder, 2) as servers:
        n_acknowledged = 0
        while not plan.tally.tried or plan.left > 0:
            clients = _Clients(servers, ledger, plan)
            for _ in range(10):
                if plan.tally.tried and plan.left <= 0:
                    break
                time.sleep(rng.uniform(0.2, 1.2))
                number = rng.randrange(2)
                plan.tally.tried += 1
                code = servers[number].kill()
                if code != -9:
                    plan.tally.blame("crashed", f"server {number} had ended by itself with {code}")
                servers[number] = ForkedServer(path, plan.folder / f"server{number}.log").wait()
            clients.stop()
            n_acknowledged += clients.n_acknowledged
            ue_folder.check(path, ledger, plan.tally, f"after {plan.tally.tried} kills", whole=True)
        plan.tally.note = f"{n_acknowledged:,} rows acknowledged"
        for server in servers:
            server.kill()
