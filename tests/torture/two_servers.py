"""Two servers of one folder, clients that change it and repeat what was not answered, and kill -9 at random moments.

Together with four writers and one who takes backups: every copy opens and holds all that was acknowledged before.
"""

import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from knn_ue.pipeline.folder import OpenedFolder
from torture import ue_folder
from torture.forked_server import ForkedServer, forked_servers
from torture.ledger import Ledger
from torture.processes import kill, start, start_command, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_CLIENTS = 4
_WRITERS = 4
_FINE = {200, 201, 404, 503}  # 404: a writer removed it; 503: busy
_DOMAIN, _LABELS = "served", 10
_REPEATED = 100


class _Clients:
    """Threads that change a folder through whichever server answers."""

    def __init__(self, servers: list[ForkedServer], ledger: Ledger, plan: Plan, seed: int) -> None:
        self.servers = servers
        self._ledger = ledger
        self._plan = plan
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ids: list[int] = []
        self.n_acknowledged = self.n_labels = self.n_repeated = 0
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(seed + number),), daemon=True)
            for number in range(_CLIENTS)
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
            self._add(rng, rng.choice([1, 1, 3]), {})
        elif action < 0.6:
            self._add(rng, _LABELS, {"labels_of": _DOMAIN, "random_sample": True})
        elif action < 0.8:
            self._remove(rng)
        elif action < 0.95:
            self._checked(server.ask_or_break("POST", "/predict", {"inputs": "a film", "top": 3}))
        else:
            self._checked(server.ask_or_break("POST", "/refit"))

    def _add(self, rng: random.Random, n_rows: int, labels: dict[str, Any]) -> None:
        texts = [f"the film was {rng.random():.17f}" for _ in range(n_rows)]
        rows = [{"text": text, "label": rng.choice(["pos", "neg"])} for text in texts]
        status, said = self._repeated(rng, "POST", "/examples", {"examples": rows} | labels)
        if status != 201:
            self._blame(f"examples were refused: {status} {said!r:.200}")
            return
        ids = [number for example in said["ids"] for number in example]
        self._ledger.added(ids, texts)
        with self._lock:
            self._ids += ids
            self.n_acknowledged += len(texts)
            self.n_labels += len(texts) if labels else 0

    def _remove(self, rng: random.Random) -> None:
        with self._lock:
            if len(self._ids) < 20:
                return
            number = self._ids.pop(rng.randrange(len(self._ids)))
        self._ledger.removing([number])
        if self._repeated(rng, "DELETE", f"/examples/{number}")[0] == 200:
            self._ledger.removed([number])

    def _repeated(self, rng: random.Random, method: str, address: str, body: Any = None) -> tuple[int, Any]:
        """Ask whichever server answers, again and again with the same key: it is done once."""
        key = f"{rng.getrandbits(64):x}"
        for n_times in range(_REPEATED):
            done = self._checked(
                rng.choice(self.servers).ask_or_break(method, address, body, **{"Idempotency-Key": key})
            )
            if done is not None and done[0] != 503:
                with self._lock:
                    self.n_repeated += n_times > 0
                return done
            time.sleep(0.05)
        raise RuntimeError(f"{method} {address} was never answered")

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
    _storm(plan, n_writers=0)


def together(plan: Plan) -> None:
    """Kill and restart servers and writers in turn while clients go on and backups are taken."""
    _storm(plan, n_writers=_WRITERS)


def _storm(plan: Plan, *, n_writers: int) -> None:
    rng = random.Random(plan.seed)
    path, ledger = plan.folder / "ue", Ledger(plan.folder / "ledger")
    assert wait(start(make_ue, path, TEXT, "knn-ue"), 300) == 0
    n_acknowledged = n_labels = n_repeated = n_copies = 0
    with forked_servers(path, plan.folder, 2) as servers:
        while not plan.tally.tried or plan.left > 0:
            clients = _Clients(servers, ledger, plan, rng.randrange(10**9))  # other texts and keys each time
            with _writers(path, ledger, n_writers, rng) as writers, _backups(path, ledger, plan, n_writers) as copies:
                try:
                    for _ in range(10):
                        if plan.tally.tried and plan.left <= 0:
                            break
                        time.sleep(rng.uniform(0.2, 1.2))
                        _kill_a_server(servers, rng, path, plan)
                        _kill_a_writer(writers, rng, path, ledger, plan)
                finally:
                    clients.stop()
            n_acknowledged, n_labels = n_acknowledged + clients.n_acknowledged, n_labels + clients.n_labels
            n_repeated, n_copies = n_repeated + clients.n_repeated, n_copies + len(copies)
            ue_folder.check(path, ledger, plan.tally, f"after {plan.tally.tried} kills", whole=True)
            if (found := _labels_in(path)) != n_labels:
                plan.tally.blame("lost" if found < n_labels else "wrong", f"{found} labels of {n_labels}")
    said = f"{n_acknowledged:,} rows acknowledged, {n_repeated:,} requests repeated"
    plan.tally.note = f"{said}, {n_copies:,} backups" if n_writers else said


def _kill_a_server(servers: list[ForkedServer], rng: random.Random, path: Path, plan: Plan) -> None:
    number = rng.randrange(len(servers))
    plan.tally.tried += 1
    code = servers[number].kill()
    if code != -9:
        plan.tally.blame("crashed", f"server {number} had ended by itself with {code}")
    servers[number] = ForkedServer(path, plan.folder / f"server{number}.log").wait()


def _kill_a_writer(writers: list[BaseProcess], rng: random.Random, path: Path, ledger: Ledger, plan: Plan) -> None:
    if not writers:
        return
    number = rng.randrange(len(writers))
    plan.tally.tried += 1
    code = kill(writers[number])
    if code != -9:
        plan.tally.blame("crashed", f"writer {number} had ended by itself with {code}")
    writers[number] = _writer(path, ledger, rng)


def _writer(path: Path, ledger: Ledger, rng: random.Random) -> BaseProcess:
    return start(ue_folder.write_for_ever, path, ledger.path, rng.randrange(10**9), False)


@contextmanager
def _writers(path: Path, ledger: Ledger, n_writers: int, rng: random.Random) -> Iterator[list[BaseProcess]]:
    """Let processes write while the block runs; the list may be changed, what is in it at the end ends."""
    writers = [_writer(path, ledger, rng) for _ in range(n_writers)]
    try:
        yield writers
    finally:
        for writer in writers:
            kill(writer)


@contextmanager
def _backups(path: Path, ledger: Ledger, plan: Plan, n_writers: int) -> Iterator[list[int]]:
    """Take one backup after the other while the block runs, and check each."""
    stop, taken = threading.Event(), list[int]()
    copy, log = plan.folder / "backup", plan.folder / "backup.log"

    def take_for_ever() -> None:
        while not stop.is_set():
            before = ledger.events()
            code = wait(start_command(log, "backup", path, copy), 120)
            place = f"backup {len(taken)} after {plan.tally.tried} kills"
            if code != 0:
                plan.tally.blame("wrong", f"{place} ended with {code}: {log.read_text()[-200:]!r}")
            else:
                ue_folder.check_copy(copy, before, ledger.events(), plan.tally, place)
                taken.append(1)
            shutil.rmtree(copy, ignore_errors=True)

    thread = threading.Thread(target=take_for_ever)
    if n_writers:
        thread.start()
    try:
        yield taken
    finally:
        stop.set()
        if n_writers:
            thread.join()


def _labels_in(path: Path) -> int:
    domain = OpenedFolder.open(path).fitted.domains.get(_DOMAIN)
    return 0 if domain is None else domain.adaptation.n_rows
