"""KnnUEClassifier beyond its numbers: metadata, pickle, clone, explanations, and what it refuses."""

import pickle
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import joblib
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from knn_ue import InvalidInputError, KnnUE, Outputs
from knn_ue.sklearn import KnnUEClassifier


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(600, 6, n_informative=4, n_classes=3, class_sep=0.7, random_state=0)
    return X[:400], y[:400], X[400:], y[400:]


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(500, 5, flip_y=0.2, class_sep=0.8, random_state=1)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def fitted(data):
    X, y, *_ = data
    return KnnUEClassifier(n_neighbors=8).fit(X, y)


@pytest.fixture(scope="module")
def reviews():
    nouns = ["film", "plot", "actor", "scene", "song", "ending"]
    praise = ["great", "lovely", "clever", "moving"]
    blame = ["dull", "awful", "silly", "boring"]
    texts = [
        f"the {noun} was {word} and {more}"
        for noun in nouns
        for words in (praise, blame)
        for word in words
        for more in words
    ]
    labels = np.array([label for _ in nouns for label in ("pos", "neg") for _ in range(16)])
    return texts, labels


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


class PredictOnly(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[0], len(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "scaler"}, r"a step before the classifier \(the estimator is not a pipeline\), got 'scaler'"),
        ({"features": "transform"}, "needs an estimator that has transform, LogisticRegression has none"),
        ({"estimator": PredictOnly()}, "PredictOnly has neither decision_function nor predict_proba"),
        ({"cv": KFold(2)}, r"each fold must be trained on every class, one lacks \[0\]: stratify cv"),
        ({"cv": 200}, "cv=200 needs at least 200 rows of each class, the rarest class has"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1, got 0"),
        ({"max_stored": 0}, "max_stored must be a whole number of at least 1, got 0"),
        ({"estimator": LogisticRegression}, "must be an object, got the class LogisticRegression: call it first"),
        ({"estimator": "logistic"}, "estimator must be a scikit-learn classifier, got 'logistic'"),
        ({"estimator": LinearRegression()}, "estimator must be a classifier, LinearRegression is none"),
        ({"estimator": StandardScaler()}, "estimator must be a classifier, StandardScaler is none"),
        (
            {"estimator": FrozenEstimator(LogisticRegression())},
            "must hold a fitted classifier, fit this LogisticRegression first",
        ),
        ({"estimator": SVC(decision_function_shape="ovo")}, "one column per class, those of SVC compare pairs"),
        ({"cv": "prefit"}, r"wrap the fitted estimator, FrozenEstimator\(estimator\)"),
        ({"normalize": "cosine"}, "normalize must be one of 'none', 'l2', 'standardize', got 'cosine'"),
    ],
)
def test_unusable_option_is_refused_with_the_way_out(data, options, message):
    X, y, *_ = data
    order = np.argsort(y)

    with pytest.raises(InvalidInputError, match=message):
        KnnUEClassifier(**{"estimator": LogisticRegression(), **options}).fit(X[order], y[order])


def test_unknown_step_is_answered_with_the_names_of_the_steps(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match=r"a step before the classifier \(standardscaler\), got 'svd'"):
        KnnUEClassifier(make_pipeline(StandardScaler(), LogisticRegression()), features="svd").fit(X, y)


def test_one_versus_one_scores_are_refused(data):
    X, y, *_ = data
    four = np.where(X[:, 0] > 1, 3, y)

    with pytest.raises(InvalidInputError, match="must have one column per class, those of SVC compare pairs"):
        KnnUEClassifier(SVC(decision_function_shape="ovo")).fit(X, four)


def test_texts_cannot_be_compared_as_they_are(reviews):
    texts, labels = reviews
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())

    with pytest.raises(InvalidInputError, match="X holds texts, and neighbors are compared by numbers"):
        KnnUEClassifier(pipeline, features="input").fit(texts, labels)


def test_missing_values_in_features_are_refused_with_the_way_out(data):
    X, y, *_ = data
    X = np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X)

    with pytest.raises(InvalidInputError, match="X contains NaN or infinity, and neighbors are compared by X: impute"):
        KnnUEClassifier(HistGradientBoostingClassifier(max_iter=2)).fit(X, y)


def test_missing_label_is_refused_with_its_row(data):
    X, y, *_ = data
    names = np.array(["a", "b", "c"], dtype=object)[y]
    names[4] = None

    with pytest.raises(InvalidInputError, match="1 have None, the first is row 4: drop them"):
        KnnUEClassifier().fit(X, names)


def test_weights_that_are_not_one_per_row_are_refused(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match="a value for each of the 400 rows, got 3"):
        KnnUEClassifier().fit(X, y, sample_weight=np.ones(3))


def test_groups_without_routing_name_the_setting(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match="enable_metadata_routing=True"):
        KnnUEClassifier(cv=GroupKFold(3)).fit(X, y, groups=np.arange(len(y)) % 9)


def test_a_class_of_one_row_is_refused(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match="each class needs at least 2 rows"):
        KnnUEClassifier().fit(X, np.append(y[:-1], 9))


def test_unknown_validation_label_is_named(data):
    X, y, X_val, y_val = data

    with pytest.raises(InvalidInputError, match=r"y_val must hold classes the estimator knows, got 7"):
        KnnUEClassifier().fit(X, y, X_val=X_val, y_val=np.full(len(y_val), 7))


def test_validation_rows_without_labels_are_refused(data):
    X, y, X_val, _ = data

    with pytest.raises(InvalidInputError, match="X_val and y_val must be passed together"):
        KnnUEClassifier().fit(X, y, X_val=X_val)


def test_missing_scikit_learn_names_the_extra():
    code = "import sys; sys.modules['sklearn'] = None; import knn_ue.sklearn"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (
        'knn_ue.sklearn needs scikit-learn 1.6 or later. Install it with: pip install "knn-ue[sklearn]"' in done.stderr
    )
