"""A writer stopped at any moment, by SIGKILL or Ctrl-C, leaves a whole state and loses nothing it acknowledged."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted_writer.py")


def interrupt(folder, n_times, sign, seed):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(n_times), str(int(sign)), str(seed)],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_writer_killed_at_random_moments_leaves_a_whole_state(tmp_path):
    assert "interrupted 40 times" in interrupt(tmp_path, 40, signal.SIGKILL, seed=0)


def test_a_writer_interrupted_from_the_keyboard_leaves_a_whole_state(tmp_path):
    assert "interrupted 40 times" in interrupt(tmp_path, 40, signal.SIGINT, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_writer_killed_hundreds_of_times_leaves_a_whole_state_each_time(tmp_path, seed):
    assert "interrupted 300 times" in interrupt(tmp_path, 300, signal.SIGKILL, seed)


@pytest.mark.slow
def test_a_writer_interrupted_hundreds_of_times_leaves_a_whole_state_each_time(tmp_path):
    assert "interrupted 300 times" in interrupt(tmp_path, 300, signal.SIGINT, seed=4)
