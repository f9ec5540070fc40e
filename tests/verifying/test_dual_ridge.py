"""Ridge on inner products: its leave-one-out is what a fit without the row predicts."""

import numpy as np
import pytest

from knn_ue.verifying.dual_ridge import LAMBDAS, fit_ridge


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 6))
    rows /= np.sqrt((rows**2).sum(axis=1).mean())
    labels = (rows @ rng.normal(size=(6, 3)) + 0.3 * rng.normal(size=(30, 3))).argmax(axis=1)
    targets = np.eye(3)[labels] - np.bincount(labels, minlength=3) / 30
    return rows, targets


def slow_left_out(rows, targets, penalty):
    """Primal ridge regression, solved again for each row without it."""
    found = np.zeros_like(targets)
    for i in range(len(rows)):
        kept = np.arange(len(rows)) != i
        some = rows[kept]
        slopes = np.linalg.solve(some.T @ some + penalty * np.eye(rows.shape[1]), some.T @ targets[kept])
        found[i] = rows[i] @ slopes
    return found


def test_left_out_predictions_are_those_of_a_fit_without_the_row(problem):
    rows, targets = problem

    ridge = fit_ridge(rows @ rows.T, targets)

    np.testing.assert_allclose(ridge.left_out, slow_left_out(rows, targets, ridge.penalty), atol=1e-8)


def test_the_penalty_has_the_least_left_out_error(problem):
    rows, targets = problem
    errors = {penalty: ((targets - slow_left_out(rows, targets, penalty)) ** 2).sum() for penalty in LAMBDAS}

    assert fit_ridge(rows @ rows.T, targets).penalty == min(errors, key=errors.get)


def test_predictions_are_those_of_primal_ridge_regression(problem):
    rows, targets = problem
    new = np.random.default_rng(1).normal(size=(5, 6))

    ridge = fit_ridge(rows @ rows.T, targets)

    slopes = np.linalg.solve(rows.T @ rows + ridge.penalty * np.eye(6), rows.T @ targets)
    np.testing.assert_allclose(ridge.predict(new @ rows.T), new @ slopes, atol=1e-8)


def test_a_row_that_determines_its_own_fit_stays_finite():
    gram = np.diag([1e9, 1.0, 1.0])

    ridge = fit_ridge(gram, np.array([[1.0], [-0.5], [-0.5]]))

    assert np.isfinite(ridge.left_out).all()
