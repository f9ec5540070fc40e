"""Run by test_two_writers.py in a process of its own: two writers of one folder are killed again and again.

Each writer is a fork that adds rows, compacts, and compacts the folder behind the store's back, as another command
does, and logs what was acknowledged. Between two rounds SQLite's journal gets what a crash may leave there.
No acknowledged row may be missing, and no id may be given twice.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from knn_ue.errors import StaleFolderError
from knn_ue.folder import DATABASE
from knn_ue.stores import Datastore, compact_folder


def write_for_ever(path: Path, log: int, rng: random.Random) -> None:
    store = Datastore.load(path)
    while True:
        action = rng.random()
        try:
            if action < 0.85:
                text = f"{rng.random():.15f}"
                (number,) = store.add([[rng.gauss(0, 1)] * 4], [1], texts=[text])
                os.write(log, f"{number} {text}\n".encode())
            elif action < 0.95:
                store.compact()
            else:
                compact_folder(path)
        except StaleFolderError:
            store = Datastore.load(path)


def tear(path: Path, rng: random.Random) -> None:
    """Leave in the journal what a crash may leave there before its header is written."""
    journal = path / f"{DATABASE}-journal"
    if not journal.exists() or not journal.stat().st_size:
        journal.write_bytes(rng.choice([bytes(rng.randrange(1, 9000)), b"", rng.randbytes(rng.randrange(1, 600))]))


def kill_once(path: Path, log_path: Path, rng: random.Random) -> None:
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writers = []
    for _ in range(2):
        seed = rng.random()
        writer = os.fork()
        if not writer:
            try:
                write_for_ever(path, log, random.Random(seed))
            except BaseException as error:
                os.write(log, f"e {error!r}\n".encode())
            os._exit(1)
        writers.append(writer)
    for writer in writers:
        time.sleep(rng.uniform(0.02, 0.12))
        os.kill(writer, signal.SIGKILL)
        assert os.waitpid(writer, 0)[1] == signal.SIGKILL, log_path.read_text()[-300:]
    os.close(log)


def main(folder: str, n_times: int, seed: int) -> None:
    path, log, rng = Path(folder) / "store", Path(folder) / "log", random.Random(seed)
    Datastore.build(np.eye(4), [0, 1, 2, 3], texts=["a", "b", "c", "d"]).save(path)
    for _ in range(n_times):
        kill_once(path, log, rng)
        acknowledged = [line.split() for line in log.read_text().splitlines()]
        ids = [int(number) for number, _ in acknowledged]
        assert len(set(ids)) == len(ids), "an id was given twice"
        found = Datastore.load(path).texts_of(ids)
        lost = [row for row, text in zip(acknowledged, found, strict=True) if row[1] != text]
        assert not lost, lost[:3]
        tear(path, rng)
    print(f"killed {2 * n_times} writers, {len(acknowledged)} rows acknowledged, none lost")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
