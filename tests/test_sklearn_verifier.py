"""An estimator of texts with a verifier beside it."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.sklearn import KnnUEClassifier


def reviews(n_rows, *, seed):
    """Return texts whose last word decides; the estimator below sees the others alone."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n_rows)
    blind = np.where(rng.random(n_rows) < 0.75, labels, 1 - labels)
    words = [("dull", "fine")[hint] for hint in blind]
    return [f"{word} film, {('awful', 'great')[label]}" for word, label in zip(words, labels, strict=True)], labels


def blind_estimator():
    return make_pipeline(CountVectorizer(vocabulary=["dull", "fine", "film"]), LogisticRegression())


@pytest.fixture(scope="module")
def fitted():
    return KnnUEClassifier(blind_estimator(), n_neighbors=8, verifier="instant").fit(*reviews(200, seed=0))


def confidence(model, texts):
    return model.predict_proba(texts)[np.arange(len(texts)), model.predict(texts)]


def test_it_ranks_what_the_estimator_cannot_tell(fitted):
    texts, labels = reviews(200, seed=1)

    right = fitted.predict(texts) == labels
    assert metrics.auroc(confidence=confidence(fitted, texts), correct=right) > 0.95
    assert fitted.verifier_.gain.pays


def test_predictions_stay_the_estimators(fitted):
    texts, _ = reviews(50, seed=2)
    plain = KnnUEClassifier(blind_estimator(), n_neighbors=8).fit(*reviews(200, seed=0))

    np.testing.assert_array_equal(fitted.predict(texts), plain.predict(texts))
    np.testing.assert_allclose(fitted.predict_proba(texts).sum(axis=1), 1.0)


def test_other_rows_may_calibrate_it():
    texts, labels = reviews(200, seed=1)
    X_val, y_val = reviews(200, seed=3)

    model = KnnUEClassifier(blind_estimator(), n_neighbors=8, verifier="instant")
    model.fit(*reviews(200, seed=0), X_val=X_val, y_val=y_val)

    right = model.predict(texts) == labels
    assert metrics.auroc(confidence=confidence(model, texts), correct=right) > 0.95


def test_it_is_pickled_whole(fitted):
    texts, _ = reviews(20, seed=4)

    again = pickle.loads(pickle.dumps(fitted))

    np.testing.assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))


def test_numbers_cannot_be_read():
    X = np.random.default_rng(0).normal(size=(60, 3))

    with pytest.raises(InvalidInputError, match="reads texts"):
        KnnUEClassifier(n_neighbors=4, verifier="instant").fit(X, np.arange(60) % 2)
