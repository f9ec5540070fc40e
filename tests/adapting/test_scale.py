import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from knn_ue.adapting import (
    LabeledScores,
    average_log_scale,
    fit_log_scale,
    log_likelihood_gain,
    rescale,
    rescale_scores,
)
from knn_ue.arrays import softmax
from knn_ue.calibrators import TemperatureScaling
from knn_ue.errors import InvalidInputError
from knn_ue.toy import two_blobs


def some_rows(n=60, seed=0, times=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3))
    labels = np.array([rng.choice(3, p=row) for row in softmax(logits)])
    return softmax(times * logits), labels


def test_the_scale_is_the_minimum_that_a_plain_grid_finds():
    probs, labels = some_rows()

    found = fit_log_scale(LabeledScores.of_probs(probs, labels))

    assert found == pytest.approx(reference.log_scale(probs, labels, kappa=1.0), abs=2e-3)


def test_the_scale_undoes_overconfidence_where_labels_abound():
    probs, labels = some_rows(n=5000, times=3.0)

    assert np.exp(fit_log_scale(LabeledScores.of_probs(probs, labels))) == pytest.approx(1 / 3, rel=0.1)


def test_without_labels_the_scale_is_one():
    assert fit_log_scale(LabeledScores.of_probs(np.empty((0, 2)), np.empty(0, dtype=int))) == 0.0


def test_the_average_is_that_of_a_plain_sum_over_a_fine_grid():
    probs, labels = some_rows()

    found = average_log_scale(LabeledScores.of_probs(probs, labels))

    assert found == pytest.approx(reference.average_log_scale(probs, labels, kappa=1.0, unchanged=0.5), abs=2e-3)


def test_the_average_is_less_bold_than_the_best_scale_and_reaches_it_with_many_labels():
    few, many = (LabeledScores.of_probs(*some_rows(n=n)) for n in (20, 3000))

    assert 0 < average_log_scale(few) / fit_log_scale(few) < 1
    assert average_log_scale(many) == pytest.approx(fit_log_scale(many), abs=0.02)


def test_a_weight_of_two_equals_the_row_twice_in_the_unweighted_objective():
    probs, labels = some_rows()
    weights = np.where(np.arange(60) < 30, 2.0, 1.0)
    weighted = LabeledScores.of_probs(probs, labels, weights=weights)

    # The prior must weigh the same on both sides, so it is left out.
    repeated = np.repeat(np.arange(60), weights.astype(int))
    twice = fit_log_scale(LabeledScores.of_probs(probs[repeated], labels[repeated]), kappa=0.0)

    assert fit_log_scale(weighted, kappa=0.0) == pytest.approx(twice, abs=1e-5)


def test_uneven_weights_count_as_fewer_rows():
    probs, labels = some_rows()
    weights = np.r_[np.full(30, 9.0), np.full(30, 1.0)]

    counts = LabeledScores.of_probs(probs, labels, weights=weights).counts()

    assert counts.sum() == pytest.approx(300**2 / (30 * 81 + 30))
    assert counts[0] == pytest.approx(9 * counts[-1])


def test_scaling_probabilities_equals_scaling_the_weighted_logits():
    _, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    ue = TemperatureScaling().fit(validation)

    scaled = rescale(ue.predict_proba(test), -0.7)

    np.testing.assert_allclose(scaled, softmax(np.exp(-0.7) / ue.temperature_ * test.logits), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_no_scale_changes_a_prediction(seed, log_scale):
    probs, _ = some_rows(n=20, seed=seed)

    scaled = rescale(probs, log_scale)

    assert (scaled.argmax(axis=1) == probs.argmax(axis=1)).all()
    np.testing.assert_allclose(scaled.sum(axis=1), 1.0)


def test_the_odds_of_a_score_are_multiplied():
    scores = np.array([0.2, 0.5, 0.9])

    scaled = rescale_scores(scores, np.log(2.0))

    np.testing.assert_allclose(scaled / (1 - scaled), 2 * scores / (1 - scores), rtol=1e-12)
    np.testing.assert_array_equal(rescale_scores(scores, 0.0), scores)


def test_scores_that_are_too_high_by_a_shift_are_mended_where_a_power_of_the_odds_cannot():
    rng = np.random.default_rng(0)
    says = rng.uniform(0.2, 0.95, 4000)
    odds = says / (1 - says) * np.exp(-1.0)
    right = rng.random(4000) < odds / (1 + odds)
    labeled = LabeledScores.of_scores(says, right)

    found = fit_log_scale(labeled)

    assert found == pytest.approx(-1.0, abs=0.1)
    np.testing.assert_allclose(labeled.confidence(found), rescale_scores(says, found), rtol=1e-12)
    mean = np.where(right, rescale_scores(says, found), 1 - rescale_scores(says, found))
    np.testing.assert_allclose(labeled.losses(found), -np.log(mean), rtol=1e-9)


def test_scores_of_exactly_zero_and_one_stay_probabilities():
    scaled = rescale_scores(np.array([0.0, 1.0]), -1.0)

    assert np.isfinite(scaled).all() and scaled[0] < 1e-6 and scaled[1] > 1 - 1e-6


def test_the_gain_is_twice_the_difference_of_the_log_likelihoods():
    probs, labels = some_rows()
    labeled = LabeledScores.of_probs(probs, labels)

    before, after = (np.log(rescale(probs, t)[np.arange(60), labels]).sum() for t in (0.0, -0.8))

    assert log_likelihood_gain(labeled, -0.8) == pytest.approx(2 * (after - before))


def test_a_weight_that_is_not_positive_is_refused():
    probs, labels = some_rows()

    with pytest.raises(InvalidInputError, match="sample weights must lie within 1e-100"):
        LabeledScores.of_probs(probs, labels, weights=np.zeros(60))


def test_joined_labels_keep_their_rows_apart():
    probs, labels = some_rows(n=4)
    labeled = LabeledScores.of_probs(probs, labels, groups=np.array([0, 0, 1, 1]))

    assert labeled.joined(labeled).groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
