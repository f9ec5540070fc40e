"""The league: three methods whose ranks, wins, ties and losses can be worked out by hand."""

import math

import numpy as np
import pytest

from knn_ue_lab.reproduce.league import Column, Record, league_of, placed, ranks, record_of
from knn_ue_lab.reproduce.league_grids import detection_grid, league_grid, measure_grid, rival_grid
from knn_ue_lab.reproduce.statistics import PairedTest


def paired(difference, p=0.001, n_seeds=3, **bounds):
    bounds = {"low": difference - 0.001, "high": difference + 0.001} | bounds
    return PairedTest(
        first=0.1 + difference, second=0.1, difference=difference, p=p, t_test=p, n_seeds=n_seeds, **bounds
    )


def column(values, tests=None, *, part="home", measure="ece", setup="sentiment", higher=False):
    """Return a column of percent: `values` is by method, a number a seed."""
    by_seed = {method: dict(enumerate(found)) for method, found in values.items()}
    return Column(
        setup=setup, part=part, measure=measure, values=by_seed, tests=tests or {}, unit=100.0, higher_is_better=higher
    )


# a is best on both sets, b and c change places.
HOME = column({"a": [1.0, 1.2], "b": [2.0, 2.2], "c": [3.0, 3.2]})
AWAY = column({"a": [1.0, 1.2], "b": [3.0, 3.2], "c": [2.0, 2.2]}, part="away")


def test_a_rank_is_the_share_of_the_other_methods_that_are_better():
    standings = {one.method: one for one in league_of([HOME, AWAY])}

    assert {name: one.rank for name, one in standings.items()} == {"a": 0.0, "b": 0.75, "c": 0.75}
    assert [one.method for one in league_of([HOME])] == ["a", "b", "c"]
    assert {one.n_columns for one in standings.values()} == {2}
    assert {one.n_seeds for one in standings.values()} == {2}


def ranked(*means):
    """Return the ranks of methods that share all their seeds."""
    wide = np.broadcast_to(means, (len(means), len(means)))
    return ranks(wide.T, wide).tolist()


def test_equal_methods_share_a_rank():
    assert ranked(0.1, 0.1, 0.1) == [0.5, 0.5, 0.5]
    assert ranked(0.2, 0.1, 0.2) == [0.75, 0.0, 0.75]


def test_two_methods_are_compared_by_the_seeds_that_both_have():
    found = column({"a": [9.0, 9.2, 1.0, 1.2], "b": [9.1, 9.3]})

    assert {one.method: one.rank for one in league_of([found])} == {"a": 0.0, "b": 1.0}
    assert found.is_better("a", "b") and not found.is_better("b", "a")

    easier = Column(setup="s", part="p", measure="ece", values={"a": {0: 9.0, 1: 1.0}, "b": {0: 8.9}})

    assert [one.method for one in league_of([easier])] == ["b", "a"]  # though the mean of a is lower
    assert easier.is_better("b", "a") and not easier.is_better("a", "b")


def test_methods_without_a_common_seed_are_not_compared():
    values = {"a": {0: 1.0, 1: 1.0}, "b": {0: 2.0}, "c": {1: 0.5}}
    found = Column(setup="s", part="p", measure="ece", values=values)

    assert {one.method: one.rank for one in league_of([found])} == {"a": 0.5, "b": 1.0, "c": 0.0}
    assert not found.is_better("b", "c") and not found.is_better("c", "b")


def test_what_two_digits_do_not_show_is_equal():
    same = column({"a": [1.001, 1.003], "b": [1.004, 1.002], "c": [2.0, 2.0]})

    assert {one.method: one.rank for one in league_of([same])} == {"a": 0.25, "b": 0.25, "c": 1.0}


def test_where_higher_is_better_the_highest_is_first():
    assert [one.method for one in league_of([column({"a": [70], "b": [90], "c": [80]}, higher=True)])] == [
        "b",
        "c",
        "a",
    ]


def test_a_missing_cell_leaves_a_method_out_of_that_column_alone():
    shorter = column({"a": [1.0], "c": [2.0]}, part="away")

    standings = {one.method: one for one in league_of([HOME, shorter])}

    assert {name: one.rank for name, one in standings.items()} == {"a": 0.0, "b": 0.5, "c": 1.0}
    assert {name: one.n_columns for name, one in standings.items()} == {"a": 2, "b": 1, "c": 2}
    assert {name: one.n_seeds for name, one in standings.items()} == {"a": 1, "b": 2, "c": 1}
    assert [one.method for one in placed(league_of([HOME, shorter]))] == ["a", "c"]


def test_nothing_measured_is_no_league():
    assert league_of([]) == []
    assert league_of([column({"a": [1.0]})]) == []


