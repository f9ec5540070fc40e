"""The fit: as good as an independent optimizer, and blind to the scale of features and logits."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from knn_ue.arrays import softmax
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors
from knn_ue.weighting import TAU_RANGE, agreement, fit_temperature, fit_weight, knn_weight
from knn_ue.weighting.fit import WeightProblem
from knn_ue.weighting.formula import ScaledLogits
from marks import slow_but


def log_loss(probs, labels):
    return -np.log(probs[np.arange(len(labels)), labels]).mean()


@pytest.fixture(scope="module")
def problem(hard_toy):
    train, validation, _, _ = hard_toy
    found = Datastore.build(train.features, train.labels).search(validation.features, 16)
    return validation, found


def independent_best(validation, found, use_labels):
    """Nelder-Mead from several starts on the literal formula, log-parameters, so that b >= 0."""
    z, y = validation.logits.astype(float), validation.labels
    shares = agreement(found, validation.predicted)
    unit = np.median(found.distances)
    low, high = np.log(unit * np.array(TAU_RANGE))

    def loss(theta):
        weight = np.exp(theta[0]) * np.exp(-found.distances / np.exp(np.clip(theta[1], low, high))).mean(axis=1)
        if use_labels:
            weight = weight + np.exp(theta[2]) * (shares + np.exp(theta[3]))
        return np.mean(logsumexp(weight[:, None] * z, axis=1) - weight * z[np.arange(len(y)), y])

    rng = np.random.default_rng(0)
    starts = [np.r_[0, np.log(unit), -1, -2] + rng.normal(size=4) for _ in range(6)]
    options = {"maxiter": 3000, "xatol": 1e-8, "fatol": 1e-12}
    return min(
        minimize(loss, start[: 4 if use_labels else 2], method="Nelder-Mead", options=options).fun for start in starts
    )


@pytest.mark.parametrize("use_labels", slow_but(False, [False, True]))
def test_the_loss_is_at_or_below_an_independent_optimizers(problem, use_labels):
    validation, found = problem

    params = fit_weight(validation.logits, validation.labels, found, use_labels=use_labels)

    weight = knn_weight(found, validation.predicted, params).total
    ours = log_loss(softmax(validation.logits, weight), validation.labels)
    assert ours <= independent_best(validation, found, use_labels) + 1e-7


@pytest.mark.parametrize("use_labels", [False, True])
@pytest.mark.parametrize("factor", [1024.0, 1 / 1024])
def test_scaling_all_distances_scales_tau_and_nothing_else(problem, use_labels, factor):
    validation, found = problem
    scaled = Neighbors(ids=found.ids, distances=found.distances * factor, labels=found.labels)

    plain = fit_weight(validation.logits, validation.labels, found, use_labels=use_labels)
    moved = fit_weight(validation.logits, validation.labels, scaled, use_labels=use_labels)

    assert moved.tau == pytest.approx(plain.tau * factor, rel=1e-9)
    assert moved.alpha == pytest.approx(plain.alpha, rel=1e-9)


def test_the_label_term_never_raises_the_validation_loss(problem):
    validation, found = problem

    losses = []
    for use_labels in (True, False):
        params = fit_weight(validation.logits, validation.labels, found, use_labels=use_labels)
        weight = knn_weight(found, validation.predicted, params).total
        losses.append(log_loss(softmax(validation.logits, weight), validation.labels))

    assert losses[0] <= losses[1] + 1e-9


@pytest.mark.parametrize("use_labels", [False, True])
def test_b_is_never_negative(problem, use_labels):
    validation, found = problem

    params = fit_weight(validation.logits, validation.labels, found, use_labels=use_labels)

    assert params.b >= 0
    assert params.lam >= 0


@pytest.mark.slow
def test_the_floor_is_at_least_as_good_as_the_bound(problem):
    validation, found = problem

    losses = {}
    for positivity in ("bounded", "floor"):
        params = fit_weight(validation.logits, validation.labels, found, use_labels=True, positivity=positivity)
        weight = knn_weight(found, validation.predicted, params, positivity=positivity).total
        losses[positivity] = log_loss(softmax(validation.logits, weight), validation.labels)

    assert losses["floor"] <= losses["bounded"] + 1e-5


def test_tau_stays_within_the_stated_range(problem):
    validation, found = problem
    unit = np.median(found.distances)

    params = fit_weight(validation.logits, validation.labels, found, use_labels=False, tau_range=(2.0, 3.0))

    assert 2.0 * unit * (1 - 1e-9) <= params.tau <= 3.0 * unit * (1 + 1e-9)


@pytest.mark.parametrize("width", [None, 0.3])
def test_the_gradient_of_the_loss_equals_finite_differences(problem, width):
    validation, found = problem
    logits = ScaledLogits.of(validation.logits, validation.labels)
    whole = WeightProblem(logits, found.distances, agreement(found, validation.predicted), width)
    theta = np.array([0.8, 0.3, 0.4, 0.1])

    numeric = [
        (whole.loss_and_gradient(theta + step)[0] - whole.loss_and_gradient(theta - step)[0]) / 2e-6
        for step in 1e-6 * np.eye(4)
    ]

    np.testing.assert_allclose(whole.loss_and_gradient(theta)[1], numeric, rtol=1e-5, atol=1e-9)


def test_the_curvature_of_the_loss_equals_finite_differences(problem):
    validation, _ = problem
    logits = ScaledLogits.of(validation.logits, validation.labels)
    weight = np.full(len(validation), 0.7)

    numeric = (logits.loss(weight + 1e-6)[1] - logits.loss(weight - 1e-6)[1]) / 2e-6

    np.testing.assert_allclose(logits.loss(weight, curvature=True)[2], numeric, rtol=1e-4, atol=1e-10)


def test_all_neighbors_missing_leaves_a_positive_finite_fit(problem):
    validation, found = problem
    nothing = Neighbors(
        ids=np.full_like(found.ids, -1),
        distances=np.full_like(found.distances, np.inf),
        labels=np.full_like(found.labels, -1),
    )

    params = fit_weight(validation.logits, validation.labels, nothing, use_labels=True)

    weight = knn_weight(nothing, validation.predicted, params).total
    assert np.isfinite(weight).all()
    assert (weight > 0).all()


def test_temperature_is_recovered(toy):
    assert fit_temperature(toy[1].logits, toy[1].labels) == pytest.approx(3.0, rel=0.2)


def test_temperature_minimises_the_log_loss(toy):
    validation = toy[1]
    best = fit_temperature(validation.logits, validation.labels)

    losses = [log_loss(softmax(validation.logits / t), validation.labels) for t in (best * 0.99, best, best * 1.01)]

    assert losses[1] == min(losses)


def test_temperature_is_positive_even_for_a_model_that_is_always_wrong(toy):
    validation = toy[1]

    assert fit_temperature(validation.logits, 1 - validation.predicted) > 0
