"""Neighbor coverage against sets."""

import numpy as np
import pytest

import reference
from knn_ue.errors import InvalidInputError
from knn_ue.metrics import neighbor_coverage


def distinct_ids(n_rows: int, n_neighbors: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = rng.random((n_rows, 60)).argsort(axis=1)[:, :n_neighbors]
    ids[rng.random(ids.shape) < 0.1] = -1
    return ids


@pytest.mark.parametrize(("k", "k2"), [(8, 8), (8, 3), (3, 20), (1, 1)])
def test_coverage_equals_the_reference(k: int, k2: int) -> None:
    exact, found = distinct_ids(200, k, seed=0), distinct_ids(200, k2, seed=1)

    result = neighbor_coverage(exact_ids=exact, found_ids=found)

    assert result == pytest.approx(reference.coverage(exact.tolist(), found.tolist()), abs=1e-12)


def test_coverage_of_more_rows_than_a_block_equals_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knn_ue.metrics.neighbors._BLOCK_IDS", 50)
    exact, found = distinct_ids(101, 8, seed=0), distinct_ids(101, 8, seed=1)

    result = neighbor_coverage(exact_ids=exact, found_ids=found)

    assert result == pytest.approx(reference.coverage(exact.tolist(), found.tolist()), abs=1e-12)


def test_an_exact_search_covers_itself() -> None:
    ids = distinct_ids(50, 8, seed=2)

    assert neighbor_coverage(exact_ids=ids, found_ids=ids) == 1.0


def test_the_order_of_rows_and_of_neighbors_never_matters() -> None:
    exact, found = distinct_ids(50, 8, seed=3), distinct_ids(50, 8, seed=4)

    result = neighbor_coverage(exact_ids=exact[::-1, ::-1], found_ids=found[::-1])

    assert result == neighbor_coverage(exact_ids=exact, found_ids=found)


def test_a_row_without_found_neighbors_counts_as_missed() -> None:
    assert neighbor_coverage(exact_ids=[[0, 1]], found_ids=[[-1, -1]]) == 0.0


def test_a_search_that_was_asked_for_nothing_covers_nothing() -> None:
    assert neighbor_coverage(exact_ids=[[0, 1]], found_ids=np.zeros((1, 0), dtype=int)) == 0.0


@pytest.mark.parametrize(
    ("exact", "found", "words"),
    [
        (np.zeros((0, 3), dtype=int), np.zeros((0, 3), dtype=int), "exact_ids is empty or holds only -1"),
        ([[-1, -1]], [[0, 1]], "exact_ids is empty or holds only -1: at least one neighbor is needed"),
        ([[0, 1]], [[0, 1], [0, 1]], "found_ids has 2 rows but 1 are expected"),
        ([[0.5, 1.0]], [[0, 1]], "exact_ids must be whole numbers of shape .* got dtype float64"),
        ([[0, 1]], [0, 1], r"found_ids must be .* and shape \(2,\): pass Neighbors.ids"),
    ],
)
def test_a_bad_input_is_named_in_the_error(exact: object, found: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        neighbor_coverage(exact_ids=exact, found_ids=found)
