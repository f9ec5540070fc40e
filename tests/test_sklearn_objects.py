"""KnnUEClassifier beyond its numbers: metadata, pickle, clone, seeds and explanations."""

import pickle
from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import joblib
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from knn_ue import InvalidInputError, KnnUE, Outputs
from knn_ue.sklearn import KnnUEClassifier
from sklearn_rows import data, fitted, reviews

pandas = pytest.importorskip("pandas")

__all__ = ["data", "fitted", "reviews"]


class WeightRecorder(ClassifierMixin, BaseEstimator):
    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        WeightRecorder.seen.append(np.array_equal(sample_weight, X[:, 0]))
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def test_sample_weight_reaches_the_estimator_of_every_fold_row_by_row(data):
    X, y, *_ = data
    WeightRecorder.seen = []

    KnnUEClassifier(WeightRecorder()).fit(X, y, sample_weight=X[:, 0])

    assert WeightRecorder.seen == [True] * 6


def test_sample_weight_for_a_frozen_estimator_is_refused(data):
    X, y, *_ = data
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))

    with pytest.raises(InvalidInputError, match="a FrozenEstimator is not fitted, so sample_weight would have no"):
        KnnUEClassifier(frozen).fit(X, y, sample_weight=np.ones(len(y)))


def test_groups_are_routed_to_the_splitter(data):
    X, y, *_ = data
    groups = np.arange(len(y)) % 4

    with sklearn.config_context(enable_metadata_routing=True):
        model = KnnUEClassifier(LogisticRegression(), cv=GroupKFold(4), n_neighbors=1000).fit(X, y, groups=groups)

    assert model.n_neighbors_ == 300


@pytest.mark.parametrize("index", ["exact", "IVF4,Flat"])
@pytest.mark.parametrize("normalize", ["none", "standardize"])
def test_pickled_classifier_gives_equal_probabilities(data, index, normalize):
    X, y, X_test, _ = data
    model = KnnUEClassifier(n_neighbors=8, index=index, normalize=normalize).fit(X, y)

    copy = pickle.loads(pickle.dumps(model))

    np.testing.assert_array_equal(copy.predict_proba(X_test), model.predict_proba(X_test))


def test_joblib_keeps_rows_added_to_the_datastore_and_its_texts(reviews):
    texts, labels = reviews
    model = KnnUEClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), n_neighbors=4).fit(texts, labels)
    model.datastore_.add(model.datastore_.arrays()[0][:1], [0], texts=["a new row"])
    buffer = BytesIO()

    joblib.dump(model, buffer)
    buffer.seek(0)
    copy = joblib.load(buffer)

    assert copy.datastore_.texts_of([0, len(texts)]) == [texts[0], "a new row"]


def test_unpickled_datastore_still_learns(data, fitted):
    X, y, *_ = data
    copy = pickle.loads(pickle.dumps(fitted))

    copy.datastore_.add(X[:3], y[:3])

    assert (len(copy.datastore_), len(fitted.datastore_)) == (403, 400)


def test_clone_has_equal_options_and_is_not_fitted(fitted):
    copy = clone(fitted)

    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "classes_")


@pytest.mark.slow
def test_classifier_works_inside_model_selection(data):
    X, y, *_ = data
    search = GridSearchCV(
        KnnUEClassifier(LogisticRegression()), {"n_neighbors": [4, 8], "estimator__C": [0.1, 1]}, cv=2
    )

    scores = cross_val_score(search, X, y, cv=2, scoring="neg_log_loss")

    assert (scores > -np.log(3)).all()


def test_feature_names_are_those_of_the_frame(data):
    pandas = pytest.importorskip("pandas")
    X, y, *_ = data
    frame = pandas.DataFrame(X, columns=list("abcdef"))

    model = KnnUEClassifier().fit(frame, y)

    assert model.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(frame))


def test_explanation_shows_the_texts_and_names_of_the_nearest_rows(reviews):
    texts, labels = reviews
    model = KnnUEClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), n_neighbors=8).fit(texts, labels)

    (explanation,) = model.explain(["the film was great and lovely"], top=2)

    assert (explanation.label, len(explanation.neighbors)) == ("pos", 2)
    assert explanation.neighbors[0].text == "the film was great and lovely"
    assert explanation.score == pytest.approx(model.predict_proba([explanation.text]).max())


def test_calibrator_can_be_saved_as_a_folder_without_pickle(data, fitted, tmp_path):
    X, *_ = data

    fitted.calibrator_.save(tmp_path / "ue")

    rows = Outputs(features=X, logits=fitted.estimator_.decision_function(X))
    np.testing.assert_array_equal(KnnUE.load(tmp_path / "ue").predict_proba(rows), fitted.predict_proba(X))


def test_fit_that_fails_leaves_an_unfitted_classifier(data):
    X, y, *_ = data
    model = KnnUEClassifier().fit(X, y)

    with pytest.raises(InvalidInputError):
        model.set_params(features="nothing").fit(X, y)

    with pytest.raises(NotFittedError):
        model.predict_proba(X)


@pytest.mark.slow
def test_folds_fitted_in_parallel_give_equal_probabilities(data, fitted):
    X, y, X_test, _ = data

    model = KnnUEClassifier(n_neighbors=8, n_jobs=2).fit(X, y)

    np.testing.assert_array_equal(model.predict_proba(X_test), fitted.predict_proba(X_test))


@pytest.mark.parametrize("estimator", [RandomForestClassifier(5), make_pipeline(StandardScaler(), SGDClassifier())])
def test_random_parts_of_the_estimator_follow_random_state(data, estimator):
    X, y, X_test, _ = data

    one, same, other = (
        KnnUEClassifier(estimator, random_state=seed).fit(X, y).predict_proba(X_test) for seed in (0, 0, 1)
    )

    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_seeds_that_the_estimator_has_are_kept(data):
    X, y, *_ = data
    forest = RandomForestClassifier(3, random_state=7)

    fitted = KnnUEClassifier(forest).fit(X, y)

    assert fitted.estimator_.random_state == 7
    assert forest.random_state == 7


def test_stacked_classifiers_are_calibrated(data):
    X, y, X_test, _ = data
    stack = StackingClassifier([("one", LogisticRegression()), ("other", GaussianNB())], cv=2)

    probs = KnnUEClassifier(stack, cv=2).fit(X, y).predict_proba(X_test)

    np.testing.assert_allclose(probs.sum(axis=1), 1)
