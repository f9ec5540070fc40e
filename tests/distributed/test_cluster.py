"""A Ray that does not start is tried once more, and is then one sentence."""

import pytest

from knn_ue.distributed.cluster import cluster, in_parts
from knn_ue.errors import InvalidInputError

pytest.importorskip("ray")
pytestmark = pytest.mark.slow  # Ray takes a second to import


@pytest.fixture
def ray(monkeypatch):
    """Ray, of which the tests replace what starts a cluster."""
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    return ray


def failing(times, message):
    """Return a stand-in for `ray.init` that fails so often, and the list of its calls."""
    calls = []

    def init(**options):
        calls.append(options)
        if len(calls) <= times:
            raise Exception(message)

    return init, calls


def test_a_node_that_was_late_is_started_again(ray, monkeypatch):
    init, calls = failing(1, "The current node timed out during startup.")
    monkeypatch.setattr(ray, "init", init)

    with cluster(None, None) as n_workers:
        assert n_workers == 2

    assert len(calls) == 2 and calls[0] == calls[1]


def test_a_node_that_is_late_twice_is_one_sentence(ray, monkeypatch):
    init, calls = failing(5, "The current node timed out during startup.")
    monkeypatch.setattr(ray, "init", init)

    with pytest.raises(InvalidInputError, match=r"no Ray cluster answers at this machine .*timed out during startup"):
        cluster(None, 1).__enter__()

    assert len(calls) == 2


def test_any_other_failure_is_not_tried_again(ray, monkeypatch):
    init, calls = failing(5, "something else")
    monkeypatch.setattr(ray, "init", init)

    with pytest.raises(InvalidInputError, match="something else"):
        cluster(None, 1).__enter__()

    assert len(calls) == 1


def test_parts_hold_every_row_once_in_order():
    assert list(in_parts(iter(range(7)), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(in_parts([], 3)) == []
    with pytest.raises(InvalidInputError, match="part_rows must be a whole number of at least 1"):
        next(in_parts([1], 0))
