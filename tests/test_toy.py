"""The toy problems are what their docstrings say."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.arrays import softmax
from knn_ue.calibrators import TemperatureScaling
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS, make_calibrator
from knn_ue.toy import pockets, two_blobs

SEEDS = (0, 1, 2)
QUICK = {"n_train": 1000, "n_validation": 800, "n_test": 1500, "n_out": 500}


def rows_in(outputs, region):
    return np.array([text.startswith(region) for text in outputs.texts])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overconfident_by", [0.5, 1.0, 3.0])
def test_temperature_scaling_recovers_how_overconfident_the_blobs_are(overconfident_by, seed):
    _, validation, _ = two_blobs(overconfident_by=overconfident_by, seed=seed)

    temperature = TemperatureScaling().fit(validation).temperature_

    assert temperature == pytest.approx(overconfident_by, rel=0.1)


def test_the_blobs_divided_by_their_overconfidence_are_calibrated():
    _, _, test = two_blobs(overconfident_by=3.0, n_test=50_000)

    error = metrics.debiased_calibration_error(probs=softmax(test.logits / 3.0), labels=test.labels)

    assert error < 0.005


def test_the_blobs_logits_are_the_true_log_odds_times_their_overconfidence():
    train, _, _ = two_blobs(overconfident_by=2.0)

    # log p(right) - log p(left) of two unit blobs at -1 and 1 is 2 x.
    np.testing.assert_allclose(
        train.logits[:, 1] - train.logits[:, 0], 4.0 * train.features[:, 0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("problem", [two_blobs, pockets])
def test_equal_seeds_give_equal_problems(problem):
    for first, second in zip(problem(seed=3), problem(seed=3), strict=True):
        np.testing.assert_array_equal(first.logits, second.logits)
        np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize("problem", [two_blobs, pockets])
def test_another_seed_gives_another_problem(problem):
    assert not np.array_equal(problem(seed=3)[0].logits, problem(seed=4)[0].logits)


@pytest.mark.parametrize("problem", [two_blobs, pockets])
def test_a_larger_test_set_leaves_the_training_rows_as_they_are(problem):
    np.testing.assert_array_equal(problem(n_test=10)[0].logits, problem(n_test=99)[0].logits)


@pytest.mark.parametrize("problem", [two_blobs, pockets])
def test_the_first_layer_is_constant(problem):
    for outputs in problem():
        assert (outputs.layers[0] == outputs.layers[0][0]).all()


@pytest.mark.parametrize("problem", [two_blobs, pockets])
@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"span-verdict"}))  # which reads sentences
def test_every_method_runs_on_the_toy_problems(problem, method):
    train, validation, test, *_ = problem(n_train=200, n_validation=200, n_test=50)

    probs = make_calibrator(method, train).fit(validation).predict_proba(test)

    np.testing.assert_allclose(probs.sum(axis=1), 1.0)


def test_the_text_of_a_row_says_where_it_is():
    train, _, _ = two_blobs(n_train=1, seed=0)
    x, y = train.features[0]

    assert train.texts == (f"blob {train.labels[0]} at ({x:.1f}, {y:.1f})",)


def test_the_model_is_as_confident_in_pockets_and_far_away_as_elsewhere():
    _, _, test, out = pockets(n_test=20_000, n_out=20_000)
    confidence = softmax(test.logits).max(axis=1)

    means = [confidence[rows_in(test, region)].mean() for region in ("plain", "pocket", "far")]

    np.testing.assert_allclose([*means, softmax(out.logits).max(axis=1).mean()], means[0], atol=0.01)


def test_four_of_five_labels_in_pockets_and_far_away_are_random():
    _, _, test, _ = pockets(n_test=30_000)
    correct = test.predicted == test.labels

    plain, pocket, far = (correct[rows_in(test, region)].mean() for region in ("plain", "pocket", "far"))

    np.testing.assert_allclose([pocket, far], 0.2 * plain + 0.8 / 3, atol=0.02)


def test_labels_out_of_domain_are_at_chance_level():
    *_, out = pockets(n_out=20_000)

    assert (out.predicted == out.labels).mean() == pytest.approx(1 / 3, abs=0.02)


def test_no_training_row_is_far():
    train, *_ = pockets()

    assert not rows_in(train, "far").any()


@pytest.mark.parametrize("seed", SEEDS)
def test_knn_ue_beats_temperature_scaling_where_labels_are_mixed_in_pockets(seed):
    train, validation, test, _ = pockets(seed=seed, **QUICK)

    scores = {}
    for method in ("temperature", "knn-ue"):
        probs = make_calibrator(method, train).fit(validation).predict_proba(test)
        correct = probs.argmax(axis=1) == test.labels
        scores[method] = (
            metrics.negative_log_likelihood(probs=probs, labels=test.labels),
            metrics.e_aurc(confidence=probs.max(axis=1), correct=correct),
        )

    assert scores["knn-ue"][0] < 0.95 * scores["temperature"][0]
    assert scores["knn-ue"][1] < 0.7 * scores["temperature"][1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_label_term_finds_the_pockets(seed):
    train, validation, test, _ = pockets(seed=seed, **QUICK)
    near = test.take(~rows_in(test, "far"))
    correct = near.predicted == near.labels

    areas = []
    for method in ("knn-ue-no-label", "knn-ue"):
        probs = make_calibrator(method, train).fit(validation).predict_proba(near)
        areas.append(metrics.auroc(confidence=probs.max(axis=1), correct=correct))

    assert areas[1] > areas[0] + 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_alone_tell_out_of_domain_rows_from_the_rest(seed):
    train, validation, test, out = pockets(seed=seed, **QUICK)
    calibrator = make_calibrator("knn-ue-no-label", train).fit(validation)

    inside, outside = (calibrator.predict_proba(outputs).max(axis=1) for outputs in (test, out))

    assert metrics.ood_detection(id_confidence=inside, ood_confidence=outside).auroc > 0.95


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_an_overconfidence_that_is_not_positive_is_refused(factor):
    with pytest.raises(InvalidInputError, match="overconfident_by must be above 0"):
        two_blobs(overconfident_by=factor)


@pytest.mark.parametrize("problem", [two_blobs, pockets])
def test_an_empty_training_set_is_refused(problem):
    with pytest.raises(InvalidInputError, match="n_train must be a whole number of at least 1, got 0"):
        problem(n_train=0)