def test_the_interval_holds_the_rank_and_is_a_point_where_nothing_differs_between_sets_and_seeds():
    same = league_of([HOME, column({"a": [1.0, 1.2], "b": [2.0, 2.2], "c": [3.0, 3.2]}, part="away")])
    mixed = {one.method: one for one in league_of([HOME, AWAY])}

    assert all(one.low == one.rank == one.high for one in same)
    assert mixed["a"].low == mixed["a"].high == 0.0
    assert mixed["b"].low == pytest.approx(0.5, abs=0.02) and mixed["b"].high == pytest.approx(1.0, abs=0.02)


def test_one_set_with_one_seed_leaves_every_rank_possible():
    found = league_of([column({"a": [1.0], "b": [2.0]}), column({"a": [1.0], "b": [2.0]}, measure="brier")])

    assert [(one.rank, one.low, one.high) for one in found] == [(0.0, 0.0, 1.0), (1.0, 0.0, 1.0)]


def test_seeds_that_disagree_widen_the_interval():
    rng = np.random.default_rng(1)
    seeds = {"a": 2 + rng.normal(size=8), "b": 2.2 + rng.normal(size=8), "c": 9 + 0.1 * rng.normal(size=8)}

    found = {one.method: one for one in league_of([column(seeds)])}

    assert found["a"].low == 0.0 and found["a"].high == pytest.approx(0.5, abs=0.3) and found["a"].high > 0.2
    assert found["c"].low == found["c"].high == 1.0


def test_wins_ties_and_losses_are_those_of_the_paired_tests():
    tests = {("a", "b"): paired(-0.02), ("a", "c"): paired(-0.03, p=0.2), ("c", "b"): paired(0.01)}
    columns = [column({"a": [1.0] * 3, "b": [3.0] * 3, "c": [4.0] * 3}, tests)]

    assert record_of(columns, "a") == Record(wins=1, ties=1, losses=0)
    assert record_of(columns, "b") == Record(wins=1, ties=0, losses=1)
    assert record_of(columns, "b", "a") == Record(losses=1)
    assert str(record_of(columns, "c")) == "0 / 1 / 1"


def test_a_gain_in_a_measure_that_should_be_high_is_a_win():
    found = [column({"a": [90], "b": [80]}, {("a", "b"): paired(0.1)}, higher=True)]

    assert record_of(found, "a", "b") == Record(wins=1)
    assert record_of(found, "b", "a") == Record(losses=1)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (None, Record()),
        (paired(-0.02, p=math.nan), Record()),
        (paired(-0.02, n_seeds=1), Record()),
        (paired(-0.00004), Record(ties=1)),
        (paired(-0.02, p=0.05), Record(ties=1)),
        (paired(-0.02, low=-0.05, high=0.001), Record(ties=1)),
    ],
)
def test_what_was_not_tested_does_not_count_and_what_cannot_be_seen_is_a_tie(test, expected):
    found = column({"a": [1.0], "b": [2.0]}, {} if test is None else {("a", "b"): test})

    assert record_of([found], "a", "b") == expected


def test_the_grid_numbers_those_that_are_in_every_column_and_shows_all():
    ours = {"softmax": [4.0, 4.0], "knn-ue": [2.0, 2.0], "dac": [1.0, 1.0]}
    tagged = column({**ours, "knn-ue-entity": [0.5, 0.5]}, setup="ner")

    grid = league_grid([column(ours), tagged], [column(ours, part="away")])

    assert [line[:2] for line in grid.lines] == [
        ("1", "dac"),
        ("2", "knn-ue"),
        ("3", "softmax"),
        ("–", "knn-ue-entity"),  # last, however good it is where it was measured
    ]
    assert grid.lines[1][2].startswith("58 [50, 6")  # half of two others, two thirds of three
    assert grid.lines[3][4] == "–"
    assert {len(line) for line in grid.lines} == {len(grid.heading)}
    assert grid.strong == {(1, 1), (3, 1)}


def test_other_grids_have_a_line_for_each_method_and_say_where_there_is_nothing():
    inside = [column({"softmax": [4.0], "knn-ue": [2.0]}, {("knn-ue", "softmax"): paired(-0.02)})]
    detected = [column({"softmax": [70.0], "vim": [80.0]}, measure="detection_auroc", higher=True)]

    assert measure_grid(inside, []).lines == (("softmax", "100 [0, 100]", "–"), ("knn-ue", "0 [0, 100]", "–"))
    assert rival_grid(inside, []).lines == (("softmax", "1 / 0 / 0", "–"),)
    assert [line[1:5] for line in detection_grid(detected).lines] == [
        ("vim", "0 [0, 100]", "–", "80.0"),
        ("softmax", "100 [0, 100]", "–", "70.0"),
    ]
    assert league_grid([], []).lines == ()
