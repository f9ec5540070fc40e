"""A process that forks while one of its threads writes: neither it nor its children keep the lock, or half a change."""

import os
import signal
import threading
import time

import numpy as np

from knn_ue.stores import Datastore


def test_children_of_a_writer_hold_no_lock_and_may_write_themselves(tmp_path):
    rng = np.random.default_rng(0)
    Datastore.build(rng.normal(size=(50, 4)), rng.integers(0, 2, 50)).save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    ids, stop = [], threading.Event()

    def add():
        while not stop.is_set():
            ids.extend(store.add(np.ones((1, 4)), [1]).tolist())

    thread = threading.Thread(target=add)
    thread.start()
    idle, writing = [], []
    try:
        for number in range(20):
            pid = os.fork()
            if not pid:
                if number % 2:
                    time.sleep(120)  # a worker with other things to do
                os._exit(0 if len(Datastore.load(tmp_path / "store").add(np.zeros((1, 4)), [0])) else 1)
            (idle if number % 2 else writing).append(pid)
            time.sleep(0.01)
        ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in writing]
        n_before = len(ids)
        deadline = time.monotonic() + 60
        while len(ids) < n_before + 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join(60)
        for pid in idle:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    assert len(ids) >= n_before + 3 and not thread.is_alive()  # while ten children sleep
    assert ended == [0] * 10
    stored = Datastore.load(tmp_path / "store").ids.tolist()
    assert len(stored) == len(set(stored)) == 50 + len(ids) + 10 and set(ids) <= set(stored)
