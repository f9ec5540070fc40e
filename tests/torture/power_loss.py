"""A loss of power at any moment of any change: what was acknowledged is there, and a change is there whole or not.

The disk is one that keeps what it was asked to sync and nothing else for sure: see `dropped_writes`.
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from torture.dropped_writes import CALLS, Disk
from torture.processes import print_to, start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

_ORDER = ("add", "remove", "refit", "adapt", "compact", "add", "tune", "adapt", "copy", "refit", "compact")
_KEPT = (0.0, 1.0, 0.5, 0.9, 0.1)
_SHORT = 10.0  # seconds of a run that only shows that the attack works
_LONGEST = 1 << 28
_BEGINS = b"begins "
_STORE = "new/store"
Seen = dict[str, Any]


def attack(plan: Plan) -> None:
    """Record every change once for each method, then lose power at random moments of the record."""
    if shutil.which("strace") is None:
        plan.tally.note = "skipped: strace is not installed"
        return
    rng = random.Random(plan.seed)
    methods = ("knn-ue", "dac") if plan.seconds > _SHORT else ("dac",)
    for number, method in enumerate(methods, start=1):
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else plan.folder) as place:
            folder = Path(place)
            assert wait(start(make_ue, folder / "root" / "ue", TEXT, method), 300) == 0
            shutil.rmtree(folder / "root" / "ue-model")
            disk = Disk(folder / "root")
            lines, seen = _recorded(folder)
            _lose(disk, lines, seen, folder / "left", rng, plan, until=plan.seconds * (1 - number / len(methods)))


def _recorded(folder: Path) -> tuple[list[str], list[Seen]]:
    """Return what strace saw of all changes, and what the folders held after each."""
    go, log = folder / "go", folder / "log"
    writer = start(change_all, folder)
    while not (folder / "ready").exists():
        assert writer.is_alive(), "the writer ended"
        time.sleep(0.01)
    command = ["strace", "-y", "-xx", "-s", str(_LONGEST), "-e", f"trace={CALLS}", "-o", str(log)]
    strace = subprocess.Popen([*command, "-p", str(writer.pid)], stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    assert "attached" in strace.stderr.readline()
    go.touch()
    assert wait(writer, 300) == 0, (folder / "said").read_text()
    strace.stderr.close()
    strace.wait()
    return log.read_text().splitlines(), json.loads((folder / "seen").read_text())


def change_all(folder: Path) -> None:
    """Make every change, one after the other, and say when each begins and ends."""
    from knn_ue.pipeline.folder import OpenedFolder
    from torture.one_change import CHANGES

    print_to(folder / "said")
    warnings.simplefilter("ignore")
    root = folder / "root"
    shutil.copytree(root / "ue", folder / "warm" / "ue")
    for name in CHANGES:  # all that is loaded late is loaded now
        CHANGES[name](OpenedFolder.open(folder / "warm" / "ue"))
    _store(folder / "warm", 0)
    (folder / "ready").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    marks = os.open(folder / "marks", os.O_WRONLY | os.O_CREAT)
    seen = [look(root)]
    for number, name in enumerate([*_ORDER, "store", "store", "store"], start=1):
        os.write(marks, _BEGINS + str(number).encode())
        if name == "store":
            _store(root, number)
        else:
            CHANGES[name](OpenedFolder.open(root / "ue"))
        os.write(marks, b"ends")
        seen.append(look(root))
    (folder / "seen").write_text(json.dumps(seen), encoding="utf-8")


def _store(root: Path, number: int) -> None:
    """Save a datastore to a new folder, over an old one, or change it."""
    import numpy as np

    from knn_ue.stores import Datastore

    path, features = root / _STORE, np.random.default_rng(number).normal(size=(40, 4))
    if number % 3 or not path.exists():
        Datastore.build(features, np.arange(40), texts=[f"{number}"] * 40, index="HNSW4").save(path)
    else:
        Datastore.load(path).add(features[:2], [1, 2], texts=["a", "b"])


def look(root: Path) -> Seen:
    """Return what each folder says; an error in words."""
    from knn_ue.stores import Datastore
    from torture.one_change import content_in

    seen: Seen = {}
    for name in ("ue", "copy", _STORE):
        try:
            if name != _STORE:
                seen[name] = list(content_in(root / name))
            else:
                store = Datastore.load(root / name)
                seen[name] = [store.ids.tolist(), store.texts_of(store.ids)]
        except Exception as error:
            seen[name] = f"{error!r:.200}" if (root / name).exists() else None
    return seen


def _lose(
    disk: Disk, lines: list[str], seen: list[Seen], place: Path, rng: random.Random, plan: Plan, *, until: float
) -> None:
    """Lose power after every call that changes something, in several ways, or as often as there is time."""
    step, is_open, n_begun = 0, False, plan.tally.tried
    share = _share(lines, plan.left - until)
    for number, line in enumerate(lines):
        said = disk.do(line)
        if said is not None and said.startswith(_BEGINS):
            step, is_open = int(said.removeprefix(_BEGINS)), True
        elif said == b"ends":
            is_open = False
        if rng.random() > share and (plan.tally.tried > n_begun or number < len(lines) - 1):
            continue
        allowed = [seen[step - 1], seen[step]] if is_open else [seen[step]]
        for keep in _KEPT:
            plan.tally.tried += 1
            _write(disk.left(keep, rng), place)
            found = look(place)
            for name, content in found.items():
                _judge(name, content, [one[name] for one in allowed], f"call {number} of step {step}, {keep:g}", plan)


def _judge(name: str, content: Any, allowed: list[Any], place: str, plan: Plan) -> None:
    if content in allowed:
        return
    if isinstance(content, str) and None in allowed and "StorageError" in content:
        return  # a first save that was never acknowledged is refused in one sentence
    plan.tally.blame("lost", f"{name} after {place}: {content!r:.300}")


def _share(lines: list[str], seconds: float) -> float:
    """Return how many of the calls there is time for: a look takes about 0.1 s."""
    return min(1.0, max(0.0, seconds) / (0.1 * len(_KEPT) * max(1, len(lines))))


def _write(left: dict[str, bytes | None], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in left.items():
        if content is None:
            (place / name).mkdir()
        else:
            (place / name).write_bytes(content)
