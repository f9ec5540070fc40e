"""Platt scaling of entities: the answer is known, and whole entities are what it is fitted on."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.entities import find_entities
from knn_ue.toy import tagged_sentences
from knn_ue_lab.reproduce.entity_platt import EntityPlatt, fit_platt, log_odds, product_confidence
from knn_ue_lab.reproduce.variants import ENTITY_PLATT, MethodVariant, methods_of


def test_the_map_that_made_the_answers_is_found():
    rng = np.random.default_rng(0)
    odds = rng.normal(1.0, 2.0, size=20_000)
    right = rng.random(len(odds)) < 1 / (1 + np.exp(-(0.5 * odds - 0.7)))

    slope, intercept = fit_platt(odds, right)

    assert slope == pytest.approx(0.5, abs=0.03)
    assert intercept == pytest.approx(-0.7, abs=0.05)


def test_it_is_logistic_regression_on_smoothed_targets():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    odds = rng.normal(size=400)
    right = rng.random(400) < 0.7

    slope, intercept = fit_platt(odds, right)

    n_right = right.sum()
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (400 - n_right + 2))
    oracle = linear.LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(
        np.tile(odds, 2)[:, None], np.repeat([1, 0], 400), sample_weight=np.concatenate([targets, 1 - targets])
    )
    assert slope == pytest.approx(oracle.coef_[0, 0], abs=1e-4)
    assert intercept == pytest.approx(oracle.intercept_[0], abs=1e-4)


def test_the_confidence_of_an_entity_is_the_product_over_its_words():
    _, _, test = tagged_sentences(seed=0)
    spans = find_entities(test, test.predicted)
    shifted = np.exp(test.logits - test.logits.max(axis=1, keepdims=True))
    words = (shifted / shifted.sum(axis=1, keepdims=True)).max(axis=1)

    found = product_confidence(test, spans)

    expected = [np.prod(words[first : last + 1]) for first, last in zip(spans.first, spans.last, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_factors_multiply_to_the_score_and_make_scores_match_how_often_entities_are_right():
    _, validation, test = tagged_sentences(seed=0)
    platt = EntityPlatt.fit(validation)
    spans, gold = find_entities(test, test.predicted), find_entities(test, test.labels)

    factors = platt.factors(test)

    scores = factors[spans.first]
    expected = 1 / (1 + np.exp(-(platt.slope * log_odds(product_confidence(test, spans)) + platt.intercept)))
    np.testing.assert_allclose(scores, expected)
    assert (np.delete(factors, spans.first) == 1).all()
    assert scores.mean() == pytest.approx(spans.same_in(gold).mean(), abs=0.05)


def test_without_entities_it_changes_nothing():
    _, validation, _ = tagged_sentences(seed=0)
    outside = np.zeros_like(validation.logits)
    outside[:, validation.class_names.index("O")] = 5.0

    platt = EntityPlatt.fit(replace(validation, logits=outside))

    assert platt == EntityPlatt(1.0, 0.0)
    assert log_odds(np.array([0.0, 1.0])) == pytest.approx([-27.6, 27.6], abs=0.1)


def test_it_is_a_method_of_taggers_that_reads_the_plain_model():
    variant = MethodVariant(method=ENTITY_PLATT)

    assert variant.is_post_hoc
    assert ENTITY_PLATT in methods_of("token-classification")
    assert ENTITY_PLATT not in methods_of("text-classification")
