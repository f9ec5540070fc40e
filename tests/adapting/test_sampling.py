import numpy as np
import pytest

from knn_ue.adapting import draw_rows
from knn_ue.errors import InvalidInputError


@pytest.mark.parametrize("strategy", ["random", "stratified"])
@pytest.mark.parametrize("n", [1, 50, 99, 100, 500])
def test_rows_are_different_ones_of_the_pool(strategy, n):
    pool = np.random.default_rng(0).random(100)

    drawn = draw_rows(pool, n, strategy=strategy)

    assert len(drawn) == min(n, 100) == len(set(drawn.rows.tolist()))
    assert drawn.weights.sum() == pytest.approx(len(drawn))


@pytest.mark.parametrize("strategy", ["random", "stratified"])
def test_the_weighted_mean_is_unbiased(strategy):
    rng = np.random.default_rng(1)
    pool = rng.beta(8, 2, size=400)
    right = rng.random(400) < pool**2

    estimates = [
        np.average(right[d.rows], weights=d.weights)
        for d in (draw_rows(pool, 50, strategy=strategy, seed=seed) for seed in range(400))
    ]

    assert np.mean(estimates) == pytest.approx(right.mean(), abs=3 * np.std(estimates) / np.sqrt(400))


def test_strata_estimate_the_accuracy_better_than_chance():
    rng = np.random.default_rng(2)
    pool = rng.uniform(0.5, 1.0, size=2000)
    right = rng.random(2000) < np.where(pool > 0.75, 0.99, 0.6)

    spread = {
        strategy: np.std(
            [
                np.average(right[d.rows], weights=d.weights)
                for d in (draw_rows(pool, 50, strategy=strategy, seed=seed) for seed in range(300))
            ]
        )
        for strategy in ("random", "stratified")
    }

    assert spread["stratified"] < 0.85 * spread["random"]


def test_doubtful_rows_are_drawn_more_often_and_weigh_less():
    pool = np.r_[np.full(500, 0.55), np.full(500, 0.99)]

    drawn = draw_rows(pool, 50, strategy="stratified")
    doubtful = pool[drawn.rows] < 0.9

    assert doubtful.sum() > 30
    assert drawn.weights[doubtful].max() < drawn.weights[~doubtful].max()


def test_an_empty_pool_is_refused():
    with pytest.raises(InvalidInputError, match="the pool is empty"):
        draw_rows(np.empty(0), 5)
