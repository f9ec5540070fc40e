"""A writer killed at a random moment leaves the old state or the new one, and loses nothing it acknowledged."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from knn_ue.datastore import Datastore

# Every state is recognisable: after step s the store holds rows whose label is at most s, and one row has label s.
# "acknowledged s" is printed after the call for step s returned, "begins s" before it starts.
WRITER = """
import sys
import numpy as np
from knn_ue.datastore import Datastore

path, seed = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(seed)
store = Datastore.load(path)
step = int(np.max(store.search(np.zeros((1, 4)), len(store)).labels))
while True:
    step += 1
    print(f"begins {step}", flush=True)
    ids = store.add(rng.normal(size=(3, 4)), [step] * 3, texts=[f"step {step}"] * 3)
    print(f"acknowledged {step}", flush=True)
    if step % 5 == 0:
        store.remove(ids[:2])
        print(f"removed {ids[0]}", flush=True)
    if step % 7 == 0:
        store.compact()
    if step % 11 == 0:
        store.save(path + "-copy")
"""


def run_and_kill(code: str, path: Path, argument: int, seconds: float) -> list[str]:
    """Run a writer, kill it `seconds` after its first line, and return the lines it printed."""
    log = path.with_suffix(".log")
    with log.open("w") as output:
        writer = subprocess.Popen([sys.executable, "-c", code, str(path), str(argument)], stdout=output, stderr=output)
        while not log.stat().st_size and writer.poll() is None:
            time.sleep(0.002)
        time.sleep(seconds)
        writer.kill()
        assert writer.wait() == -signal.SIGKILL, log.read_text()
    return log.read_text().splitlines()


def check_survivor(path: Path, lines: list[str]) -> None:
    store = Datastore.load(path)
    found = store.search(np.zeros((1, 4)), len(store))
    labels, counts = np.unique(found.labels[0], return_counts=True)
    acknowledged = [int(line.split()[1]) for line in lines if line.startswith("acknowledged")]
    begun = [int(line.split()[1]) for line in lines if line.startswith("begins")]
    removed = [int(line.split()[1]) for line in lines if line.startswith("removed")]

    assert labels.tolist() == list(range(labels[-1] + 1)), "a step in the middle was lost"
    assert max(acknowledged, default=0) <= labels[-1] <= max(begun, default=labels[-1])
    assert set(counts.tolist()) <= {1, 3}, "a step was kept in part"
    assert not np.isin(removed, store.ids).any(), "a removed row came back"
    assert store.texts_of(found.ids[0][found.labels[0] == labels[-1]])[0] == f"step {labels[-1]}"


def kill_repeatedly(folder: Path, n_kills: int, seed: int) -> None:
    path = folder / "store"
    Datastore.build(np.ones((3, 4)), [0, 0, 0], texts=["step 0"] * 3).save(path)
    moments = random.Random(seed)
    for number in range(n_kills):
        lines = run_and_kill(WRITER, path, number, moments.uniform(0.0, 0.15))
        check_survivor(path, lines)
    copy = folder / "store-copy"
    if copy.exists() and (copy / "meta.json").exists():
        Datastore.load(copy)


def test_a_killed_writer_leaves_a_whole_store(tmp_path):
    kill_repeatedly(tmp_path, n_kills=5, seed=0)


@pytest.mark.slow
def test_a_writer_killed_forty_times_leaves_a_whole_store(tmp_path):
    kill_repeatedly(tmp_path, n_kills=40, seed=1)


SAVER = """
import sys
import numpy as np
from knn_ue import KnnUE
from knn_ue.datastore import Datastore
from knn_ue.weighting import WeightParams

path, start = sys.argv[1], int(sys.argv[2])
for number in range(start, start + 10_000):
    print(f"begins {number}", flush=True)
    store = Datastore.build(np.full((200, 8), number), np.full(200, number))
    KnnUE(store, n_neighbors=3, params=WeightParams(alpha=1.0, tau=float(number))).save(path)
    print(f"acknowledged {number}", flush=True)
"""


@pytest.mark.slow
def test_a_killed_save_never_mixes_parameters_and_examples(tmp_path):
    from knn_ue import KnnUE

    path, moments, start = tmp_path / "ue", random.Random(0), 1
    for _ in range(25):
        lines = run_and_kill(SAVER, path, start, moments.uniform(0.02, 0.2))
        acknowledged = max((int(x.split()[1]) for x in lines if x.startswith("ack")), default=start - 1)
        if not (path / "meta.json").exists():
            assert acknowledged == start - 1 == 0
            continue

        ue = KnnUE.load(path)

        number = int(ue.params.tau)
        assert number >= acknowledged
        assert (ue.store.search(np.full((1, 8), number), 1).labels == number).all()
        start = number + 1
