"""Writers of a datastore, killed at random moments: the storms of tests/stores, for as long as there is time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from torture.tally import Plan

_TESTS = Path(__file__).parents[1]
_KILLS = 25  # per run of a script


def one_writer(plan: Plan) -> None:
    """Kill a writer that saves, adds, removes and compacts: the folder holds what was acknowledged, whole."""
    _storm(plan, "interrupted_writer.py", _KILLS, (str(_KILLS), str(int(signal.SIGKILL))))


def two_writers(plan: Plan) -> None:
    """Kill two writers of one folder whose journal ends in what a crash leaves: no row lost, no id twice."""
    _storm(plan, "two_writers.py", 2 * _KILLS, (str(_KILLS),))


def _storm(plan: Plan, script: str, n_kills: int, arguments: tuple[str, ...]) -> None:
    number = 0
    while number == 0 or plan.left > 0:
        folder = plan.folder / str(number)
        folder.mkdir()
        seed = 1000 * plan.seed + number
        done = subprocess.run(
            [sys.executable, str(_TESTS / "stores" / script), str(folder), *arguments, str(seed)],
            env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        plan.tally.tried += n_kills
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no word"]
            plan.tally.blame(_kind(done), f"{script} with seed {seed}: {last[0][:300]}")
        number += 1


def _kind(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return "crashed"
    return "wrong" if "given twice" in done.stderr or "did not open" in done.stderr else "lost"
