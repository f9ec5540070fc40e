"""Two writers of one folder, killed at random moments: no acknowledged row is lost and no id is given twice."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_writers.py")


def kill(folder, n_times, seed):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(n_times), str(seed)],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def n_acknowledged(shown, n_writers):
    """Return how many rows the killed writers had acknowledged, none of which is lost."""
    found = re.search(rf"killed {n_writers} writers, (\d+) rows acknowledged, none lost", shown)
    assert found, shown
    return int(found[1])


@pytest.mark.slow
def test_two_killed_writers_lose_nothing(tmp_path):
    assert n_acknowledged(kill(tmp_path, 10, seed=0), 20) > 5


@pytest.mark.slow
def test_two_writers_killed_sixty_times_lose_nothing(tmp_path):
    assert n_acknowledged(kill(tmp_path, 60, seed=1), 120) > 30  # make torture kills thousands
