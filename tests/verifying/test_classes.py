"""P(class | x): neighbors, pooling and tempering in plain loops."""

import math

import numpy as np
import pytest

from knn_ue.verifying.classes import (
    class_prior,
    fit_gamma,
    n_neighbors,
    neighbor_probs,
    pooled_log_probs,
    ridge_probs,
    tempered,
)


@pytest.fixture(scope="module")
def labeled():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T, rng.integers(0, 3, 60)


def slow_neighbors(similar, gold, prior, k):
    nearest = sorted(range(len(similar)), key=lambda row: -similar[row])[:k]
    weights = [math.exp((similar[row] - similar[nearest[0]]) / 0.1) for row in nearest]
    share = [
        sum(w for w, row in zip(weights, nearest, strict=True) if gold[row] == c) / sum(weights)
        for c in range(len(prior))
    ]
    return [(16 * s + 2 * p) / 18 for s, p in zip(share, prior, strict=True)]


def test_neighbors_vote_as_in_plain_loops(labeled):
    cosines, gold = labeled
    prior = class_prior(gold, 3)

    found = neighbor_probs(cosines[:4], gold, prior, left_out=False)

    expected = [slow_neighbors(line.tolist(), gold, prior, 7) for line in cosines[:4]]
    np.testing.assert_allclose(found, expected)


def test_a_left_out_row_is_not_its_own_neighbor(labeled):
    cosines, gold = labeled
    prior = class_prior(gold, 3)

    found = neighbor_probs(cosines, gold, prior, left_out=True)

    for i in range(len(gold)):
        others = np.arange(len(gold)) != i
        expected = slow_neighbors(cosines[i, others].tolist(), gold[others], prior, 7)
        np.testing.assert_allclose(found[i], expected)


@pytest.mark.parametrize(("m", "k"), [(3, 2), (30, 5), (60, 7), (128, 16), (1000, 16)])
def test_an_eighth_of_the_rows_votes_between_5_and_16(m, k):
    assert n_neighbors(m) == k


def test_no_class_falls_below_the_floor_of_the_ridge():
    found = ridge_probs(np.array([[0.8, -2.0, 0.1]]), np.array([0.2, 0.4, 0.4]))

    np.testing.assert_allclose(found, np.array([[1.0, 0.02, 0.5]]) / 1.52)


def test_views_are_pooled_by_their_geometric_mean_and_neighbors_count_half():
    ridge = [np.array([[0.8, 0.2]]), np.array([[0.5, 0.5]])]
    neighbors = [np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])]

    found = pooled_log_probs(ridge, neighbors)

    expected = (math.log(0.8 * 0.5) / 2 + 0.5 * math.log(0.9 * 0.4) / 2) / 1.5
    assert found[0, 0] == pytest.approx(expected)


def test_a_class_that_no_labeled_row_has_is_possible():
    cosines = np.ones((1, 60))

    neighbors = neighbor_probs(cosines, np.zeros(60, dtype=np.int64), np.array([1.0, 0.0]), left_out=False)

    assert np.isfinite(pooled_log_probs([np.array([[0.5, 0.5]])], [neighbors])).all()


@pytest.mark.parametrize("overconfident_by", [0.5, 2.0])
def test_gamma_undoes_probabilities_that_are_too_sure_or_not_sure_enough(overconfident_by):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 3000)
    gold = np.array([rng.choice(3, p=line) for line in probs])

    gamma = fit_gamma(overconfident_by * np.log(probs), gold)

    assert gamma == pytest.approx(1 / overconfident_by, rel=0.1)


def test_few_rows_do_not_move_gamma_far():
    log_probs = np.log([[0.6, 0.4], [0.6, 0.4]])

    assert 1.0 <= fit_gamma(log_probs, np.array([0, 0])) < 1.2


def test_tempered_probabilities_sum_to_one_however_small():
    np.testing.assert_allclose(tempered(np.array([[-900.0, -1000.0]]), 2.5).sum(axis=1), 1.0)
