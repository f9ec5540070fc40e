"""A cell that was measured again is the same, as close as rounding makes it, or another one."""

import math

import pytest

from knn_ue_lab.reproduce.recheck import Difference, difference_of, largest_difference


def cell(**numbers):
    return {"sets": {"home": numbers}, "seconds": 1.0}


SEEDS = [cell(ece=ece, right=right) for ece, right in ((0.10, 0.80), (0.12, 0.82), (0.14, 0.84))]
FOUR = [*SEEDS, cell(ece=0.12, right=0.82)]


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
    assert f"in standard deviations over seeds: median {shift / 0.02:.2g}, most {shift / 0.02:.2g}" in str(found)


def test_one_number_that_is_far_off_is_not_hidden_by_all_others():
    seeds = [one["sets"]["home"] | {f"n{i}": 0.5 + place / 100 for i in range(9)} for place, one in enumerate(FOUR)]
    kept = cell(**seeds[0])

    found = difference_of(kept, cell(**(seeds[0] | {"ece": 0.001})), [cell(**one) for one in seeds])

    assert found.spreads == 0
    assert found.most_spreads > 4
    assert not found.is_close
    few = difference_of(kept, cell(**(seeds[0] | {"ece": 0.001})), [cell(**one) for one in seeds[:2]])
    assert few.is_close  # two seeds agree by chance


def test_a_number_that_no_seed_changes_must_not_change():
    seeds = [cell(ece=0.1 + place / 100, n=200) for place in range(4)]

    found = difference_of(seeds[0], cell(ece=0.1, n=100), seeds)

    assert math.isinf(found.most_spreads)
    assert not found.is_close


def test_one_seed_cannot_be_judged_unless_the_plain_model_has_more():
    again = cell(ece=0.1001, right=0.80)
    found = difference_of(SEEDS[0], again, SEEDS[:1])

    assert math.isnan(found.spreads)
    assert not found.is_judged
    assert str(found) == "differs by up to 0.1 %; one seed does not tell how much that is"
    judged = difference_of(SEEDS[0], again, SEEDS[:1], FOUR)
    assert judged.is_judged and judged.is_close
    assert not difference_of(SEEDS[0], cell(ece=0.2, right=0.9), SEEDS[:1], FOUR).is_close


def test_a_number_that_is_gone_makes_it_another_cell():
    found = difference_of(SEEDS[0], cell(ece=0.10), SEEDS)

    assert not found.is_close
    assert str(found) == "could not be compared"
    assert not Difference(largest=math.inf).is_close
