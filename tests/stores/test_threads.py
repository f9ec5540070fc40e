"""A search in another thread meets the store before or after a change, never in between."""

import threading
import time

import numpy as np
import pytest

from knn_ue.stores import Datastore, IndexOptions


def search_while(store, change, seconds=0.5):
    """Search in two threads while `change(number)` is called again and again; return every result."""
    results, errors, done = [], [], threading.Event()

    def search():
        try:
            while not done.is_set():
                results.append(store.search(np.zeros((3, 2)), 50))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end and not errors:
        change(number)
        number += 1
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    return results


@pytest.mark.slow
@pytest.mark.parametrize("index", [IndexOptions(), IndexOptions(factory="IVF2,Flat", n_probe=2)])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_search_sees_all_of_a_change_or_nothing(index, on_disk, tmp_path):
    # Rows come and go in pairs with labels 2n and 2n + 1: half a pair would be half a change.
    rng = np.random.default_rng(0)
    store = Datastore.build(rng.normal(size=(40, 2)), np.arange(40), index=index)
    if on_disk:
        store.save(tmp_path / "store")
        store = Datastore.load(tmp_path / "store")

    def change(number):
        store.add(rng.normal(size=(2, 2)), [2 * number + 40, 2 * number + 41])
        store.remove(store.ids[:2])
        if number % 10 == 9:
            store.compact()

    results = search_while(store, change)

    assert len(results) > 10
    for found in results:
        labels = set(found.labels[found.ids >= 0].tolist())
        assert len(labels) in (40, 42)
        assert all(label ^ 1 in labels for label in labels)


def test_two_threads_that_add_lose_nothing(saved):
    store = Datastore.load(saved)

    def add(label):
        for _ in range(20):
            store.add(np.full((1, 4), label), [label])

    threads = [threading.Thread(target=add, args=(label,)) for label in (10, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(Datastore.load(saved)) == 44
    assert store.ids.tolist() == list(range(44))


def test_two_threads_that_load_leave_the_limits_of_faiss_as_they_were(tmp_path):
    import faiss

    Datastore.build(np.eye(30), np.arange(30), index="IVF4,Flat").save(tmp_path / "store")
    limits = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    threads = [
        threading.Thread(target=lambda: [Datastore.load(tmp_path / "store") for _ in range(20)]) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()) == limits
