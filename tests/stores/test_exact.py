"""Exact search equals comparing with every row in float64, wherever the vectors lie and whatever the batch."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.stores import exact
from knn_ue.stores.exact import ExactIndex


def every_row(vectors, queries, k):
    """Brute force in float64, for arrays too large for plain loops."""
    gaps = vectors[None].astype(np.float64) - queries[:, None].astype(np.float64)
    distances = np.sqrt(np.square(gaps).sum(axis=2))
    order = np.lexsort((np.broadcast_to(np.arange(len(vectors)), distances.shape), distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


def normal(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def tight_clusters():
    centers = 1000 * normal(6, 24, seed=1)
    return centers[np.arange(3000) % 6] + 1e-4 * normal(3000, 24)


def many_copies():
    return normal(40, 24)[np.arange(3000) % 40]


VECTORS = {
    "plain": normal(3000, 24),
    "at offset 1000": normal(3000, 24) + 1000,
    "at offset 1000, close together": 1e-3 * normal(3000, 24) + 1000,
    "tight clusters": tight_clusters(),
    "many copies of each row": many_copies(),
    "whole numbers full of ties": np.round(normal(3000, 24)),
    "more rows than a block, full of ties": np.round(normal(20_000, 3)),
    "one column": normal(3000, 1),
    "tiny": 1e-14 * normal(3000, 24),
    "huge": 1e17 * normal(3000, 24),
    "one huge row among small ones": np.vstack((normal(2999, 24), np.full((1, 24), 1e15))),
}


@pytest.mark.parametrize("name", VECTORS)
def test_ids_and_distances_equal_brute_force(name):
    vectors = VECTORS[name].astype(np.float32)
    queries = np.vstack((vectors[:20], vectors[20:30] + vectors[30:40] / 7)).astype(np.float32)

    distances, rows = ExactIndex(vectors).search(queries, 10)

    expected_distances, expected_rows = every_row(vectors, queries, 10)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-12)


@pytest.mark.parametrize("name", VECTORS)
def test_excluded_rows_leave_the_nearest_of_the_others(name):
    vectors = VECTORS[name].astype(np.float32)
    excluded = np.random.default_rng(3).random(len(vectors)) < 0.7
    kept = np.flatnonzero(~excluded)

    rows = ExactIndex(vectors).search(vectors[:20], 10, excluded)[1]

    np.testing.assert_array_equal(rows, kept[every_row(vectors[kept], vectors[:20], 10)[1]])


@pytest.mark.parametrize("n_left", [0, 3, 10, 4000])
def test_the_few_that_are_left_of_the_first_rows_count(n_left):
    vectors = normal(9000, 8).astype(np.float32)
    excluded = np.arange(9000) < 8000 - n_left
    excluded[:n_left] = False  # the others that count are far behind
    kept = np.flatnonzero(~excluded)

    rows = ExactIndex(vectors).search(vectors[:20], 10, excluded)[1]

    np.testing.assert_array_equal(rows, kept[every_row(vectors[kept], vectors[:20], 10)[1]])


@pytest.mark.parametrize("name", VECTORS)
def test_neither_batch_size_nor_query_order_changes_a_bit(name):
    vectors = VECTORS[name].astype(np.float32)
    index = ExactIndex(vectors)
    queries = (vectors[:40] + vectors[40:80] / 7).astype(np.float32)
    order = np.random.default_rng(0).permutation(40)

    together = index.search(queries, 8)

    for shuffled, plain in zip(index.search(queries[order], 8), together, strict=True):
        np.testing.assert_array_equal(shuffled, plain[order])
    for number in range(0, 40, 9):
        for single, plain in zip(index.search(queries[number : number + 1], 8), together, strict=True):
            np.testing.assert_array_equal(single[0], plain[number])


@pytest.mark.parametrize("factor", [1024.0, 1 / 1024])
def test_a_scale_of_1024_scales_the_distances_exactly(factor):
    vectors = normal(2000, 32).astype(np.float32)

    distances, rows = ExactIndex(vectors).search(vectors[:50] / 3, 12)
    scaled_distances, scaled_rows = ExactIndex(vectors * np.float32(factor)).search(
        vectors[:50] / 3 * np.float32(factor), 12
    )

    np.testing.assert_array_equal(scaled_rows, rows)
    np.testing.assert_array_equal(scaled_distances, distances * factor)


@pytest.mark.slow
def test_constant_vectors_of_real_size_take_seconds_and_come_by_rising_id():
    vectors = np.full((7000, 384), 0.3, dtype=np.float32)

    start = time.process_time()
    distances, rows = ExactIndex(vectors).search(vectors[:2000], 32)

    assert time.process_time() - start < 8
    np.testing.assert_array_equal(rows, np.tile(np.arange(32), (2000, 1)))
    np.testing.assert_array_equal(distances, 0.0)


def test_vectors_constant_but_for_rounding_are_told_apart():
    vectors = (0.3 + 3e-8 * normal(4000, 48)).astype(np.float32)

    rows = ExactIndex(vectors).search(vectors[:30], 5)[1]

    np.testing.assert_array_equal(rows, every_row(vectors, vectors[:30], 5)[1])


def test_one_row_far_away_does_not_make_every_row_be_compared_directly(monkeypatch):
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(2, 3000, 16)).astype(np.float32)
    vectors[7] *= 1e6
    compared = []
    direct = exact.pair_distances
    monkeypatch.setattr(exact, "pair_distances", lambda *args: compared.append(len(args[-1])) or direct(*args))

    distances, rows = ExactIndex(vectors).search(queries[:20], 5)

    assert sum(compared) < 20 * 100
    expected_distances, expected_rows = every_row(vectors, queries[:20], 5)
    assert np.array_equal(rows, expected_rows)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-12)


def test_all_rows_excluded_gives_only_padding():
    distances, rows = ExactIndex(np.ones((5, 2), dtype=np.float32)).search(
        np.ones((2, 2), dtype=np.float32), 3, np.ones(5, dtype=bool)
    )

    assert (rows == -1).all()
    assert np.isinf(distances).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 80),
    n_columns=st.integers(1, 9),
    k=st.integers(1, 100),
    levels=st.sampled_from([1, 2, 5, 1000]),
    offset=st.sampled_from([0.0, 3.0, 4096.0]),
    exponent=st.integers(-30, 30),
    removed=st.floats(0.0, 1.0),
)
def test_any_small_store_equals_brute_force(seed, n_rows, n_columns, k, levels, offset, exponent, removed):
    rng = np.random.default_rng(seed)
    vectors = np.ldexp(rng.integers(levels, size=(n_rows, n_columns)) + offset, exponent).astype(np.float32)
    queries = np.ldexp(rng.integers(levels, size=(3, n_columns)) + offset, exponent).astype(np.float32)
    excluded = rng.random(n_rows) < removed
    kept = np.flatnonzero(~excluded)
    width = min(k, len(kept))

    distances, rows = ExactIndex(vectors).search(queries, k, excluded)

    expected_distances, expected_rows = every_row(vectors[kept], queries, k)
    np.testing.assert_array_equal(rows[:, :width], kept[expected_rows])
    np.testing.assert_array_equal(distances[:, :width], expected_distances)
    assert (rows[:, width:] == -1).all()
