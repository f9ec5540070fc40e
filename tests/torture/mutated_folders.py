"""Mutated folders of every kind, opened and used in processes of their own, with a limit of time and memory each.

A folder that was damaged is refused, or answers as if nothing had happened. One that was forged, checksums and all,
is refused in one sentence, or gives finite answers. Nothing ends the process, hangs or takes all memory. To see one
case again: PYTHONPATH=tests python -m torture.mutated_folders VICTIM NUMBER SEED
"""

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from knn_ue.errors import KnnUeError
from torture.mutations import forge, spoil
from torture.processes import print_to, start
from torture.tally import Plan
from torture.victims import VICTIMS

_SECONDS = 20  # of one load, on the processor: a busy machine must not count
_WALL_SECONDS = 300  # of one load that waits
_MEMORY = 2 << 30  # beyond what the process has when it begins
_BATCH = 100
_SENTENCE = 2000


def attack(plan: Plan) -> None:
    """Open mutated folders until the time is over, or `plan.loads` are done."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else plan.folder) as name:
        folder = Path(name)
        maker = start(make_all, folder / "victims")
        maker.join()
        assert maker.exitcode == 0, "the folders to attack could not be made"
        _run_batches(plan, folder)


def make_all(folder: Path) -> None:
    """Write one folder of each kind."""
    _be_quiet()
    folder.mkdir()
    for name, victim in VICTIMS.items():
        victim.make(folder / name)


@dataclass
class _Batch:
    victim: str
    first: int
    last: int
    log: Path
    process: BaseProcess


def _run_batches(plan: Plan, folder: Path) -> None:
    rng = random.Random(plan.seed)
    names, shares = zip(*((name, victim.share) for name, victim in VICTIMS.items()), strict=True)
    # Every kind once, then by share: a short run has seen them all.
    next_number = dict.fromkeys(names, 0)
    order = list(names)
    running: list[_Batch] = []
    n_begun = 0

    def begin(victim: str, first: int, last: int) -> None:
        work = folder / f"{victim}-{first}"
        process = start(open_many, folder / "victims", victim, plan.seed, first, last, work)
        running.append(_Batch(victim, first, last, work.with_suffix(".log"), process))

    def goes_on() -> bool:
        return n_begun < plan.loads if plan.loads else bool(order) or plan.left > 0

    while running or goes_on():
        while len(running) < plan.workers and goes_on():
            victim = order.pop(0) if order else rng.choices(names, shares)[0]
            size = _BATCH if plan.loads or plan.seconds > 120 else 3 if plan.seconds > 5 else 1
            size = min(size, plan.loads - n_begun) if plan.loads else size
            begin(victim, next_number[victim], next_number[victim] + size)
            next_number[victim] += size
            n_begun += size
        batch = running.pop(0)
        batch.process.join(0.05)
        if batch.process.is_alive():
            running.append(batch)
            continue
        reached = _count(batch, plan)
        if reached < batch.last and (plan.loads or plan.left > 0):
            begin(batch.victim, reached, batch.last)


def _count(batch: _Batch, plan: Plan) -> int:
    """Add what a batch found to the tally, and return the number of the next load."""
    lines = batch.log.read_text(encoding="utf-8").splitlines() if batch.log.exists() else []
    ended = [line for line in lines if not line.startswith("begins")]
    for line in ended:
        plan.tally.tried += 1
        if line.startswith("wrong"):
            plan.tally.blame("wrong", f"{batch.victim} {line.removeprefix('wrong ')} (seed {plan.seed})")
    batch.log.unlink(missing_ok=True)
    reached = batch.first + len(ended)
    if batch.process.exitcode == 0:
        return batch.last
    last = lines[-1] if lines else "before the first"
    if last.startswith("begins"):
        plan.tally.tried += 1
        reached += 1
    code = batch.process.exitcode
    what = f"took more than {_SECONDS} s" if code in (-signal.SIGALRM, -signal.SIGPROF) else f"ended with {code}"
    plan.tally.blame("crashed", f"{batch.victim} {reached - 1} {what}: {last} (seed {plan.seed})")
    return max(reached, batch.first + 1)


def open_many(pristine: Path, victim: str, seed: int, first: int, last: int, work: Path) -> None:
    """Open the loads `first` to `last` - 1 of a victim, and log what came of each."""
    _be_quiet()
    print_to(Path("/dev/null"))
    log = os.open(work.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    work.mkdir(parents=True, exist_ok=True)
    expected = VICTIMS[victim].use(Path(shutil.copytree(pristine / victim, work / "whole")))
    _limit_memory()
    for number in range(first, last):
        done = "nothing"

        def note(kind: str) -> None:
            os.write(log, f"{kind} {number} {done}".replace("\n", " ").encode("utf-8", "replace") + b"\n")  # noqa: B023

        rng = random.Random(f"{victim} {seed} {number}")
        folder = work / "mutated"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pristine / victim, folder)
        is_forged = rng.random() < 0.6 or not VICTIMS[victim].sealed
        done = (forge if is_forged else spoil)(folder, rng)
        note("begins")
        _limit_time()
        outcome = _use(victim, folder, None if is_forged else expected)
        _limit_time(0)
        done = f"{done} -> {outcome}" if outcome else ""
        note("wrong" if outcome else "held")
    shutil.rmtree(work, ignore_errors=True)


def _use(victim: str, folder: Path, expected: Any) -> str | None:
    """Return what is wrong with how the folder is opened and used, None where all is well."""
    try:
        answers = VICTIMS[victim].use(folder)
    except KnnUeError as error:
        return None if len(str(error)) < _SENTENCE else f"an error of {len(str(error))} characters"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {str(error)[:200]}"
    if expected is not None and answers != expected:
        return "a damaged folder was opened and gave other answers"
    return None


def _be_quiet() -> None:
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def _limit_time(share: int = 1) -> None:
    """Let the system end this process if it works or waits for too long; 0 forgets that."""
    signal.setitimer(signal.ITIMER_PROF, share * _SECONDS)
    signal.setitimer(signal.ITIMER_REAL, share * _WALL_SECONDS)


def _limit_memory() -> None:
    with Path("/proc/self/statm").open() as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))


def show(victim: str, number: int, seed: int) -> None:
    """Print what one load does, with the whole traceback."""
    _be_quiet()
    rng = random.Random(f"{victim} {seed} {number}")
    with tempfile.TemporaryDirectory() as name:
        VICTIMS[victim].make(Path(name) / victim)
        folder = Path(name) / victim
        is_forged = rng.random() < 0.6 or not VICTIMS[victim].sealed
        print((forge if is_forged else spoil)(folder, rng), flush=True)
        _limit_time()
        _limit_memory()
        print(VICTIMS[victim].use(folder))


if __name__ == "__main__":
    show(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
