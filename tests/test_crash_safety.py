"""A calibrator's folder whose writer is killed at a random moment: parameters and examples always belong together."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from killed_saver import save_for_ever
from knn_ue import KnnUE
from knn_ue.errors import StorageError
from torture.processes import kill, start

pytest.importorskip("transformers")  # loaded by the process that writers are forked from


def run_and_kill(path: Path, argument: int, n_lines: int, seconds: float) -> list[str]:
    """Run a writer, kill it `seconds` after so many lines, however slow the disk is, and return what it printed."""
    log = path.with_suffix(".log")
    log.unlink(missing_ok=True)
    writer = start(save_for_ever, path, log, argument)
    while not (log.exists() and log.read_text().count("\n") >= n_lines) and writer.is_alive():
        time.sleep(0.002)
    time.sleep(seconds)
    assert kill(writer) == -signal.SIGKILL, log.read_text()
    return log.read_text().splitlines()


@pytest.mark.slow
def test_a_killed_save_never_mixes_parameters_and_examples(tmp_path):
    path, moments, first = tmp_path / "ue", random.Random(0), 1
    for _ in range(25):
        lines = run_and_kill(path, first, moments.randint(1, 4), moments.uniform(0.0, 0.05))
        acknowledged = max((int(x.split()[1]) for x in lines if x.startswith("ack")), default=first - 1)
        try:
            ue = KnnUE.load(path)
        except StorageError:
            assert acknowledged == first - 1 == 0
            continue

        number = int(ue.params.tau)
        assert number >= acknowledged
        assert (ue.store.search(np.full((1, 8), number), 1).labels == number).all()
        first = number + 1
    assert first > 10  # most writers saved something before they were killed
