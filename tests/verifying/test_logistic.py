"""The small logistic regressions, against an independent optimizer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from knn_ue.verifying.logistic import fit_kernel_logistic, fit_logistic, log_odds, sigmoid


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
    right = rng.random(80) < sigmoid(columns @ [0.5, 1.5, -0.3])
    return columns, right


def log_loss(logits, right):
    return np.logaddexp(0.0, np.where(right, -logits, logits)).sum()


def test_coefficients_have_the_highest_posterior(problem):
    columns, right = problem
    means, spreads = np.array([0.0, 0.9, 0.5]), np.array([1.0, 0.1, 0.2])

    found = fit_logistic(columns, right, means=means, spreads=spreads)

    def loss(x):
        return log_loss(columns @ x, right) + 0.5 * (((x - means) / spreads) ** 2).sum()

    best = minimize(loss, means, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found, best.x, atol=1e-4)


def test_no_rows_leave_the_means():
    found = fit_logistic(np.zeros((0, 2)), np.zeros(0, dtype=bool), means=np.array([0.0, 0.9]), spreads=np.ones(2))

    assert found.tolist() == [0.0, 0.9]


def test_separable_rows_stay_finite():
    columns = np.column_stack([np.ones(4), [-1e3, -1.0, 1.0, 1e3]])

    found = fit_logistic(columns, np.array([0, 0, 1, 1], dtype=bool), means=np.zeros(2), spreads=np.full(2, 10.0))

    assert np.isfinite(found).all() and found[1] > 0


def test_kernel_logistic_is_primal_logistic_regression_with_c_of_one(problem):
    rows, right = problem[0][:, 1:], problem[1]

    found = fit_kernel_logistic(rows @ rows.T, right)

    best = minimize(lambda x: log_loss(rows @ x[:2] + x[2], right) + 0.5 * (x[:2] ** 2).sum(), np.zeros(3))
    np.testing.assert_allclose(found.weights @ rows, best.x[:2], atol=1e-3)
    assert found.bias == pytest.approx(best.x[2], abs=1e-3)


def test_rows_that_are_all_right_stay_finite():
    found = fit_kernel_logistic(np.eye(20), np.ones(20, dtype=bool))

    assert 0.9 < found.predict(np.zeros((1, 20)))[0] < 1.0


def test_log_odds_undo_the_sigmoid():
    logits = np.array([-8.0, 0.0, 3.0])

    np.testing.assert_allclose(log_odds(sigmoid(logits)), logits)


def test_log_odds_of_impossible_and_certain_are_finite():
    assert np.isfinite(log_odds(np.array([0.0, 1.0]))).all()
