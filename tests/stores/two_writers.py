"""Run by test_two_writers.py in a process of its own: two writers of one folder are killed again and again.

Each writer is a fork that adds rows, compacts and saves the folder around the store again, as a refit does, and logs
what was acknowledged. Between two rounds the journal gets an end as a crash leaves it, often as long as a record.
No acknowledged row may be missing, and no id may be given twice.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from knn_ue.storage import identity_of, locked, parse_folder, write_folder

from knn_ue.stores import Datastore


def open_store(path: Path) -> Datastore:
    return parse_folder(path, lambda stored: Datastore.load(stored.folders["store"]))


def save_around(path: Path, store: Datastore) -> None:
    """Write a new folder for the rows of `store`, as a refit does; refused where `store` is no longer what is named."""

    def save(target: Path) -> str:
        store.snapshot().save(target)
        return identity_of(target)

    with locked(path), locked(store.path):
        write_folder(
            path, kind="whole", options={}, arrays={}, folders={"store": save}, precondition=store.check_unchanged
        )


def write_for_ever(path: Path, log: int, rng: random.Random) -> None:
    store = open_store(path)
    while True:
        action = rng.random()
        try:
            if action < 0.85:
                text = f"{rng.random():.15f}"  # of one length, so that every record is
                (number,) = store.add([[rng.gauss(0, 1)] * 4], [1], texts=[text])
                os.write(log, f"{number} {text}\n".encode())
            elif action < 0.95:
                store.compact()
            else:
                save_around(path, store)
                store = open_store(path)
        except OSError:  # refused, or the folder is gone
            store = open_store(path)


def tear(path: Path, rng: random.Random) -> None:
    """Leave at the journal's end what a crash may leave there."""
    journal = open_store(path)._state.journal
    record = journal.path.read_bytes()[journal.start : journal.end] if journal.start else b""
    length = max(len(record), 60)
    left = [bytes(length), bytes(rng.randrange(1, 3 * length)), record[: rng.randrange(16, length - 1)]]
    with journal.path.open("rb+") as file:
        file.truncate(journal.end)  # every writer cuts what the one before left
        file.seek(journal.end)
        file.write(rng.choice(left))


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
    path, log, rng = Path(folder) / "whole", Path(folder) / "log", random.Random(seed)
    first = Datastore.build(np.eye(4), [0, 1, 2, 3], texts=["a", "b", "c", "d"])
    write_folder(path, kind="whole", options={}, arrays={}, folders={"store": first.save})
    for _ in range(n_times):
        kill_once(path, log, rng)
        acknowledged = [line.split() for line in log.read_text().splitlines()]
        ids = [int(number) for number, _ in acknowledged]
        assert len(set(ids)) == len(ids), "an id was given twice"
        found = open_store(path).texts_of(ids)
        lost = [row for row, text in zip(acknowledged, found, strict=True) if row[1] != text]
        assert not lost, lost[:3]
        tear(path, rng)
    print(f"killed {2 * n_times} writers, {len(acknowledged)} rows acknowledged, none lost")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
