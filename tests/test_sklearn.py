"""KnnUEClassifier: a scikit-learn classifier in every respect, and kNN-UE underneath."""

import numpy as np
import pytest

from reference import brute_force

pytest.importorskip("sklearn", minversion="1.6")

from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from knn_ue import Datastore, KnnUE, Outputs
from knn_ue.arrays import softmax
from knn_ue.errors import InvalidInputError
from knn_ue.sklearn import KnnUEClassifier
from knn_ue.types import Neighbors
from knn_ue.weighting import fit_weight
from sklearn_rows import data, fitted, reviews

__all__ = ["data", "fitted", "reviews"]


class AsItIs:
    """The input itself; written without an address, so that every worker collects tests of the same names."""

    def __call__(self, estimator, X):
        return X

    def __repr__(self):
        return "AsItIs()"


CHECKED = [
    KnnUEClassifier(),
    KnnUEClassifier(SVC(), features=AsItIs()),
    KnnUEClassifier(make_pipeline(StandardScaler(), LinearSVC()), normalize="l2", use_labels=False, max_stored=20),
    KnnUEClassifier(RandomForestClassifier(5), cv=3),
    KnnUEClassifier(MLPClassifier((16,), solver="lbfgs"), cv=2),
]


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(500, 5, flip_y=0.2, class_sep=0.8, random_state=1)
    return X[:300], y[:300], X[300:], y[300:]


def cross_fitted_params(X, y, n_neighbors):
    """Fit the weight the slow way: each fold with neighbors among the rows of the other folds."""
    logits, labels, found = [], [], []
    for train, test in StratifiedKFold(5).split(X, y):
        logits.append(LogisticRegression().fit(X[train], y[train]).decision_function(X[test]))
        labels.append(y[test])
        ids, distances = brute_force(X[train].tolist(), X[test].tolist(), n_neighbors)
        found.append((ids, distances, y[train][ids]))
    ids, distances, neighbor_labels = map(np.concatenate, zip(*found, strict=True))
    neighbors = Neighbors(ids=ids, distances=distances, labels=neighbor_labels)
    return fit_weight(np.concatenate(logits), np.concatenate(labels), neighbors, use_labels=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED[:1])
def test_default_classifier_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED[1:])
def test_other_classifiers_pass_every_check_of_scikit_learn(estimator, check):
    check(estimator)


def test_predictions_are_those_of_the_estimator_fitted_on_all_rows(data, fitted):
    X, y, X_test, _ = data

    predicted = fitted.predict(X_test)

    np.testing.assert_array_equal(predicted, LogisticRegression().fit(X, y).predict(X_test))


def test_probabilities_never_change_the_prediction(data, fitted):
    *_, X_test, _ = data

    chosen = fitted.classes_[fitted.predict_proba(X_test).argmax(axis=1)]

    np.testing.assert_array_equal(chosen, fitted.predict(X_test))


@pytest.mark.slow
def test_cross_validated_fit_looks_for_neighbors_in_other_folds_only(data, fitted):
    X, y, *_ = data

    expected = cross_fitted_params(X, y, n_neighbors=8)

    params = fitted.calibrator_.params_
    assert (params.alpha, params.tau, params.lam) == pytest.approx(
        (expected.alpha, expected.tau, expected.lam), rel=1e-3
    )


def test_cross_validated_fit_stores_every_row(data, fitted):
    X, *_ = data

    found = fitted.datastore_.search(X, n_neighbors=1)

    np.testing.assert_array_equal(found.ids[:, 0], np.arange(len(X)))


def test_fit_lowers_the_log_loss_of_an_overconfident_estimator(data):
    X, y, X_test, y_test = data
    wide, wide_test = np.repeat(X, 5, axis=1), np.repeat(X_test, 5, axis=1)  # naive Bayes counts each column five times

    calibrated = KnnUEClassifier(GaussianNB(), n_neighbors=16).fit(wide, y)

    raw = GaussianNB().fit(wide, y)
    assert log_loss(y_test, calibrated.predict_proba(wide_test)) < 0.6 * log_loss(y_test, raw.predict_proba(wide_test))


def test_frozen_estimator_is_kept_and_its_calibration_rows_are_stored(data):
    X, y, *_ = data
    frozen = LogisticRegression().fit(X[:200], y[:200])

    model = KnnUEClassifier(FrozenEstimator(frozen), n_neighbors=8).fit(X[200:], y[200:])

    assert model.estimator_.estimator is frozen
    assert len(model.datastore_) == 200


