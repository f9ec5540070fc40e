"""Methods of others: each against a slow version, a known answer, or its authors' own package."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.arrays import softmax
from knn_ue.calibrators import TemperatureScaling
from knn_ue.calibrators.top_label import with_top
from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore
from knn_ue.toy import two_blobs
from knn_ue.types import Neighbors, Outputs
from knn_ue_lab.calibrators import (
    IsotonicCalibration,
    MatrixScaling,
    NonparametricUncertainty,
    ProximityCalibration,
    SdmActivation,
    VectorScaling,
)
from knn_ue_lab.calibrators.nuq import label_shares, log_uncertainty
from knn_ue_lab.calibrators.procal import kernel_density
from knn_ue_lab.calibrators.sdm import distance_quantile, similarity_count
from knn_ue_lab.calibrators.structured_scaling import fit_affine


def outputs_of(logits, labels, features=None):
    return Outputs(logits=logits, labels=labels, features=features)


def random_logits(n_rows, n_classes, seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_rows, n_classes)) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "theirs"), [(VectorScaling, "SVSCalibrator"), (MatrixScaling, "SMSCalibrator")])
def test_structured_scaling_is_that_of_the_authors(ours, theirs):
    package = pytest.importorskip("probmetrics.calibrators.logistic")
    logits, labels = random_logits(400, 4, seed=0)
    logits[:, 2] *= 0.5

    fitted = ours().fit(outputs_of(logits, labels))
    tempered = fitted._tempered(outputs_of(logits, labels))
    expected = getattr(package, theirs)(print_init_info=False)
    n, k = logits.shape
    penalties = {"reg_intercept": k / n, "reg_diagonal": k / n}
    if theirs == "SMSCalibrator":
        penalties["reg_off_diagonal"] = k * (k - 1) / n
    import torch

    found = expected._fit_bfgs(torch.tensor(tempered), torch.tensor(labels), num_classes=k, **penalties)

    if theirs == "SMSCalibrator":
        np.testing.assert_allclose(np.eye(k) + fitted.matrix_, found[:, :k], atol=2e-3)
        np.testing.assert_allclose(fitted.bias_, found[:, k], atol=2e-3)
    else:
        np.testing.assert_allclose(1 + fitted.matrix_.diagonal(), found[0], atol=2e-3)
        np.testing.assert_allclose(fitted.bias_, found[1], atol=2e-3)


def biased_rows(n_rows, seed):
    """Logits of four classes, the first of them too high by 0.8, and the labels."""
    logits, labels = random_logits(n_rows, 4, seed=seed)
    return logits + np.array([0.8, 0.0, 0.0, 0.0]), labels


@pytest.mark.slow
@pytest.mark.parametrize(("free", "theirs"), [(np.eye(4), "SVSCalibrator"), (np.ones((4, 4)), "SMSCalibrator")])
def test_the_affine_fit_on_log_probabilities_gives_the_scores_of_the_authors(free, theirs):
    package = pytest.importorskip("probmetrics.calibrators")
    (logits, labels), (asked, _) = biased_rows(300, seed=3), biased_rows(500, seed=103)
    expected = getattr(package.logistic, theirs)(print_init_info=False).fit(softmax(logits), labels)
    tempered = package.get_calibrator("ts-mix").fit(softmax(logits), labels)

    known, queries = (np.log(tempered.predict_proba(softmax(z))) for z in (logits, asked))
    matrix, bias = fit_affine(known, labels, free=free)

    # With half or twice the penalty they are at least 0.01 apart.
    found = softmax(queries + queries @ matrix.T + bias)
    np.testing.assert_allclose(found, expected.predict_proba(softmax(asked)), atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs", "largest"), [(VectorScaling, "SVSCalibrator", 0.02), (MatrixScaling, "SMSCalibrator", 0.009)]
)
def test_centered_logits_give_scores_near_those_of_the_authors(ours, theirs, largest):
    package = pytest.importorskip("probmetrics.calibrators")
    gaps, gaps_of_temperature = [], []
    for seed in range(4):
        (logits, labels), (asked, _) = biased_rows(300, seed=seed), biased_rows(500, seed=100 + seed)
        validation, test = outputs_of(logits, labels), Outputs(logits=asked)
        fitted = getattr(package.logistic, theirs)(print_init_info=False).fit(softmax(logits), labels)
        expected = fitted.predict_proba(softmax(asked))

        gaps.append(np.abs(ours().fit(validation).predict_proba(test) - expected).mean())
        plain = TemperatureScaling().fit(validation).predict_proba(test)
        gaps_of_temperature.append(np.abs(plain - expected).mean())

    assert np.mean(gaps) < largest
    assert np.mean(gaps) < np.mean(gaps_of_temperature) / 2


def test_structured_scaling_finds_a_bias_that_was_added_to_one_class():
    logits, labels = random_logits(20_000, 3, seed=1)
    shifted = logits + np.array([1.5, 0.0, 0.0])

    calibrator = VectorScaling().fit(outputs_of(shifted, labels))
    bias = calibrator.bias_ - calibrator.bias_[1]

    np.testing.assert_allclose(bias, [-1.5, 0.0, 0.0], atol=0.1)


def test_the_affine_fit_has_no_slope_left():
    logits, labels = random_logits(200, 3, seed=2)
    matrix, bias = fit_affine(logits, labels, free=np.ones((3, 3)))

    def objective(w, b):
        moved = logits + logits @ w.T + b
        log_probs = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
        off = (w**2).sum() - (w.diagonal() ** 2).sum()
        penalty = 3 / 200 * ((b**2).sum() + (w.diagonal() ** 2).sum()) + 6 / 200 * off
        return -log_probs[np.arange(200), labels].mean() + penalty

    best = objective(matrix, bias)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(matrix + 0.01 * rng.normal(size=(3, 3)), bias + 0.01 * rng.normal(size=3)) >= best - 1e-9


def pool_adjacent_violators(values):
    """Return the rising fit, by merging neighbors that fall until none does."""
    blocks = [[value, 1] for value in values]
    place = 0
    while place < len(blocks) - 1:
        if blocks[place][0] > blocks[place + 1][0]:
            (a, n), (b, m) = blocks[place], blocks[place + 1]
            blocks[place : place + 2] = [[(a * n + b * m) / (n + m), n + m]]
            place = max(place - 1, 0)
        else:
            place += 1
    return [value for value, count in blocks for _ in range(count)]


@given(st.lists(st.booleans(), min_size=2, max_size=12))
def test_isotonic_values_are_those_of_pool_adjacent_violators(correct):
    n_rows = len(correct)
    calibrator = IsotonicCalibration()

    calibrator._fit_top(None, np.linspace(0.5, 0.99, n_rows), np.array(correct))

    expected = np.clip(pool_adjacent_violators([float(x) for x in correct]), 1 / (n_rows + 2), 1 - 1 / (n_rows + 2))
    np.testing.assert_allclose(calibrator.values_, expected, atol=1e-12)


def test_the_rest_of_the_probability_keeps_its_proportions():
    found = with_top(np.array([[0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]), np.array([0, 0]), np.array([0.2, 0.4]))

    np.testing.assert_allclose(found, [[0.2, 0.6, 0.2], [0.4, 0.3, 0.3]])


def test_the_kernel_density_is_the_mean_of_gaussians():
    rng = np.random.default_rng(0)
    points, queries = rng.random((30, 2)), rng.random((4, 2))
    widths = [1.06 * points[:, i].std() * 30 ** (-1 / 6) for i in (0, 1)]

    expected = [
        sum(
            math.prod(
                math.exp(-0.5 * ((query[i] - point[i]) / widths[i]) ** 2) / (widths[i] * math.sqrt(2 * math.pi))
                for i in (0, 1)
            )
            for point in points
        )
        / 30
        for query in queries
    ]

    np.testing.assert_allclose(kernel_density(points, queries), expected, rtol=1e-9)


def test_proximity_is_that_of_the_ten_nearest_validation_rows():
    rng = np.random.default_rng(1)
    validation = outputs_of(*random_logits(40, 2, seed=3), features=rng.normal(size=(40, 3)))
    test = outputs_of(*random_logits(5, 2, seed=4), features=rng.normal(size=(5, 3)))
    fitted = ProximityCalibration().fit(validation)
    center, scale = validation.features.mean(axis=0), np.sqrt(validation.features.var(axis=0) + 1e-5)
    known, asked = (validation.features - center) / scale, (test.features - center) / scale

    expected = [
        sum(sorted((math.exp(-sum((row - x) ** 2) / 3) for x in known), reverse=True)[:10]) / 10 for row in asked
    ]

    np.testing.assert_allclose(fitted.proximity(test), expected, rtol=1e-4)


def test_procal_trusts_rows_near_validation_rows_that_were_right_more():
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(300, 2)) * 0.1, rng.normal(size=(300, 2)) * 3 + 20
    features = np.concatenate([near, far])
    logits = np.tile([0.0, 1.0], (600, 1))
    labels = np.concatenate([np.ones(300, int), rng.integers(0, 2, 300)])

    fitted = ProximityCalibration().fit(outputs_of(logits, labels, features))
    confidence = fitted.predict_proba(outputs_of(logits, labels, features))[:, 1]

    assert confidence[:300].mean() > confidence[300:].mean() + 0.05


def test_nuq_shares_and_uncertainty_follow_their_formulas():
    near = Neighbors(ids=[[0, 1, -1]], distances=[[1.0, 2.0, np.inf]], labels=[[1, 0, -1]])
    shares, log_mass = label_shares(near, 1.0, 2)
    kernel = [math.exp(-0.5), math.exp(-2.0)]
    mass = sum(kernel) + 1e-3
    expected = [(kernel[1] + 5e-4) / mass, (kernel[0] + 5e-4) / mass]

    np.testing.assert_allclose(shares[0], expected)
    assert log_mass[0] == pytest.approx(math.log(mass))
    tau = math.sqrt(expected[0] * expected[1] * 2 ** (-4 / 2) / mass)
    total = 1 - max(expected) + 2 * math.sqrt(2 / math.pi) * tau
    assert log_uncertainty(shares, log_mass, 4)[0] == pytest.approx(math.log(total))


def test_nuq_is_less_certain_far_from_the_training_rows():
    train, validation, test = two_blobs(seed=0)
    fitted = NonparametricUncertainty(Datastore.build(train.features, train.labels)).fit(validation)
    far = Outputs(logits=test.logits, features=test.features + 100.0)

    assert fitted.score(far).min() > fitted.score(test).max()


def test_sdm_counts_agreeing_neighbors_up_to_the_first_that_does_not():
    near = Neighbors(
        ids=[[0, 1, 2, 3], [0, 1, 2, -1]],
        distances=[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, np.inf]],
        labels=[[1, 1, 0, 1], [1, 1, 1, -1]],
    )
    right = np.array([[True, True, True, True], [True, False, True, True]])

    np.testing.assert_array_equal(similarity_count(near, right, np.array([1, 1])), [2, 1])


def test_sdm_is_the_activation_of_the_authors():
    package = pytest.importorskip("reexpress_sdm.math")
    train, validation, test = two_blobs(seed=0)
    right = train.predicted == train.labels
    fitted = SdmActivation(Datastore.build(train.features, train.labels), right, n_neighbors=16).fit(validation)
    near = fitted.search(test)["store"]
    q = fitted._similarity(test, near)
    cdfs = [fitted.distances_[fitted.classes_ == label] for label in (0, 1)]

    d = package.distance_quantiles(near.distances[:, 0], cdfs)
    np.testing.assert_allclose(
        distance_quantile(near.distances[:, 0], fitted.distances_, fitted.classes_), d, atol=3e-3
    )
    d = distance_quantile(near.distances[:, 0], fitted.distances_, fitted.classes_)
    expected = package.sdm_probabilities(test.logits / fitted.temperature_, q, d)
    np.testing.assert_allclose(fitted.predict_proba(test), expected, atol=1e-5)


def test_sdm_leaves_out_a_class_without_distances_where_the_authors_give_up():
    nearest, distances, classes = np.array([0.5, 2.5, 1e6]), np.array([1.0, 2.0, 3.0]), np.array([0, 0, 0])

    np.testing.assert_allclose(distance_quantile(nearest, distances, classes), [1.0, 1 / 3, 0.0])
    package = pytest.importorskip("reexpress_sdm.math")
    np.testing.assert_array_equal(package.distance_quantiles(nearest, [distances, []]), [0.0, 0.0, 0.0])


def test_sdm_without_any_distance_takes_every_row_for_near():
    nobody = np.array([], dtype=np.int64)

    np.testing.assert_array_equal(distance_quantile(np.array([0.0, 1e6]), nobody.astype(float), nobody), [1.0, 1.0])


def test_sdm_must_know_whether_the_model_got_stored_rows_right():
    train, validation, _ = two_blobs(seed=0)
    store = Datastore.build(train.features, train.labels)

    with pytest.raises(InvalidInputError, match=r"right, .* is empty: at least one row is needed"):
        SdmActivation(store, np.array([], dtype=bool)).fit(validation)
    with pytest.raises(InvalidInputError, match=r"SdmActivation\.fit is empty: at least one row is needed"):
        SdmActivation(store, train.predicted == train.labels).fit(validation.take([]))


def test_nuq_is_one_minus_the_largest_share_where_columns_are_many():
    near = Neighbors(ids=[[0, 1]], distances=[[1.0, 2.0]], labels=[[1, 0]])
    shares, log_mass = label_shares(near, 1.0, 2)

    assert log_uncertainty(shares, log_mass, 384)[0] == pytest.approx(math.log(1 - shares.max()), rel=1e-12)
