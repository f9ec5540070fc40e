"""Density Softmax: trusted where training features are dense, uniform where they are not, never worse than softmax."""

import numpy as np
import pytest

pytest.importorskip("torch")

from knn_ue.errors import InvalidInputError, MissingExtraError
from knn_ue.types import Outputs
from knn_ue_lab.calibrators import DensitySoftmax

pytestmark = pytest.mark.slow


def log_loss(probs, labels):
    return -np.log(probs[np.arange(len(labels)), labels]).mean()


def softmax(logits):
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def at(features, logits=(2.0, 0.0)) -> Outputs:
    return Outputs(features=features, logits=np.tile(np.asarray(logits), (len(features), 1)))


def encoder_like(n_rows: int, dim: int, seed: int) -> Outputs:
    """Features as an encoder gives them: correlated, columns of different size, one of them constant."""
    shared = np.random.default_rng(99)
    mixing, sizes = shared.normal(size=(20, dim)), shared.gamma(1.0, size=dim)
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(n_rows, 20)) @ mixing + 0.3 * rng.normal(size=(n_rows, dim))) * sizes
    features[:, 0] = 0.25
    labels = rng.integers(3, size=n_rows)
    logits = 6 * np.eye(3)[np.where(rng.random(n_rows) < 0.7, labels, rng.integers(3, size=n_rows))]
    return Outputs(features=features.astype(np.float32), logits=logits + rng.normal(size=logits.shape), labels=labels)


@pytest.fixture(scope="module")
def blobs(toy):
    train, validation, _ = toy
    return DensitySoftmax.from_training(train).fit(validation)


@pytest.fixture(scope="module")
def pocketed(hard_toy):
    return DensitySoftmax.from_training(hard_toy[0]).fit(hard_toy[1])


def test_the_weight_is_the_normalized_likelihood(pocketed, hard_toy):
    train, _, test, _ = hard_toy

    ratio = (pocketed.score(test) - pocketed.score(train).max()) / pocketed.scale_

    assert np.isfinite(pocketed.scale_)
    np.testing.assert_allclose(pocketed.weight(test), np.minimum(np.exp(ratio), 1.0))


def test_the_probabilities_are_the_softmax_of_weighted_logits(pocketed, hard_toy):
    test = hard_toy[2]

    expected = softmax(pocketed.weight(test)[:, None] * test.logits)

    np.testing.assert_allclose(pocketed.predict_proba(test), expected)


def test_the_likeliest_training_row_has_weight_one(pocketed, hard_toy):
    train = hard_toy[0]

    assert pocketed.weight(train)[pocketed.score(train).argmax()] == 1.0


def test_a_row_likelier_than_all_of_training_has_weight_one(pocketed, hard_toy):
    lower = DensitySoftmax(pocketed.density, highest=float(np.median(pocketed.score(hard_toy[0])))).fit(hard_toy[1])

    weight = lower.weight(hard_toy[2])

    assert weight.max() == 1.0
    assert (weight == 1.0).mean() > 0.2


def test_weights_fall_with_the_distance_from_the_data(blobs, toy):
    features = toy[0].features
    rays = np.random.default_rng(0).normal(size=(64, 2))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)

    points = [features.mean(axis=0) + radius * features.std(axis=0) * rays for radius in (0.0, 3.0, 6.0)]
    means = [blobs.weight(at(block)).mean() for block in points]

    assert means[0] > means[1] > means[2] > 0


@pytest.mark.parametrize("gap", [1.0, 1e3, 1e30])
def test_far_from_the_data_the_probabilities_are_uniform_and_the_answer_stays(blobs, gap):
    far = at(np.array([[1e5, -1e5], [1e30, 1e30]]), logits=(0.0, gap))

    probs = blobs.predict_proba(far)

    assert (blobs.weight(far) > 0).all()
    np.testing.assert_allclose(probs, 0.5, rtol=0, atol=3e-16)
    assert (probs.argmax(axis=1) == 1).all()


def test_out_of_domain_rows_are_trusted_less(pocketed, hard_toy):
    _, _, test, out_of_domain = hard_toy

    assert pocketed.weight(out_of_domain).max() < np.median(pocketed.weight(test))


