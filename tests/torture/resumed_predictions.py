"""`knn-ue predict`, killed and resumed: the answers are those of a run that nobody disturbed, byte for byte."""

import json
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from tiny_models import ROWS
from torture.processes import kill, sleep_until_or_ended, start, start_command, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_KILLS = 100
_ROWS = 2500


def attack(plan: Plan) -> None:
    """Kill a hundred times, or as often as the time allows."""
    rng = random.Random(plan.seed)
    assert wait(start(make_ue, plan.folder / "ue", TEXT, "knn-ue"), 300) == 0
    rows = ROWS[TEXT](_ROWS)
    for row in rows:  # of many lengths, so that padding differs between batches
        row["text"] += " indeed" * rng.choice([0, 0, 1, 3, 9, 20])
    (plan.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    began = time.monotonic()
    assert wait(_predict(plan.folder, "undisturbed"), 600) == 0, (plan.folder / "log").read_text()
    seconds = time.monotonic() - began
    expected = (plan.folder / "undisturbed").read_bytes()
    number = 0
    while plan.tally.tried < _KILLS and (not number or plan.left > 0):
        output = plan.folder / f"answers{number}"
        _kill_and_resume(plan, output, rng, seconds)
        if output.exists() and output.read_bytes() != expected:
            plan.tally.blame("wrong", f"{output.name}: {_difference(output.read_bytes(), expected)}")
        output.unlink(missing_ok=True)
        number += 1


def _kill_and_resume(plan: Plan, output: Path, rng: random.Random, seconds: float) -> None:
    """Kill and resume until the answers are complete; after a few kills let it finish."""
    for _ in range(rng.randrange(2, 8)):
        run = _predict(plan.folder, output.name)
        sleep_until_or_ended(run, rng.uniform(0.1, 0.7) * seconds)
        code = kill(run)
        if code == 0:
            return
        plan.tally.tried += 1
        if code != -9:
            plan.tally.blame("crashed", f"{output.name} ended with {code}: {_last_line(plan.folder / 'log')}")
            return
        if output.exists():
            return  # killed between the move and its end
    code = wait(_predict(plan.folder, output.name), 600)
    if code != 0:
        plan.tally.blame("crashed", f"{output.name} was not resumed ({code}): {_last_line(plan.folder / 'log')}")


def _predict(folder: Path, output: str) -> BaseProcess:
    arguments = ("predict", folder / "ue", "--input", folder / "rows.jsonl", "--output", folder / output)
    return start_command(folder / "log", *arguments, "--device", "cpu", "--resume")


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8").strip().splitlines() or ["no word"])[-1][:300]


def _difference(found: bytes, expected: bytes) -> str:
    pairs = zip(found.splitlines(), expected.splitlines(), strict=False)
    different = [number for number, (one, other) in enumerate(pairs, start=1) if one != other]
    lengths = f"{len(found.splitlines())} lines of {len(expected.splitlines())}"
    return f"{lengths}, {len(different)} differ, first line {different[0] if different else '-'}"
