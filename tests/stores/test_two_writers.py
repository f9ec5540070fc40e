"""Two writers of one folder, killed at random moments: no acknowledged row is lost and no id is given twice."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from held import held
from knn_ue.errors import StorageError
from knn_ue.folder import changes
from knn_ue.folder import folder as folders
from knn_ue.folder.changes import remove_unnamed
from knn_ue.stores import Datastore, segment

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
    assert n_acknowledged(kill(tmp_path, 10, seed=0), 20) > 2


@pytest.mark.slow
def test_two_writers_killed_sixty_times_lose_nothing(tmp_path):
    assert n_acknowledged(kill(tmp_path, 60, seed=1), 120) > 10  # make torture kills thousands


FORKS = """
import os, signal, sys, threading, time
import numpy as np
from knn_ue.stores import Datastore
store, stop = Datastore.load(sys.argv[1]), []
def add():
    while not stop:
        store.add(np.ones((1, 4)), [1], texts=["parent"])
threads = [threading.Thread(target=add) for _ in range(2)]
[thread.start() for thread in threads]
children = []
for number in range(10):
    time.sleep(0.01)
    child = os.fork()
    if not child:
        signal.alarm(20)
        store.add(np.ones((1, 4)), [2], texts=["child"])
        os._exit(0)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.append(1)
[thread.join() for thread in threads]
print(codes)
"""


def test_children_forked_amid_changes_write_with_the_store_that_they_inherited(saved):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(saved)], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.stdout.strip() == str([0] * 10), done.stderr[-2000:]
    store = Datastore.load(saved)
    assert store.texts_of(store.ids).count("child") == 10


def test_what_another_writer_is_about_to_name_is_not_removed(saved):
    (saved / "fitted-0123456789abcdef").mkdir()

    with held(saved):
        remove_unnamed(saved)
        assert len(list(saved.glob("fitted-*"))) == 2
    remove_unnamed(saved)

    assert len(list(saved.glob("fitted-*"))) == 1
    assert len(Datastore.load(saved)) == 4


def test_a_first_save_that_fails_leaves_what_another_process_saved_first(tmp_path, monkeypatch):
    transaction = folders.transaction

    def too_late(folder, **options):
        monkeypatch.setattr(folders, "transaction", transaction)
        Datastore.build(np.eye(4), [0, 1, 2, 3]).save(folder)
        raise StorageError("no space")

    monkeypatch.setattr(folders, "transaction", too_late)
    with pytest.raises(StorageError, match="no space"):
        Datastore.build(np.eye(3), [0, 1, 2]).save(tmp_path / "store")

    assert len(Datastore.load(tmp_path / "store")) == 4


def test_nobody_waits_forever_for_a_writer_that_hangs_amid_its_commit(saved, monkeypatch):
    store = Datastore.load(saved)
    monkeypatch.setattr(changes, "PATIENCE", 0.2)

    with held(saved, "exclusive"):
        with pytest.raises(StorageError, match=r"is still being written by another process after 0.2 s: .* try again"):
            Datastore.load(saved)
        store.live.max_wait = 0.1
        with pytest.raises(StorageError, match=r"after 0.1 s"):
            store.live.refresh()

    assert len(Datastore.load(saved)) == 4


def test_a_folder_that_is_compacted_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    Datastore.build(np.eye(4), [0, 1, 2, 3], index="HNSW4").save(tmp_path / "store")
    other, read_index = Datastore.load(tmp_path / "store"), segment.read_index
    other.add(np.ones((1, 4)), [4])

    def too_late(*arguments):
        monkeypatch.setattr(segment, "read_index", read_index)
        other.compact()
        return read_index(*arguments)

    monkeypatch.setattr(segment, "read_index", too_late)

    assert len(Datastore.load(tmp_path / "store")) == 5
