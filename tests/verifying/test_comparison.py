"""Does the verifier pay? The comparison, on new rows and on the labeled rows themselves."""

import numpy as np
import pytest

from knn_ue.verifying import compare, compare_cross_fitted, fit_labels
from knn_ue.verifying.comparison import RIVALS, Comparison

SIZES = {"n_classes": 3, "n_answers": 4}


@pytest.fixture(scope="module")
def on_new_rows(labeled, unlabeled):
    verifier = fit_labels(labeled.views, labeled.answers, labeled.gold, labeled.own, **SIZES)
    return compare(verifier, unlabeled.views, unlabeled.answers, unlabeled.gold, unlabeled.own)


@pytest.fixture(scope="module")
def cross_fitted(labeled):
    return compare_cross_fitted(labeled.views, labeled.answers, labeled.gold, labeled.own, **SIZES)


def test_every_rival_is_in_it(on_new_rows):
    assert set(on_new_rows.scores) == {"verifier", *RIVALS}


def test_without_own_scores_there_is_no_platt_scaling(labeled):
    found = compare_cross_fitted(labeled.views, labeled.answers, labeled.gold, **SIZES)

    assert set(found.scores) == {"verifier", *RIVALS} - {"platt"}


def test_a_verifier_that_sees_the_labels_pays(on_new_rows):
    assert on_new_rows.pays and on_new_rows.sentence().startswith("the verifier pays: E-AURC x1000 ")


def test_cross_fitted_areas_are_near_those_of_new_rows(on_new_rows, cross_fitted):
    for name, area in on_new_rows.e_aurc.items():
        assert cross_fitted.e_aurc[name] == pytest.approx(area, abs=0.08)


def test_a_verifier_that_is_worse_than_a_rival_does_not_pay():
    right = np.array([True, True, False, False])
    bad, good = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.9, 0.8, 0.2, 0.1])

    found = Comparison(scores={"verifier": bad, "constant": good}, right=right)

    assert found.sentence() == ("the verifier does not pay here: E-AURC x1000 638, a constant per answer 55, on 4 rows")
