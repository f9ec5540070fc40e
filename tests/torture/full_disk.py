"""A disk that is full at random moments: every call fails with one sentence, and nothing acknowledged is lost.

Runs in a process that has a small file system of its own where that can be mounted; else no file may grow beyond a
limit, which the operating system refuses as it refuses a full disk.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from knn_ue import UncertaintyPipeline
from knn_ue.errors import StorageError
from torture import ue_folder
from torture.ledger import Ledger
from torture.tally import Plan, Tally
from torture.victims import TEXT, make_ue

_SIZE = 4 << 20
_NEVER_TOLD = "no call met a full disk"


def attack(plan: Plan) -> None:
    """Run the storm in a process of its own."""
    disk = plan.folder / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size={_SIZE} none "$0" && exec "$@"'
    mounted = ["unshare", "-Urm", "sh", "-c", mount, str(disk)]
    can_mount = (
        shutil.which("unshare") is not None
        and not subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode
    )
    plan.tally.note = "a file system of 4 MiB" if can_mount else "files limited by the system: nothing can be mounted"
    command = [sys.executable, "-m", "torture.full_disk", str(disk), str(plan.folder / "ledger"), str(plan.seed)]
    done = subprocess.run(
        [*(mounted if can_mount else ()), *command, str(plan.seconds), str(int(can_mount))],
        capture_output=True, text=True, check=False, timeout=plan.seconds + 300,
    )  # fmt: skip
    if done.returncode:
        plan.tally.blame("crashed", f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    plan.tally.tried, plan.tally.lost, plan.tally.wrong = (found[name] for name in ("tried", "lost", "wrong"))
    plan.tally.faults += found["faults"]


@contextmanager
def _filled(disk: Path, rng: random.Random) -> Iterator[None]:
    """Leave little or no space in the file system `disk` while the block runs."""
    filler = disk / "filler"
    left = rng.choice([0, 4096, rng.randrange(100_000), rng.randrange(400_000)])
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        space = os.statvfs(disk)
        file.write(bytes(max(0, space.f_bavail * space.f_frsize - left)))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _limited(ledger: Path, rng: random.Random) -> Iterator[None]:
    """Let no file grow beyond a limit, which the ledger has not reached, while the block runs."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = ledger.stat().st_size + rng.randrange(2000, 60_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def storm(disk: Path, ledger_path: Path, seed: int, seconds: float, *, is_mounted: bool) -> Tally:
    """Change a UE folder while the disk is full, check it when there is space again, change it once more."""
    tally, rng, ledger = Tally("full disk"), random.Random(seed), Ledger(ledger_path)
    path, end = disk / "ue", time.monotonic() + seconds
    make_ue(path, TEXT, "knn-ue")
    shutil.rmtree(disk / "ue-model")
    n_refused = 0
    while not tally.tried or time.monotonic() < end:
        pipe = UncertaintyPipeline.load(path, device="cpu")
        with _filled(disk, rng) if is_mounted else _limited(ledger_path, rng):
            for _ in range(rng.choice([1, 3, 6])):
                tally.tried += 1
                try:
                    pipe = ue_folder.change_once(path, ledger, rng, pipe, alone=True)
                except StorageError:
                    n_refused += 1
                except Exception as error:
                    tally.blame("wrong", f"try {tally.tried} with seed {seed}: {error!r:.300}")
        ue_folder.check(path, ledger, tally, f"try {tally.tried} with seed {seed}", whole=tally.tried % 20 == 0)
        try:
            pipe = UncertaintyPipeline.load(path, device="cpu")
            ue_folder.change_once(path, ledger, rng, pipe, alone=True)
        except Exception as error:
            tally.blame("wrong", f"with space again, after try {tally.tried} with seed {seed}: {error!r:.300}")
    if not n_refused and tally.tried > 100:
        tally.blame("wrong", _NEVER_TOLD)
    return tally


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, notes, number, time_allowed, mounted_there = sys.argv[1:]
    found = storm(Path(place), Path(notes), int(number), float(time_allowed), is_mounted=mounted_there == "1")
    print(json.dumps(asdict(found)))
