"""Parts of a data set: complete, apart, and the same everywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.data import split_rows
from knn_ue.data.splits import half_of, seeded_order
from knn_ue.errors import InvalidInputError

quick = settings(max_examples=60, deadline=None)


@quick
@given(n_rows=st.integers(10, 200), seed=st.integers(0, 5))
def test_every_row_is_in_exactly_one_part(n_rows: int, seed: int) -> None:
    parts = split_rows(range(n_rows), [0.5, 0.3, 0.2], seed=seed)

    assert sorted(row for part in parts for row in part) == list(range(n_rows))


def test_parts_have_the_sizes_asked_for() -> None:
    parts = split_rows(range(1000), [0.7, 0.15, 0.15], seed=0)

    assert [len(part) for part in parts] == [700, 150, 150]


def test_another_seed_draws_another_split() -> None:
    assert seeded_order(100, seed=0) != seeded_order(100, seed=1)


def test_the_second_half_has_the_odd_row() -> None:
    first, second = half_of(9_815, second=False, seed=0), half_of(9_815, second=True, seed=0)

    assert (len(first), len(second), len(first | second)) == (4_907, 4_908, 9_815)


def test_the_draw_never_changes() -> None:
    assert seeded_order(10, seed=0) == [7, 4, 9, 3, 8, 2, 6, 0, 5, 1]


@pytest.mark.parametrize("fractions", [[0.5, 0.4], [1.5, -0.5], [], [float("nan"), 1.0]])
def test_fractions_must_be_shares_of_a_whole(fractions: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="fractions must be above 0 and sum to 1"):
        split_rows(range(10), fractions, seed=0)


def test_an_empty_part_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="3 rows are too few"):
        split_rows(range(3), [0.9, 0.1], seed=0)


def test_no_rows_are_an_error() -> None:
    with pytest.raises(InvalidInputError, match="rows is empty"):
        split_rows([], [1.0], seed=0)