def test_frozen_estimator_may_know_classes_that_the_rows_lack(data):
    X, y, *_ = data
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))

    model = KnnUEClassifier(frozen, n_neighbors=8).fit(X[y < 2], y[y < 2])

    assert model.predict_proba(X[:4]).shape == (4, 3)


class ReversedClasses(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def decision_function(self, X):
        return self.inner_.decision_function(X)[:, ::-1]


def test_frozen_estimator_may_have_its_classes_in_any_order(data):
    X, y, X_val, y_val = data
    frozen = FrozenEstimator(ReversedClasses().fit(X, y))

    model = KnnUEClassifier(frozen, n_neighbors=8).fit(X, y, X_val=X_val, y_val=y_val)

    expected = KnnUEClassifier(n_neighbors=8).fit(X, y, X_val=X_val, y_val=y_val).predict_proba(X_val)
    np.testing.assert_allclose(model.predict_proba(X_val)[:, ::-1], expected, rtol=1e-9)


def test_explicit_validation_rows_calibrate_as_knn_ue_does_on_arrays(data):
    X, y, X_val, y_val = data

    model = KnnUEClassifier(n_neighbors=8).fit(X, y, X_val=X_val, y_val=y_val)

    estimator = LogisticRegression().fit(X, y)
    validation = Outputs(features=X_val, logits=estimator.decision_function(X_val), labels=y_val)
    expected = KnnUE(Datastore.build(X, y), n_neighbors=8).fit(validation).predict_proba(validation)
    np.testing.assert_array_equal(model.predict_proba(X_val), expected)


def test_every_row_stored_at_fit_calibrates_a_frozen_estimator_with_validation_rows(data):
    X, y, X_val, y_val = data
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))

    model = KnnUEClassifier(frozen, n_neighbors=8).fit(X, y, X_val=X_val, y_val=y_val)

    expected = KnnUEClassifier(n_neighbors=8).fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_array_equal(model.predict_proba(X_val), expected.predict_proba(X_val))


def test_decision_function_of_two_classes_is_the_log_odds(binary):
    X, y, X_test, _ = binary
    model = KnnUEClassifier(n_neighbors=8).fit(X, y)

    scores = model.decision_function(X_test)

    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), model.predict_proba(X_test)[:, 1], rtol=1e-9)


def test_softmax_of_the_decision_function_is_the_probability(data, fitted):
    *_, X_test, _ = data

    scores = fitted.decision_function(X_test)

    np.testing.assert_allclose(softmax(scores), fitted.predict_proba(X_test), rtol=1e-9)


def test_estimator_without_decision_function_is_read_by_its_probabilities(data):
    X, y, X_test, _ = data
    forest = RandomForestClassifier(7, random_state=0)

    model = KnnUEClassifier(forest, n_neighbors=8).fit(X, y)

    np.testing.assert_array_equal(model.predict(X_test), clone(forest).fit(X, y).predict(X_test))
    assert np.isfinite(model.decision_function(X_test)).all()


def test_string_labels_come_back_as_they_were(binary):
    X, y, X_test, _ = binary
    names = np.array(["no", "yes"])

    model = KnnUEClassifier(n_neighbors=8).fit(X, names[y])

    numbers = KnnUEClassifier(n_neighbors=8).fit(X, y)
    np.testing.assert_array_equal(model.predict(X_test), names[numbers.predict(X_test)])
    np.testing.assert_array_equal(model.predict_proba(X_test), numbers.predict_proba(X_test))


def test_sparse_input_gives_the_probabilities_of_dense_input(binary):
    X, y, X_test, _ = binary

    model = KnnUEClassifier(n_neighbors=8).fit(csr_array(X), y)

    expected = KnnUEClassifier(n_neighbors=8).fit(X, y).predict_proba(X_test)
    np.testing.assert_allclose(model.predict_proba(csr_array(X_test)), expected, rtol=1e-4)


def test_wide_sparse_features_are_reduced_to_n_components(reviews):
    texts, labels = reviews

    model = KnnUEClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), n_components=5).fit(texts, labels)

    assert model.datastore_.n_columns == 5


