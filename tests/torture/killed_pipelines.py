"""Writers of a UE folder (add, remove, compact, refit, tune, save) and trainings, killed at random moments."""

import hashlib
import json
import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from tiny_models import ROWS, save_tiny_model
from torture import ue_folder
from torture.ledger import Ledger
from torture.processes import kill, sleep_until_or_ended, start, start_command, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_METHODS = ("knn-ue", "dac")


def one_writer(plan: Plan) -> None:
    """Kill the only writer of a folder, which may meet no error either."""
    _storm(plan, n_writers=1)


def two_writers(plan: Plan) -> None:
    """Kill two writers of one folder, one after the other."""
    _storm(plan, n_writers=2)


def _storm(plan: Plan, *, n_writers: int) -> None:
    rng = random.Random(plan.seed)
    for number, method in enumerate(_METHODS, start=1):
        path, ledger = plan.folder / method, Ledger(plan.folder / f"{method}.ledger")
        assert wait(start(make_ue, path, TEXT, method), 300) == 0
        n_rounds = 0
        while not n_rounds or plan.left > plan.seconds * (1 - number / len(_METHODS)):
            seeds = [rng.randrange(10**9) for _ in range(n_writers)]
            place = f"{method}, round {n_rounds}, writers with the seeds {seeds}"
            _kill_once(path, ledger, seeds, rng, plan, place)
            ue_folder.check(path, ledger, plan.tally, place, whole=n_rounds % 20 == 0)
            n_rounds += 1


def _kill_once(path: Path, ledger: Ledger, seeds: list[int], rng: random.Random, plan: Plan, place: str) -> None:
    writers = [start(ue_folder.write_for_ever, path, ledger.path, seed, len(seeds) == 1) for seed in seeds]
    for writer in writers:
        time.sleep(rng.uniform(0.15, 0.9))
        code = kill(writer)
        plan.tally.tried += 1
        if code != -signal.SIGKILL:
            plan.tally.blame("crashed", f"{place}: ended with {code}")


def trainings(plan: Plan) -> None:
    """Kill `knn-ue train --overwrite`: the model folder holds the old model or the new one, whole."""
    rng = random.Random(plan.seed)
    encoder = save_tiny_model(plan.folder / "encoder", family="bert", task=TEXT)
    for name, n_rows, begin in (("train", 64, 0), ("validation", 16, 100)):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS[TEXT](n_rows, start=begin))
        (plan.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    known, seconds = {}, 0.0
    for seed in (1, 2):
        began = time.monotonic()
        assert wait(_train(plan.folder, encoder, f"known{seed}", seed), 300) == 0, (plan.folder / "log").read_text()
        seconds = time.monotonic() - began
        known[_fingerprint(plan.folder / f"known{seed}")] = seed
    existed = False
    while not plan.tally.tried or plan.left > 0:
        seed = rng.choice([1, 2])
        run = _train(plan.folder, encoder, "model", seed)
        sleep_until_or_ended(run, rng.uniform(0.3, 1.15) * seconds)
        finished = kill(run) == 0
        plan.tally.tried += 1
        if not (plan.folder / "model").exists():
            if finished or existed:
                plan.tally.blame("lost", f"no model after kill {plan.tally.tried}")
            continue
        existed = True
        found = known.get(_fingerprint(plan.folder / "model"))
        if found is None or (finished and found != seed):
            plan.tally.blame("wrong", f"kill {plan.tally.tried} of a training with seed {seed} left another model")
    left = sorted(path.name for path in plan.folder.glob(".model.*.draft"))
    if len(left) > 1:  # of the last kill; earlier ones are removed by the next training
        plan.tally.blame("wrong", f"drafts of killed trainings stay: {left}")


def _train(folder: Path, encoder: Path, out: str, seed: int) -> BaseProcess:
    return start_command(
        folder / "log", "train", "--task", "text", "--encoder", encoder, "--train", folder / "train.jsonl",
        "--validation", folder / "validation.jsonl", "--out", folder / out, "--seed", seed, "--epochs", 1,
        "--batch-size", 16, "--device", "cpu", "--overwrite",
    )  # fmt: skip


def _fingerprint(folder: Path) -> str:
    """Return a digest of the weights and the tokenizer; the record beside them holds times."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".safetensors" or "tokenizer" in path.name)
    digest = hashlib.sha256(os.fsencode(" ".join(names)))
    for name in names:
        digest.update((folder / name).read_bytes())
    json.loads((folder / "config.json").read_text())
    json.loads((folder / "knn_ue_training.json").read_text())
    return digest.hexdigest()
