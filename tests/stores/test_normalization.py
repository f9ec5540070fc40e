"""Normalizing inside the store equals normalizing by hand before."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore
from knn_ue.stores.options import Normalization


@pytest.fixture
def features():
    return (np.random.default_rng(0).normal(size=(60, 5)) * [1, 10, 0.1, 3, 1] + [0, 100, -5, 0, 1]).astype(np.float32)


def test_l2_gives_every_row_length_one_and_leaves_a_zero_row_zero(features):
    features[7] = 0

    lengths = np.linalg.norm(Normalization.learn(features, "l2")(features), axis=1)

    np.testing.assert_allclose(np.delete(lengths, 7), 1, rtol=1e-6)
    assert lengths[7] == 0


def test_standardize_gives_every_column_mean_zero_and_variance_one(features):
    result = Normalization.learn(features, "standardize")(features).astype(np.float64)

    np.testing.assert_allclose(result.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(result.std(axis=0), 1, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_standardize_makes_a_constant_column_zero_for_queries_too(features, value):
    features[:, 2] = value
    normalization = Normalization.learn(features, "standardize")

    assert (normalization(features)[:, 2] == 0).all()
    assert (normalization(features + 1)[:, 2] == 0).all()


@pytest.mark.parametrize("normalize", ["l2", "standardize"])
def test_added_rows_are_normalized_as_the_stored_ones_were(features, normalize, tmp_path):
    whole = Datastore.build(features, np.arange(60), normalize=normalize)
    whole.save(tmp_path / "store")
    store = Datastore.load(tmp_path / "store")
    added = store.add(features[:10], np.arange(10))

    for _ in range(2):
        found = store.search(features[:10], 2)
        np.testing.assert_array_equal(found.ids, np.stack((np.arange(10), added), axis=1))
        np.testing.assert_array_equal(found.distances, 0.0)
        store.compact()


def test_an_unknown_normalization_names_the_choices():
    with pytest.raises(InvalidInputError, match="normalize must be one of 'none', 'l2', 'standardize', got 'l1'"):
        Datastore.build([[1.0]], [0], normalize="l1")


def test_standardize_cannot_learn_from_no_rows():
    with pytest.raises(InvalidInputError, match='features for normalize="standardize" is empty'):
        Datastore.build(np.empty((0, 3)), [], normalize="standardize")


def test_a_query_that_standardizes_beyond_float32_is_refused():
    store = Datastore.build([[1e-12], [2e-12]], [0, 1], normalize="standardize")

    with pytest.raises(InvalidInputError, match="multiply all features by one constant"):
        store.search([[1e30]], 1)
