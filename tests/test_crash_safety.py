"""A calibrator's folder whose writer is killed at a random moment: parameters and examples always belong together."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from knn_ue import KnnUE


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


SAVER = """
import sys
import numpy as np
from knn_ue import KnnUE
from knn_ue.stores import Datastore
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
