"""A writer stopped at any moment, by SIGKILL or Ctrl-C, leaves a whole state and loses nothing it acknowledged."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knn_ue.folder import changes
from knn_ue.stores import Datastore

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


@pytest.mark.slow
def test_a_writer_killed_at_random_moments_leaves_a_whole_state(tmp_path):
    assert "interrupted 40 times" in interrupt(tmp_path, 40, signal.SIGKILL, seed=0)


@pytest.mark.slow
def test_a_writer_interrupted_from_the_keyboard_leaves_a_whole_state(tmp_path):
    assert "interrupted 40 times" in interrupt(tmp_path, 40, signal.SIGINT, seed=1)


@pytest.mark.slow
def test_a_writer_killed_a_hundred_times_leaves_a_whole_state_each_time(tmp_path):
    assert "interrupted 100 times" in interrupt(tmp_path, 100, signal.SIGKILL, seed=2)


@pytest.mark.slow
def test_a_writer_interrupted_eighty_times_leaves_a_whole_state_each_time(tmp_path):
    assert "interrupted 80 times" in interrupt(tmp_path, 80, signal.SIGINT, seed=4)


class Interrupt(KeyboardInterrupt):
    """Ctrl-C at a chosen moment."""


def test_an_interrupt_between_disk_and_memory_is_taken_over_by_the_next_change(saved, monkeypatch):
    store, commit = Datastore.load(saved), changes._commit

    def interrupted(*arguments):
        commit(*arguments)
        raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(changes, "_commit", interrupted)
        store.add(np.ones((1, 4)), [5])

    assert store.add(np.ones((1, 4)), [6]).tolist() == [5]
    assert store.ids.tolist() == Datastore.load(saved).ids.tolist() == [0, 1, 2, 3, 4, 5]


def test_an_interrupt_while_a_change_is_written_leaves_a_store_that_goes_on(saved, monkeypatch):
    store, insert = Datastore.load(saved), changes.Transaction.insert

    def interrupted(*arguments):
        insert(*arguments)
        raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(changes.Transaction, "insert", interrupted)
        store.add(np.ones((1, 4)), [5])

    assert len(store) == 4
    assert store.add(np.ones((1, 4)), [6]).tolist() == [4]
    assert len(Datastore.load(saved)) == 5


@pytest.mark.parametrize("moment", ["part.write_arrays", "part.sync_tree", "changes._commit"])
def test_an_interrupt_during_save_leaves_the_old_store_and_no_litter(saved, moment, monkeypatch):
    before = list(saved.glob("fitted-*"))

    def interrupted(*_):
        raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(f"knn_ue.folder.{moment}", interrupted)
        Datastore.build(np.ones((2, 2)), [0, 1]).save(saved)

    assert list(saved.glob("fitted-*")) == before
    assert len(Datastore.load(saved)) == 4


def test_an_interrupt_just_after_the_commit_leaves_the_new_store(saved, monkeypatch):
    commit = changes._commit

    def interrupted(*arguments):
        commit(*arguments)
        raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(changes, "_commit", interrupted)
        Datastore.build(np.ones((2, 2)), [0, 1]).save(saved)

    assert len(Datastore.load(saved)) == 2
