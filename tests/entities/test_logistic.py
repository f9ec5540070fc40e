"""The signed regression: signs hold whatever the data say, and it never leaves sane ground."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic

GUESS = Guess(center=(0.0, 0.0), scale=(1.0, 1.0), intercept=0.0, slopes=(0.5, -0.5), strength=(1.0, 1.0))


def log_loss(model, values, true):
    q = model.probability(values)
    return -np.log(np.where(true, q, 1 - q)).mean()


def test_the_true_slopes_are_found_again():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 2))
    true = rng.random(20_000) < 1 / (1 + np.exp(-(0.5 + 1.5 * values[:, 0] - 0.7 * values[:, 1])))

    model = fit_signed_logistic(values, true, GUESS)

    np.testing.assert_allclose(np.array(model.slopes) / model.scale, [1.5, -0.7], atol=0.08)


def test_it_is_the_ridge_regression_that_scikit_learn_finds():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(300, 2))
    true = rng.random(300) < 1 / (1 + np.exp(-values @ [1.0, -1.0]))
    guess = Guess(
        center=(0.0, 0.0),
        scale=(1.0, 1.0),
        intercept=0.0,
        slopes=(1e-300, -1e-300),
        strength=(2.0, 2.0),
        intercept_strength=0.0,
    )

    ours = fit_signed_logistic(values, true, guess)

    columns = (values - np.array(ours.center)) / np.array(ours.scale)
    theirs = linear_model.LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(columns, true)
    np.testing.assert_allclose(ours.slopes, theirs.coef_[0], atol=1e-4)
    assert ours.intercept == pytest.approx(theirs.intercept_[0], abs=1e-4)


def test_a_slope_that_the_data_turn_around_is_zero():
    values = np.random.default_rng(0).normal(size=(500, 2))

    model = fit_signed_logistic(values, values[:, 0] < 0, GUESS)

    assert model.slopes[0] == 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_more_never_lowers_and_less_never_raises(seed, n_rows):
    rng = np.random.default_rng(seed)
    model = fit_signed_logistic(rng.normal(size=(n_rows, 2)) * 10, rng.random(n_rows) < 0.5, GUESS)
    row = rng.normal(size=(1, 2))

    steps = np.linspace(-100, 100, 41)

    rising = model.probability(row + steps[:, None] * [1.0, 0.0])
    falling = model.probability(row + steps[:, None] * [0.0, 1.0])
    assert (np.diff(rising) >= 0).all()
    assert (np.diff(falling) <= 0).all()


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("n_rows", [1, 3, 1000])
def test_rows_that_are_all_right_or_all_wrong_stay_finite_and_short_of_certain(answer, n_rows):
    values = np.random.default_rng(0).normal(size=(n_rows, 2))

    probability = fit_signed_logistic(values, np.full(n_rows, answer), GUESS).probability(values)

    assert ((probability > 0.0005) & (probability < 0.9995)).all()
    assert (probability.mean() > 0.5) == answer


def test_without_rows_it_is_the_guess():
    model = fit_signed_logistic(np.zeros((0, 2)), np.zeros(0, dtype=bool), GUESS)

    assert (model.intercept, model.slopes, model.center, model.scale) == (0.0, (0.5, -0.5), (0.0, 0.0), (1.0, 1.0))


def test_constant_columns_do_no_harm():
    values = np.ones((50, 2))

    model = fit_signed_logistic(values, np.arange(50) < 40, GUESS)

    assert model.probability(values)[0] == pytest.approx(0.8, abs=0.03)


def test_numbers_that_are_no_regression_are_refused():
    with pytest.raises(ValueError, match="is no logistic regression"):
        SignedLogistic(intercept=0.0, slopes=(1.0,), center=(0.0,), scale=(0.0,))
    with pytest.raises(ValueError, match="is no logistic regression"):
        SignedLogistic(intercept=float("nan"), slopes=(1.0,), center=(0.0,), scale=(1.0,))
