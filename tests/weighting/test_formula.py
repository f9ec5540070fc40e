"""The weight: equal to the paper's formula, positive for every input, with the gradient it claims."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from knn_ue.arrays import softmax
from knn_ue.errors import InvalidInputError
from knn_ue.types import Neighbors
from knn_ue.weighting import WeightParams, agreement, knn_weight, knn_weight_gradient

PARAMS = WeightParams(alpha=0.5, tau=1.3, lam=0.7, b=0.1)


@pytest.fixture
def neighbors() -> Neighbors:
    rng = np.random.default_rng(0)
    distances = np.sort(rng.gamma(2.0, size=(40, 6)), axis=1)
    labels = rng.integers(0, 3, size=(40, 6))
    distances[0, 4:], labels[0, 4:] = np.inf, -1
    ids = np.where(labels < 0, -1, rng.integers(0, 99, size=(40, 6)))
    return Neighbors(ids=ids, distances=distances, labels=labels)


@pytest.fixture
def predicted():
    return np.random.default_rng(1).integers(0, 3, size=40)


def test_the_weight_equals_the_formula_computed_in_loops(neighbors, predicted):
    expected = reference.knn_weight(neighbors.distances, neighbors.labels, predicted, 0.5, 1.3, 0.7, 0.1)

    np.testing.assert_allclose(knn_weight(neighbors, predicted, PARAMS).total, expected, rtol=1e-12)


def test_the_paper_diagram_weighs_three_neighbors_as_computed_by_hand():
    near = Neighbors(ids=[[1, 2, 3]], distances=[[0.0, 1.0, 2.0]], labels=[[1, 1, 0]])
    params = WeightParams(alpha=0.5, tau=1.0, lam=0.5, b=0.1)

    weight = knn_weight(near, np.array([1]), params)

    assert weight.distance_term[0] == pytest.approx(0.5 / 3 * (1 + np.exp(-1) + np.exp(-2)))
    assert weight.label_term[0] == pytest.approx(0.5 * (2 / 3 + 0.1))


def test_without_lambda_there_is_no_label_term(neighbors, predicted):
    weight = knn_weight(neighbors, predicted, WeightParams(alpha=0.5, tau=1.3))

    np.testing.assert_array_equal(weight.label_term, 0.0)


def test_squared_distances_are_what_the_kernel_sees_on_request(neighbors, predicted):
    squared = Neighbors(ids=neighbors.ids, distances=neighbors.distances**2, labels=neighbors.labels)

    by_option = knn_weight(neighbors, predicted, PARAMS, distance="squared").total

    np.testing.assert_allclose(by_option, knn_weight(squared, predicted, PARAMS).total)


def test_a_row_without_neighbors_keeps_a_tiny_positive_weight():
    none = Neighbors(ids=[[-1, -1]], distances=[[np.inf, np.inf]], labels=[[-1, -1]])

    weight = knn_weight(none, np.array([0]), WeightParams(alpha=1.0, tau=1.0))

    assert 0 < weight.total[0] < 1e-9


def test_a_missing_neighbor_never_agrees():
    missing = Neighbors(ids=[[4, -1]], distances=[[1.0, np.inf]], labels=[[0, -1]])

    assert agreement(missing, np.array([0]))[0] == 0.5


positive = st.floats(1e-6, 1e6)


@settings(max_examples=200, deadline=None)
@given(
    distances=hnp.arrays(float, (5, 4), elements=st.floats(0, 1e9) | st.just(np.inf)),
    labels=hnp.arrays(np.int64, (5, 4), elements=st.integers(-1, 2)),
    logits=hnp.arrays(float, (5, 3), elements=st.floats(-1e4, 1e4)),
    params=st.builds(WeightParams, alpha=positive, tau=positive, lam=st.floats(0, 1e6), b=st.floats(0, 1e6)),
)
def test_the_weight_is_positive_and_keeps_the_prediction_for_every_input(distances, labels, logits, params):
    found = Neighbors(ids=np.maximum(labels, -1), distances=distances, labels=labels)
    predicted = logits.argmax(axis=1)

    weight = knn_weight(found, predicted, params).total

    assert (weight > 0).all()
    np.testing.assert_array_equal(softmax(logits, weight).argmax(axis=1), predicted)


@settings(max_examples=100, deadline=None)
@given(
    distances=hnp.arrays(float, (5, 4), elements=st.floats(0, 1e9) | st.just(np.inf)),
    params=st.builds(WeightParams, alpha=positive, tau=positive, lam=positive, b=st.floats(-1e6, 1e6)),
)
def test_the_floor_keeps_the_weight_positive_for_any_b(distances, params):
    found = Neighbors(ids=np.zeros((5, 4), int), distances=distances, labels=np.zeros((5, 4), int))

    assert (knn_weight(found, np.ones(5, int), params, positivity="floor").total > 0).all()


@pytest.mark.parametrize("positivity", ["bounded", "floor"])
@pytest.mark.parametrize(("place", "name"), list(enumerate(["alpha", "tau", "lam", "b"])))
def test_the_gradient_equals_finite_differences(neighbors, predicted, place, name, positivity):
    values = {"alpha": 0.05, "tau": 1.3, "lam": 0.04, "b": 0.1}

    def weight(step):
        moved = WeightParams(**{**values, name: values[name] + step})
        return knn_weight(neighbors, predicted, moved, positivity=positivity).total

    analytic = knn_weight_gradient(neighbors, predicted, WeightParams(**values), positivity=positivity)[:, place]

    np.testing.assert_allclose(analytic, (weight(1e-6) - weight(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (WeightParams(alpha=1.0, tau=1.0, lam=1.0, b=-0.5), "b must be at least 0, got -0.5"),
        (WeightParams(alpha=-1.0, tau=1.0), "alpha >= 0, tau > 0, lam >= 0"),
        (WeightParams(alpha=1.0, tau=0.0), "alpha >= 0, tau > 0, lam >= 0"),
        (WeightParams(alpha=1.0, tau=1.0, lam=1.0, b=float("nan")), "a finite b are needed"),
    ],
)
def test_parameters_that_could_turn_a_prediction_over_are_refused(params, words):
    with pytest.raises(InvalidInputError, match=words):
        params.check("bounded")
