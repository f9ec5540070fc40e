"""Bootstrap intervals: what they cover, what they draw, what they ignore."""

import math

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.metrics import aurc, auroc, bootstrap_interval


def test_an_interval_contains_its_estimate_where_every_draw_exceeds_it():
    # Each value once: drawn with replacement, some are missing and others double, so no draw is as even as this.
    values = np.arange(50)

    found = bootstrap_interval(lambda drawn: float(np.bincount(drawn).max()), values, n_bootstrap=200)

    assert (found.low, found.estimate) == (1.0, 1.0)
    assert found.high > 1.0


def test_the_estimate_is_the_metric_of_the_data_itself() -> None:
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(100), rng.random(100) < 0.5

    found = bootstrap_interval(lambda c, ok: aurc(confidence=c, correct=ok), confidence, correct, n_bootstrap=20)

    assert found.estimate == aurc(confidence=confidence, correct=correct)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    half = 1.96 * values.std() / math.sqrt(2000)

    found = bootstrap_interval(np.mean, values, n_bootstrap=2000)

    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_a_higher_level_gives_a_wider_interval() -> None:
    values = np.random.default_rng(0).normal(size=100)

    narrow = bootstrap_interval(np.mean, values, level=0.5)
    wide = bootstrap_interval(np.mean, values, level=0.99)

    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.arange(50)

    assert bootstrap_interval(np.mean, values, seed=3) == bootstrap_interval(np.mean, values, seed=3)


def test_another_seed_gives_another_interval() -> None:
    values = np.arange(50)

    assert bootstrap_interval(np.mean, values, seed=3) != bootstrap_interval(np.mean, values, seed=4)


def test_all_arrays_are_drawn_alike() -> None:
    values = np.arange(40)

    found = bootstrap_interval(lambda a, b: float(np.abs(a + b).max()), values, -values, n_bootstrap=20)

    assert found.high == 0.0


def test_groups_are_drawn_whole() -> None:
    groups = np.array([5, 2, 5, 7, 2, 5])

    def is_whole(drawn: np.ndarray) -> float:
        return float(np.sum(drawn == 5) % 3 == 0 and np.sum(drawn == 2) % 2 == 0)

    assert bootstrap_interval(is_whole, groups, groups=groups).low == 1.0


def test_as_many_groups_are_drawn_as_there_are() -> None:
    groups = np.repeat(np.arange(10), 3)

    assert bootstrap_interval(len, groups, groups=groups).low == 30


def test_every_group_is_drawn_as_often_as_another() -> None:
    groups = np.repeat([0, 1, 2, 3], [1, 2, 3, 4])

    found = bootstrap_interval(lambda drawn: float(np.sum(drawn == 0)), groups, groups=groups, n_bootstrap=500)

    assert (found.low, found.high) == (0.0, 3.0)


def test_grouped_rows_give_a_wider_interval() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=50), 20)

    rows = bootstrap_interval(np.mean, values, n_bootstrap=300)
    grouped = bootstrap_interval(np.mean, values, groups=np.repeat(np.arange(50), 20), n_bootstrap=300)

    assert grouped.high - grouped.low > 2 * (rows.high - rows.low)


def test_draws_without_an_answer_are_left_out() -> None:
    found = bootstrap_interval(
        lambda c, ok: auroc(confidence=c, correct=ok), np.array([0.9, 0.5, 0.1]), np.array([1, 1, 0])
    )

    assert (found.low, found.high) == (1.0, 1.0)


def test_a_metric_without_an_answer_has_an_interval_of_nan() -> None:
    found = bootstrap_interval(lambda c: auroc(confidence=c, correct=np.ones(2)), np.array([0.9, 0.5]))

    assert np.isnan([found.low, found.high, found.estimate]).all()


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        ([], {}, "needs at least one array, got none"),
        ([[]], {}, "the first array is empty"),
        ([[1, 2], [1]], {}, "array 1 has 1 rows but 2 are expected"),
        ([[1, 2]], {"groups": [1]}, "groups has 1 rows but 2 are expected"),
        ([[1, 2]], {"level": 95}, "level must lie between 0 and 1, got 95: 0.95 is usual"),
        ([[1, 2]], {"n_bootstrap": 0}, "n_bootstrap must be a whole number of at least 1, got 0"),
    ],
)
def test_a_bad_input_is_named_in_the_error(arrays: list[list[int]], options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        bootstrap_interval(np.mean, *arrays, **options)
