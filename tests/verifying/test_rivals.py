"""The plain rivals: what they say, and that the verifier beats them where it must."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.verifying import fit_labels
from knn_ue.verifying.rivals import NeighborShare, fit_constant, fit_direct, fit_platt
from knn_ue.verifying.views import inner_views


@pytest.fixture(scope="module")
def verifier(labeled):
    return fit_labels(labeled.views, labeled.answers, labeled.gold, n_classes=3, n_answers=4)


@pytest.fixture(scope="module")
def inner(verifier, unlabeled):
    return inner_views(verifier.views, unlabeled.views)


def test_the_constant_is_the_shrunk_share_of_each_answer(labeled):
    fitted = fit_constant(labeled.answers, labeled.right, n_answers=4)

    for answer in range(4):
        rows = labeled.answers == answer
        expected = (labeled.right[rows].sum() + 4 * labeled.right.mean()) / (rows.sum() + 4)
        assert fitted.verdict(np.array([answer]))[0] == pytest.approx(expected)


def test_an_answer_that_was_never_given_gets_the_mean():
    fitted = fit_constant(np.array([0, 0]), np.array([True, False]), n_answers=2)

    assert fitted.verdict(np.array([1]))[0] == pytest.approx(0.5)


def test_platt_scaling_keeps_the_order_of_a_score_that_helps(labeled):
    fitted = fit_platt(labeled.own, labeled.right)

    assert (np.diff(fitted.verdict(np.linspace(0, 1, 20))) > 0).all()


def test_platt_scaling_gives_the_mean_score_to_unknown_ones(labeled):
    fitted = fit_platt(labeled.own, labeled.right)

    assert fitted.verdict(np.array([np.nan]))[0] == pytest.approx(fitted.verdict(np.array([fitted.mean]))[0])


def test_platt_scaling_of_nothing_known_is_a_constant(labeled):
    fitted = fit_platt(np.full(len(labeled.gold), np.nan), labeled.right)

    assert fitted.verdict(np.array([0.3, np.nan])).tolist() == pytest.approx([labeled.right.mean()] * 2, abs=0.01)


@pytest.mark.parametrize("crossed", [False, True])
def test_the_verifier_ranks_better_than_direct_regression(verifier, inner, labeled, unlabeled, crossed):
    direct = fit_direct(verifier.views, labeled.answers, labeled.right, n_answers=4, crossed=crossed)

    areas = [
        metrics.e_aurc(confidence=scores, correct=unlabeled.right)
        for scores in (verifier.verdict_of(inner, unlabeled.answers), direct.verdict_of(inner, unlabeled.answers))
    ]
    assert areas[0] < areas[1]


def test_direct_regression_is_logistic_regression_on_vectors_and_answers(verifier, inner, labeled, unlabeled):
    linear_model = pytest.importorskip("sklearn.linear_model")
    view, said = verifier.views["one"], np.eye(4)
    rows = np.hstack([view.prepared(labeled.views["one"]), said[labeled.answers]])
    new = np.hstack([view.prepared(unlabeled.views["one"]), said[unlabeled.answers]])

    ours = fit_direct({"one": view}, labeled.answers, labeled.right, n_answers=4)

    theirs = linear_model.LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(rows, labeled.right)
    found = ours.verdict_of({"one": inner["one"]}, unlabeled.answers)
    np.testing.assert_allclose(found, theirs.predict_proba(new)[:, 1], atol=1e-4)


def test_the_share_of_neighbors_is_zero_for_an_answer_that_is_no_class(inner, labeled, unlabeled):
    scores = NeighborShare(gold=labeled.gold, n_classes=3).verdict_of(inner, unlabeled.answers)

    assert not scores[unlabeled.answers == 3].any() and scores[unlabeled.answers < 3].min() > 0
