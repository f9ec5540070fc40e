"""A writer that hangs with a lock in its hands: others wait for a stated time, are told so, and nothing is lost."""

import os
import random
import signal
import time
from pathlib import Path

from held import held
from knn_ue import UncertaintyPipeline
from knn_ue.errors import StorageError
from knn_ue.folder.changes import PATIENCE
from knn_ue.pipeline.fitted import add_rows
from torture import ue_folder
from torture.forked_server import ForkedServer, forked_servers
from torture.ledger import Ledger
from torture.processes import kill, start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_WAIT = 0.5  # seconds that the others wait for the lock
_MARGIN = 15.0  # for all else, on a busy machine
_REFUSED = 3


def attack(plan: Plan) -> None:
    """Stop writers at random moments, and writers that surely hold a lock, before other writers and a server."""
    rng = random.Random(plan.seed)
    path, ledger = plan.folder / "ue", Ledger(plan.folder / "ledger")
    assert wait(start(make_ue, path, TEXT, "knn-ue"), 300) == 0
    n_rounds = 0
    while not n_rounds or plan.left > plan.seconds / 2:
        _stop_a_writer(path, ledger, rng, plan)
        n_rounds += 1
    with forked_servers(path, plan.folder, 1, "--max-wait", _WAIT) as (server,):
        while n_rounds or plan.left > 0:
            _stop_before_a_server(path, server, rng, plan)
            n_rounds = 0
    ue_folder.check(path, ledger, plan.tally, "at the end", whole=True)


def _stop_a_writer(path: Path, ledger: Ledger, rng: random.Random, plan: Plan) -> None:
    seeds = rng.randrange(10**9), rng.randrange(10**9)
    writer = start(ue_folder.write_for_ever, path, ledger.path, seeds[0], False)
    time.sleep(rng.uniform(0.2, 0.9))
    os.kill(writer.pid or 0, signal.SIGSTOP)
    other = start(add_once, path, ledger.path, seeds[1])
    code = wait(other, PATIENCE + _WAIT + _MARGIN)  # a reader waits longer than a writer is told to
    plan.tally.tried += 1
    if code is None:
        kill(other)
        plan.tally.blame(
            "wrong", f"a writer waited more than {PATIENCE + _WAIT + _MARGIN:g} s for one that hangs, seeds {seeds}"
        )
    elif code not in (0, _REFUSED):
        plan.tally.blame("crashed", f"a writer that met one that hangs ended with {code}, seeds {seeds}")
    if rng.random() < 0.5:
        os.kill(writer.pid or 0, signal.SIGCONT)
        time.sleep(rng.uniform(0.05, 0.3))
    kill(writer)
    ue_folder.check(path, ledger, plan.tally, f"after a stop with the seeds {seeds}")


def add_once(path: Path, ledger_path: Path, seed: int) -> None:
    """Read the folder, then add an example if the folder can be had within the time allowed."""
    ledger = Ledger(ledger_path)
    try:
        pipe = UncertaintyPipeline.load(path, device="cpu")
        new = ue_folder.new_rows(pipe.validation_, random.Random(seed))
        pipe.opened.live.max_wait = _WAIT
        ids = add_rows(pipe.calibrator_, new).tolist()
    except StorageError:
        raise SystemExit(_REFUSED) from None
    except BaseException as error:
        ledger.broke(error)
        raise
    ledger.added(ids, ue_folder.texts_of(new))


def _stop_before_a_server(path: Path, server: ForkedServer, rng: random.Random, plan: Plan) -> None:
    """Hang amid a change, or amid its commit, when nobody may read: changes get 503 in time, questions are answered."""
    how, sign = rng.choice(["immediate", "exclusive"]), plan.folder / "held"
    sign.unlink(missing_ok=True)
    holder = start(hold, path, sign, how)
    while not sign.exists() and holder.is_alive():
        time.sleep(0.005)
    os.kill(holder.pid or 0, signal.SIGSTOP)
    row = {"text": f"the film was {rng.random():.17f}", "label": "pos"}
    change = rng.choice([("POST", "/examples", {"examples": [row]}), ("POST", "/refit", None)])
    for method, address, body in (change, ("POST", "/predict", {"inputs": "a film"})):
        began = time.monotonic()
        try:
            status, answer = server.ask(method, address, body, timeout=_WAIT + _MARGIN)
        except OSError as error:
            plan.tally.blame("wrong", f"{address} with the folder held ({how}): {error!r} after {_waited(began)}")
            continue
        if status not in ({200} if address == "/predict" else {200, 201, 503}):
            plan.tally.blame("wrong", f"{address} with the folder held ({how}): {status} {answer!r:.200}")
    plan.tally.tried += 1
    kill(holder)


def hold(folder: Path, sign: Path, how: str) -> None:
    """Begin a change, say so, and never end it."""
    with held(folder, how):
        sign.touch()
        time.sleep(3600)


def _waited(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
