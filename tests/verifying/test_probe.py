"""The probe, against scikit-learn and in what it must not depend on."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from knn_ue.verifying.probe import N_FOLDS, cross_fit_probe, fit_probe, root_mean_square, sentence_folds


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    tags = rng.choice([0, 1, 3], size=300, p=[0.7, 0.2, 0.1])
    return np.eye(4, 20)[tags] + 0.6 * rng.normal(size=(300, 20)), tags


def test_probabilities_are_those_of_scikit_learn(words):
    vectors, tags = words

    found = fit_probe(vectors, tags, n_tags=5, strength=2.0).predict(vectors)

    other = LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(vectors / root_mean_square(vectors), tags)
    expected = np.zeros((300, 5))
    expected[:, [0, 1, 3]] = other.predict_proba(vectors / root_mean_square(vectors))
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_a_tag_without_words_has_no_probability(words):
    vectors, tags = words

    assert (fit_probe(vectors, tags, n_tags=5).predict(vectors)[:, [2, 4]] == 0).all()


def test_the_unit_of_the_vectors_does_not_matter(words):
    vectors, tags = words

    one, other = (fit_probe(k * vectors, tags, n_tags=5).predict(k * vectors) for k in (1.0, 1000.0))

    np.testing.assert_allclose(one, other, atol=1e-3)


def test_one_tag_is_certain():
    vectors = np.ones((4, 3), dtype=np.float32)

    assert fit_probe(vectors, np.zeros(4, dtype=np.int64), n_tags=2).predict(vectors)[:, 0].tolist() == [1.0] * 4


def test_a_cross_fit_leaves_the_own_fold_out(words):
    vectors, tags = words
    folds = np.arange(300) % 3

    found = cross_fit_probe(vectors, tags, folds, n_tags=5)

    for fold in range(3):
        alone = fit_probe(vectors[folds != fold], tags[folds != fold], n_tags=5).predict(vectors[folds == fold])
        np.testing.assert_array_equal(found[folds == fold], alone)


def test_folds_hold_as_many_sentences_each():
    assert sorted(np.bincount(sentence_folds(52), minlength=N_FOLDS).tolist()) == [10, 10, 10, 11, 11]


def test_vectors_of_nothing_but_zeros_have_the_scale_one():
    assert root_mean_square(np.zeros((2, 3))) == 1.0
