"""DAC and Mahalanobis: less certain away from the data, sound where a layer or a column is constant."""

import numpy as np
import pytest

from knn_ue.calibrators import ClassStatistics, DensityAwareCalibration, MahalanobisScaling
from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore
from knn_ue.types import Outputs
from knn_ue.weighting import TemperatureMap


def test_mahalanobis_equals_the_textbook_formula():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)), rng.integers(0, 3, 300)
    statistics = ClassStatistics.estimate(features, labels)
    means = np.stack([features[labels == c].mean(axis=0) for c in range(3)])
    centered = features - means[labels]
    covariance = centered.T @ centered / len(features)
    covariance = 0.999 * covariance + 0.001 * np.trace(covariance) / 4 * np.eye(4)
    inverse = np.linalg.inv(covariance)

    expected = [min(np.sqrt((row - m) @ inverse @ (row - m)) for m in means) for row in features]

    np.testing.assert_allclose(statistics.distance(features), expected, rtol=1e-6)


def test_mahalanobis_distance_grows_away_from_the_data():
    rng = np.random.default_rng(0)
    statistics = ClassStatistics.estimate(rng.normal(size=(500, 5)), rng.integers(0, 2, 500))
    rays = rng.normal(size=(64, 5))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)

    means = [statistics.distance(radius * rays).mean() for radius in (0.0, 3.0, 6.0)]

    assert means[0] < means[1] < means[2]


@pytest.mark.parametrize("n_rows", [1, 3, 50])
def test_mahalanobis_is_finite_with_constant_columns_and_few_rows(n_rows):
    features = np.ones((n_rows, 8))
    statistics = ClassStatistics.estimate(features, np.zeros(n_rows, int))

    assert np.isfinite(statistics.distance(np.zeros((2, 8)))).all()


def test_a_class_without_training_rows_is_no_problem():
    features = np.random.default_rng(0).normal(size=(20, 2))

    statistics = ClassStatistics.estimate(features, np.repeat([0, 5], 10))

    assert statistics.means.shape == (2, 2)


@pytest.mark.parametrize("make", [MahalanobisScaling.from_training, DensityAwareCalibration.from_layers])
def test_out_of_domain_rows_are_trusted_less(hard_toy, make):
    train, validation, test, out_of_domain = hard_toy
    calibrator = make(train).fit(validation)

    assert calibrator.weight(out_of_domain).mean() < calibrator.weight(test).mean()


def test_a_constant_layer_gets_no_influence_and_no_nan(hard_toy):
    train, validation, test, _ = hard_toy
    assert np.ptp(train.layers[0]) == 0

    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=8).fit(validation)

    assert np.isfinite(calibrator.predict_proba(test)).all()


def test_only_constant_layers_are_temperature_scaling(hard_toy):
    train, validation, test, _ = hard_toy
    flat = [
        Outputs(logits=part.logits, labels=part.labels, layers=[np.ones((len(part), 4))])
        for part in (train, validation, test)
    ]

    calibrator = DensityAwareCalibration.from_layers(flat[0], n_neighbors=8).fit(flat[1])

    assert np.ptp(calibrator.weight(flat[2])) == pytest.approx(0, abs=1e-12)


def test_each_layer_is_searched_in_its_own_store(hard_toy):
    train, validation, _, _ = hard_toy
    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=4).fit(validation)

    assert [store.n_columns for store in calibrator.stores.values()] == [layer.shape[1] for layer in train.layers]


def test_dac_equals_its_formula(hard_toy):
    train, validation, test, _ = hard_toy
    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=4).fit(validation)
    fitted = calibrator.temperature_map_

    scores = [
        Datastore.build(layer, train.labels).search(queries, 4).distances.mean(axis=1)
        for layer, queries in zip(train.layers, test.layers, strict=True)
    ]

    expected = 1 / (fitted.intercept + np.array(fitted.slopes) @ np.array(scores))
    np.testing.assert_allclose(calibrator.weight(test), expected)


def test_a_row_whose_neighbors_were_not_found_is_uniform():
    weight = TemperatureMap(intercept=1.0, slopes=(0.5,)).weight(np.array([[np.inf]]))

    assert 0 < weight[0] < 1e-9


def test_a_layer_without_influence_may_be_infinitely_far():
    weight = TemperatureMap(intercept=2.0, slopes=(0.0,)).weight(np.array([[np.inf]]))

    assert weight[0] == 0.5


def test_missing_layers_are_named(hard_toy):
    train, validation, _, _ = hard_toy
    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=4)

    with pytest.raises(InvalidInputError, match="DAC needs the features of every layer"):
        calibrator.fit(Outputs(logits=validation.logits, labels=validation.labels))


def test_another_number_of_layers_is_refused(hard_toy):
    train, validation, _, _ = hard_toy
    fewer = Outputs(logits=validation.logits, labels=validation.labels, layers=validation.layers[:1])

    with pytest.raises(InvalidInputError, match="pass the same layers"):
        DensityAwareCalibration.from_layers(train, n_neighbors=4).fit(fewer)


def test_features_of_another_encoder_are_refused(hard_toy):
    calibrator = MahalanobisScaling.from_training(hard_toy[0]).fit(hard_toy[1])

    with pytest.raises(InvalidInputError, match="use the same encoder"):
        calibrator.predict_proba(Outputs(logits=hard_toy[2].logits, features=hard_toy[2].features[:, :2]))
