"""A process that forks while its threads write: its children write too with what they inherited, and delay nobody."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from knn_ue.stores import Datastore
from torture.ledger import Ledger
from torture.processes import kill, start, wait
from torture.tally import Plan

_SECONDS = 20  # for one add of a child
_LONGEST = 10.0  # between two adds of the parent, on a busy machine
_THREADS = 3
_ROUND = 5.0


def attack(plan: Plan) -> None:
    """Let processes fork, and kill each of them with its children still at work."""
    rng = random.Random(plan.seed)
    path, ledger = plan.folder / "store", Ledger(plan.folder / "ledger")
    Datastore.build(np.eye(4), [0, 1, 2, 3], texts=list("abcd")).save(path)
    while not plan.tally.tried or plan.left > 0:
        seed = rng.randrange(10**9)
        notes = plan.folder / "notes"
        notes.unlink(missing_ok=True)
        parent = start(fork_for_ever, path, ledger.path, notes, seed)
        wait(parent, min(_ROUND, max(2.0, plan.left)))
        if kill(parent) != -signal.SIGKILL:
            plan.tally.blame("crashed", f"a process that forks ended with {parent.exitcode}, seed {seed}")
        time.sleep(0.5)  # for its children
        for note in notes.read_text().splitlines() if notes.exists() else ["wrong nothing was forked"]:
            what, _, said = note.partition(" ")
            if what == "forked":
                plan.tally.tried += 1
            else:
                plan.tally.blame(what, f"{said}, seed {seed}")
        store = Datastore.load(path)
        ids = store.ids.tolist()
        ledger.check(dict(zip(ids, store.texts_of(ids), strict=True)), plan.tally, f"seed {seed}")


def fork_for_ever(path: Path, ledger_path: Path, notes: Path, seed: int) -> None:
    """Add examples in several threads and fork meanwhile, until killed."""
    rng, ledger, store = random.Random(seed), Ledger(ledger_path), Datastore.load(path)
    notes_file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    last = [time.monotonic()]

    def note(said: str) -> None:
        os.write(notes_file, f"{said}\n".encode())

    def add(name: str) -> None:
        text = f"{name} {time.monotonic_ns()}"
        ledger.added(store.add(np.ones((1, 4)), [1], texts=[text]).tolist(), [text])

    def add_for_ever(number: int) -> None:
        while True:
            add(f"thread {number}")
            last[0] = time.monotonic()

    for number in range(_THREADS):
        threading.Thread(target=add_for_ever, args=(number,), daemon=True).start()
    children: list[int] = []
    while True:
        time.sleep(rng.uniform(0.0, 0.02))
        child = os.fork()
        if not child:
            _be_child(rng.random(), add, note)
        note("forked")
        children = [pid for pid in [*children, child] if not _has_ended(pid, note)]
        if time.monotonic() - last[0] > _LONGEST:
            note(f"wrong no thread has added anything for {_LONGEST:g} s")
            last[0] = time.monotonic()


def _be_child(fate: float, add: Callable[[str], None], note: Callable[[str], None]) -> None:
    signal.alarm(_SECONDS)
    try:
        if fate < 0.6:
            add(f"child {os.getpid()}")
        elif fate < 0.8:
            time.sleep(1.0)  # with all that it inherited
    except BaseException as error:
        note(f"wrong a child met {error!r:.200}")
    os._exit(0)


def _has_ended(child: int, note: Callable[[str], None]) -> bool:
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended and status:
        note(f"crashed a child ended with {status}")
    return bool(ended)
