"""A cell that was measured again is the same, as close as rounding makes it, or another one."""

import math

import pytest

from knn_ue_reproduce.recheck import Difference, difference_of, largest_difference


def cell(**numbers):
    return {"sets": {"home": numbers}, "seconds": 1.0}


SEEDS = [cell(ece=ece, right=right) for ece, right in ((0.10, 0.80), (0.12, 0.82), (0.14, 0.84))]


def test_differences_between_cells_are_seen():
    kept = cell(ece=0.5, n=3)

    assert largest_difference(kept, cell(ece=0.55, n=3)) == pytest.approx(0.05 / 0.55)
    assert largest_difference(kept, cell(n=3)) == math.inf
    assert largest_difference({"x": "a"}, {"x": "b"}) == math.inf


def test_the_same_numbers_are_the_same_cell_however_long_they_took():
    found = difference_of(SEEDS[0], SEEDS[0] | {"seconds": 9.0}, SEEDS)

    assert str(found) == "the same"
    assert found.is_close


@pytest.mark.parametrize(("shift", "close"), [(0.001, True), (0.02, False)])
def test_a_difference_is_measured_in_the_scatter_of_seeds(shift, close):
    again = cell(ece=0.10 + shift, right=0.80 + shift)

    found = difference_of(SEEDS[0], again, SEEDS)

    assert found.spreads == pytest.approx(shift / 0.02)
    assert found.is_close is close
    assert f"half of the numbers by more than {shift / 0.02:.2g} standard deviations over seeds" in str(found)


def test_with_one_seed_nothing_but_the_same_is_close():
    found = difference_of(SEEDS[0], cell(ece=0.1001, right=0.80), SEEDS[:1])

    assert math.isnan(found.spreads)
    assert not found.is_close
    assert str(found) == "differs by up to 0.1 %"


def test_a_number_that_is_gone_makes_it_another_cell():
    found = difference_of(SEEDS[0], cell(ece=0.10), SEEDS)

    assert not found.is_close
    assert str(found) == "could not be compared"
    assert not Difference(largest=math.inf).is_close