def test_auto_features_are_what_the_last_step_sees(data):
    X, y, X_test, _ = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())

    model = KnnUEClassifier(pipeline, n_neighbors=8).fit(X, y)

    by_name = KnnUEClassifier(pipeline, features="standardscaler", n_neighbors=8).fit(X, y)
    np.testing.assert_allclose(model.datastore_.arrays()[0], StandardScaler().fit_transform(X), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(model.predict_proba(X_test), by_name.predict_proba(X_test))


def test_auto_features_are_found_behind_a_search_and_a_frozen_estimator(data):
    X, y, *_ = data
    search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)

    model = KnnUEClassifier(FrozenEstimator(search.fit(X, y)), n_neighbors=8).fit(X, y)

    np.testing.assert_allclose(model.datastore_.arrays()[0], StandardScaler().fit_transform(X), rtol=1e-4, atol=1e-6)


def test_input_features_of_a_pipeline_are_its_input(data):
    X, y, *_ = data

    model = KnnUEClassifier(make_pipeline(StandardScaler(), LogisticRegression()), features="input").fit(X, y)

    np.testing.assert_array_equal(model.datastore_.arrays()[0], X.astype(np.float32))


def test_transform_features_are_those_of_the_estimator(data):
    X, y, *_ = data

    model = KnnUEClassifier(LinearDiscriminantAnalysis(), features="transform").fit(X, y)

    expected = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    np.testing.assert_allclose(model.datastore_.arrays()[0], expected, rtol=1e-4, atol=1e-5)


def first_two_columns(estimator, X):
    return X[:, :2]


def test_features_may_come_from_a_function(data):
    X, y, *_ = data

    model = KnnUEClassifier(features=first_two_columns).fit(X, y)

    assert model.datastore_.n_columns == 2


class CountingEncoder(TransformerMixin, BaseEstimator):
    calls = 0

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        CountingEncoder.calls += 1
        return np.asarray(X)


def test_a_pipeline_encodes_rows_once_for_logits_and_features(data):
    X, y, X_test, _ = data
    model = KnnUEClassifier(make_pipeline(CountingEncoder(), LogisticRegression()), n_neighbors=8).fit(X, y)
    before = CountingEncoder.calls

    model.predict_proba(X_test)

    assert CountingEncoder.calls == before + 1


def test_n_neighbors_is_lowered_to_the_smallest_store(binary):
    X, y, *_ = binary

    model = KnnUEClassifier(n_neighbors=1000).fit(X, y)

    assert model.n_neighbors_ == 240  # four of five folds of 300 rows


def test_max_stored_keeps_a_random_sample_whose_rows_are_known(binary):
    X, y, *_ = binary

    model = KnnUEClassifier(n_neighbors=8, max_stored=50).fit(X, y)

    assert len(model.datastore_) == 50
    np.testing.assert_array_equal(model.datastore_.arrays()[0], X[model.stored_rows_].astype(np.float32))


def test_default_folds_are_fewer_where_a_class_has_fewer_rows(data):
    X, y, *_ = data
    rows = np.r_[np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)[:20]]

    model = KnnUEClassifier().fit(X[rows], y[rows])

    assert model.n_neighbors_ == 11  # two folds of 22 rows


def test_any_splitter_may_define_the_folds(data):
    X, y, *_ = data
    one_fold = PredefinedSplit(np.r_[np.zeros(100), np.full(300, -1)])

    model = KnnUEClassifier(n_neighbors=8, cv=one_fold).fit(X, y)

    held_out = KnnUEClassifier(n_neighbors=8).fit(X[100:], y[100:], X_val=X[:100], y_val=y[:100])
    assert model.calibrator_.params_ == held_out.calibrator_.params_


BAD_FEATURES = {
    "one column": (lambda _, X: X[:, 0], "with a row for each of the 320 rows of X"),
    "other rows": (lambda _, X: X[:3], r"got the shape \(3, 6\)"),
    "texts": (lambda _, X: [["a"]] * len(X), "an array of numbers"),
    "missing values": (lambda _, X: np.full_like(X, np.nan), "NaN or infinity: impute in the function"),
}


@pytest.mark.parametrize(("features", "words"), BAD_FEATURES.values(), ids=list(BAD_FEATURES))
def test_what_a_function_of_features_returns_is_checked(data, features, words):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match=words):
        KnnUEClassifier(features=features).fit(X, y)