def test_fit_lowers_validation_log_loss_where_far_rows_are_wrong(pocketed, hard_toy):
    validation = hard_toy[1]

    found = log_loss(pocketed.predict_proba(validation), validation.labels)

    assert found < log_loss(softmax(validation.logits), validation.labels) - 0.05


def test_no_other_scale_has_a_lower_validation_log_loss(pocketed, hard_toy):
    validation = hard_toy[1]
    shortfall = np.maximum(pocketed.highest - pocketed.score(validation), 0)[:, None]

    losses = [
        log_loss(softmax(np.exp(-shortfall / scale) * validation.logits), validation.labels)
        for scale in np.geomspace(1e-2, 1e6, 400)
    ]

    assert log_loss(pocketed.predict_proba(validation), validation.labels) <= min(losses)


def test_an_underconfident_model_keeps_its_softmax(pocketed, hard_toy, tmp_path):
    validation, test = hard_toy[1], hard_toy[2]
    modest = Outputs(features=validation.features, logits=0.01 * validation.logits, labels=validation.labels)

    calibrator = DensitySoftmax(pocketed.density, highest=pocketed.highest).fit(modest)
    calibrator.save(tmp_path / "ue")

    assert calibrator.scale_ == np.inf
    np.testing.assert_array_equal(calibrator.weight(test), 1.0)
    np.testing.assert_array_equal(DensitySoftmax.load(tmp_path / "ue").weight(test), 1.0)


@pytest.mark.parametrize("dim", [384, pytest.param(1024, marks=pytest.mark.slow)])
def test_many_columns_give_finite_weights_that_are_neither_all_zero_nor_all_one(dim):
    train, validation, test = (encoder_like(250, dim, seed) for seed in range(3))

    calibrator = DensitySoftmax.from_training(train).fit(validation)
    weight = calibrator.weight(test)

    assert np.isfinite(calibrator.score(test)).all()
    assert 0.05 < np.median(weight) < 0.95
    assert log_loss(calibrator.predict_proba(test), test.labels) < log_loss(softmax(test.logits), test.labels)
    assert calibrator.weight(at(train.features * 100, (1.0, 0.0, 0.0))).max() < 1e-9


@pytest.mark.slow
def test_the_same_seed_gives_the_same_flow_and_another_seed_another(hard_toy):
    train = hard_toy[0].take(slice(0, 200))

    first, again, other = (DensitySoftmax.from_training(train, seed=seed).score(train) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_training_labels_are_not_needed(toy):
    train = toy[0].take(slice(0, 50))

    DensitySoftmax.from_training(Outputs(features=train.features, logits=train.logits)).fit(toy[1])


def test_features_of_another_encoder_are_refused(pocketed, hard_toy):
    test = hard_toy[2]

    with pytest.raises(InvalidInputError, match="features must have 8 columns, got 2: use the same encoder"):
        pocketed.predict_proba(Outputs(logits=test.logits, features=test.features[:, :2]))


def test_missing_features_are_named(hard_toy):
    with pytest.raises(InvalidInputError, match=r"DensitySoftmax\.from_training needs features"):
        DensitySoftmax.from_training(Outputs(logits=hard_toy[0].logits))


def test_a_missing_torch_is_named(hard_toy, monkeypatch):
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _module: None)

    with pytest.raises(MissingExtraError, match=r"DensitySoftmax needs torch\. Install it with: pip install"):
        DensitySoftmax.from_training(hard_toy[0])


@pytest.mark.parametrize(("name", "value"), [("scale_", -1.0), ("highest", float("nan"))])
def test_impossible_numbers_are_not_saved(pocketed, hard_toy, tmp_path, name, value):
    damaged = DensitySoftmax(pocketed.density, highest=pocketed.highest).fit(hard_toy[1])
    setattr(damaged, name, value)

    with pytest.raises(InvalidInputError, match=r"this density-softmax cannot be saved \(.{,80}\): fit it"):
        damaged.save(tmp_path / "ue")
