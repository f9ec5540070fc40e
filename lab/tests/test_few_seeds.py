"""What few seeds allow: equal methods are called different as rarely as the level says, far in the tails too."""

import math

import numpy as np
import pytest
from scipy import stats

from knn_ue_lab.reproduce.few_seeds import bound_and_p, bound_of, of_bound, tail
from knn_ue_lab.reproduce.statistics import Replicates


def compared_by_chance(rng, *, n_seeds, of_seeds, of_each=0.0, n_draws=500):
    """Return the comparison of two equal methods; texts scatter by 1, the same for all seeds.

    Seeds scatter by `of_seeds`, and what the texts do to the model of each seed by `of_each`.
    """
    measured = rng.normal() + of_seeds * rng.normal(size=n_seeds) + of_each * rng.normal(size=n_seeds)
    drawn = np.zeros((2, n_seeds, n_draws))
    drawn[0] = measured[:, None] + rng.normal(size=n_draws) + of_each * rng.normal(size=(n_seeds, n_draws))
    return Replicates(methods=("a", "b"), measured=np.stack([measured, np.zeros(n_seeds)]), drawn=drawn).compare(
        "a", "b"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_seeds", "of_seeds", "of_each"), [(3, 0.0, 0.0), (3, 1.0, 0.0), (3, 5.0, 0.0), (3, 0.0, 3.0), (8, 0.5, 3.0)]
)
def test_equal_methods_are_called_different_about_as_often_as_the_level_says(n_seeds, of_seeds, of_each):
    rng = np.random.default_rng(6)
    scatter = {"n_seeds": n_seeds, "of_seeds": of_seeds, "of_each": of_each}
    found = [compared_by_chance(rng, **scatter) for _ in range(600)]

    different = sum(one.low > 0 or one.high < 0 for one in found)
    sure = sum(one.p < 0.0025 for one in found)  # what Holm asks of the first of 20 claims
    # 30 and 1.5 expected.
    assert different < 45
    assert sure < 7
    if n_seeds == 8:  # and not much more rarely: an interval that is too wide hides what is there
        assert different > 14


def test_where_texts_suit_each_model_differently_the_interval_is_as_wide_as_the_mean_scatters():
    rng = np.random.default_rng(9)
    found = [compared_by_chance(rng, n_seeds=8, of_seeds=0.0, of_each=4.0) for _ in range(300)]

    scatter = np.std([one.difference for one in found])  # sqrt(1 + 16 / 8)
    width = np.mean([one.high - one.low for one in found]) / 2

    assert scatter == pytest.approx(math.sqrt(3), rel=0.15)
    assert 1.9 * scatter < width < 1.3 * 1.96 * scatter


def test_where_seeds_are_all_the_scatter_the_t_test_decides():
    measured = np.array([0.9, 1.0, 1.4])

    found = without_text_scatter(*measured)

    assert found.p == pytest.approx(stats.ttest_rel(measured, np.zeros(3)).pvalue)
    assert found.share == 1
    back = without_text_scatter(*-measured)
    assert (back.low, back.high, back.p) == pytest.approx((-found.high, -found.low, found.p))


def without_text_scatter(*differences):
    measured = np.array(differences, float)
    drawn = np.zeros((2, len(measured), 2000))
    drawn[0] = measured[:, None]
    return Replicates(methods=("a", "b"), measured=np.stack([measured, np.zeros(len(measured))]), drawn=drawn).compare(
        "a", "b"
    )


@pytest.mark.parametrize("differences", [(1, 3), (1, 2, 3), (0, 0.01, 3), (0, 0, 0, 0, 0, 0, 0, 8), (-1, 1)])
def test_without_scatter_of_texts_the_interval_is_that_of_the_t_test(differences):
    found = without_text_scatter(*differences)

    mean, error = np.mean(differences), np.std(differences, ddof=1) / math.sqrt(len(differences))
    half = stats.t.isf(0.025, len(differences) - 1) * error
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half), rel=1e-3)


def test_one_seed_has_the_interval_of_texts_alone():
    rng = np.random.default_rng(7)
    drawn = np.stack([rng.normal(size=(1, 50_000)), np.zeros((1, 50_000))])
    once = Replicates(methods=("a", "b"), measured=np.array([[1.0], [0.0]]), drawn=drawn).compare("a", "b")

    assert (once.low, once.high, once.share) == pytest.approx((1 - 1.96, 1 + 1.96, 0.0), abs=0.05)
    assert once.p == pytest.approx(2 * stats.norm.sf(1.0), abs=0.01)


def test_nothing_that_scatters_is_certain_and_nothing_that_is_unknown_is_tested():
    assert bound_and_p(0.5, 0.0, 0.0, 3) == (0.0, 0.0, 0.0)
    assert bound_and_p(0.0, 0.0, 0.0, 3) == (0.0, 1.0, 0.0)
    assert all(map(math.isnan, bound_and_p(0.5, math.nan, 0.1, 3)[:2]))


@pytest.mark.parametrize(("share", "freedom"), [(0.1, 1), (0.5, 2), (0.9, 7)])
def test_the_tail_is_that_of_a_normal_and_a_t_error_added(share, freedom):
    rng = np.random.default_rng(0)
    drawn = math.sqrt(1 - share**2) * rng.normal(size=400_000) + share * rng.standard_t(freedom, size=400_000)

    assert tail(2.5, share, freedom) == pytest.approx((drawn > 2.5).mean(), rel=0.05)
    assert (drawn > bound_of(share, freedom)).mean() == pytest.approx(0.025, rel=0.05)


def test_a_value_far_below_the_interval_is_excluded_less_surely_by_few_seeds():
    few, many = (of_bound(1.0, 0.0, -3.0, share=0.9, n_seeds=n) for n in (2, 8))

    assert of_bound(1.0, 0.0, -3.0) < many < 1e-4 < 0.01 < few
    assert of_bound(1.0, 0.0, 0.0, share=0.9, n_seeds=2) == pytest.approx(0.05, rel=0.01)  # at the bound itself


def test_without_any_scatter_every_lower_value_is_excluded():
    assert (of_bound(1.0, 1.0, 0.9), of_bound(1.0, 1.0, 1.1)) == (0.0, 1.0)
    assert math.isnan(of_bound(1.0, math.nan, 0.0))
