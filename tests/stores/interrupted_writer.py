"""Run by test_interrupted_writer.py in a process of its own: interrupt a writer again and again, check what is left.

A fork is the writer: it saves, adds, removes and compacts, and logs the content it wants before each call and after it
returned. It is stopped at a random moment; then the folder must hold what the last finished call left, or what the
call under way wanted, whole.
"""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from knn_ue.errors import StorageError
from knn_ue.stores import Datastore, IndexOptions

OPTIONS = [IndexOptions(), IndexOptions(factory="IVF2,Flat", n_probe=2), IndexOptions(factory="HNSW4", ef_search=64)]


def digest(examples: dict[int, tuple[bytes, int, str]]) -> str:
    return hashlib.sha256(repr(sorted(examples.items())).encode("utf-8", "surrogatepass")).hexdigest()


def examples_of(store: Datastore) -> dict[int, tuple[bytes, int, str]]:
    ids, found = store.ids, {}
    for segment in store._rows.segments:
        for row, number in enumerate(segment.ids.tolist()):
            if not segment.removed[row]:
                found[number] = (segment.vectors[row].tobytes(), int(segment.labels[row]), segment.texts[row])
    assert sorted(found) == ids.tolist()
    return found


def new_examples(rng: random.Random, n_rows: int) -> tuple[np.ndarray, list[int], list[str]]:
    vectors = np.array([[rng.gauss(0, 1) for _ in range(4)] for _ in range(n_rows)], dtype=np.float32)
    return vectors, [rng.randrange(9) for _ in range(n_rows)], [f"text {rng.random()}" for _ in range(n_rows)]


def keyed(ids: list[int], vectors: np.ndarray, labels: list[int], texts: list[str]) -> dict:
    return dict(zip(ids, zip((v.tobytes() for v in vectors), labels, texts, strict=True), strict=True))


def write_for_ever(path: Path, log: int, rng: random.Random) -> None:
    """Change the folder until stopped, logging `t` (try) and `d` (done) with the digest of the wanted content."""
    store = Datastore.load(path)

    def change(wanted, call, *arguments, **options):
        os.write(log, f"t {digest(wanted)}\n".encode())
        call(*arguments, **options)
        os.write(log, f"d {digest(wanted)}\n".encode())

    while True:
        now, action = examples_of(store), rng.random()
        if action < 0.45:
            vectors, labels, texts = new_examples(rng, rng.randrange(1, 40))
            first = max(store._rows.next_id, store._live.next_id)  # no id of a removed row is given again
            ids = list(range(first, first + len(labels)))
            change(now | keyed(ids, vectors, labels, texts), store.add, vectors, labels, texts=texts)
        elif action < 0.7 and len(now) > 10:
            gone = rng.sample(sorted(now), rng.randrange(1, len(now) - 6))
            change({k: v for k, v in now.items() if k not in gone}, store.remove, gone)
        elif action < 0.85:
            change(now, store.compact)
        else:
            vectors, labels, texts = new_examples(rng, rng.randrange(8, 40))
            built = Datastore.build(vectors, labels, texts=texts, index=rng.choice(OPTIONS))
            change(keyed(list(range(len(labels))), vectors, labels, texts), built.save, path)
            store = Datastore.load(path)


def is_interrupt(error: BaseException) -> bool:
    """A Ctrl-C, also one that struck where C calls back: CPython then raises a SystemError caused by it."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt)
    )


def interrupt_once(path: Path, log_path: Path, sign: int, rng: random.Random) -> None:
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"d {digest(examples_of(Datastore.load(path)))}\n".encode())
    seed = rng.random()
    # A shell gives its background jobs, and so the tests it runs there, an ignored Ctrl-C to pass on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the writer is ready for it
    writer = os.fork()
    if not writer:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            write_for_ever(path, log, random.Random(seed))
        except BaseException as error:
            if is_interrupt(error):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                Datastore.load(path).compact()  # the process that was interrupted can go on with the folder
                os._exit(0)
            os.write(log, f"e {error!r}\n".encode())
        os._exit(1)
    time.sleep(rng.uniform(0.0, 0.08))
    os.kill(writer, sign)
    ended, status, sent = 0, 0, time.monotonic()
    while not ended:
        if time.monotonic() - sent > 1:  # an interrupt that strikes where Python ignores errors is sent again
            os.kill(writer, sign)
            sent = time.monotonic()
        time.sleep(0.002)
        ended, status = os.waitpid(writer, os.WNOHANG)
    os.close(log)
    lines = log_path.read_text().splitlines()
    assert status == (signal.SIGKILL if sign == signal.SIGKILL else 0), lines[-3:]
    allowed = {line[2:] for line in lines[-2:]} if lines[-1].startswith("t") else {lines[-1][2:]}
    assert digest(examples_of(Datastore.load(path))) in allowed, lines[-3:]


def main(folder: str, n_times: int, sign: int, seed: int) -> None:
    path, rng = Path(folder) / "store", random.Random(seed)
    Datastore.build(*new_examples(rng, 12)[:2], texts=["a"] * 12).save(path)
    littered = 0
    for number in range(n_times):
        interrupt_once(path, Path(folder) / f"log{number}", sign, rng)
        littered += sum(1 for _ in path.glob("fitted-*")) > 1
    store = Datastore.load(path)
    store.add(*new_examples(rng, 1)[:2])
    store.compact()
    left = sorted(entry.name[:7] for entry in path.iterdir() if not entry.name.endswith("-journal"))
    assert left == ["changes", "fitted-"], left
    print(f"interrupted {n_times} times, {littered} times with files left behind")  # noqa: T201


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    except StorageError as error:
        sys.exit(f"a folder did not open: {error}")
