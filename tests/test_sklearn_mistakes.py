"""What KnnUEClassifier refuses, with the sentence that its user reads."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import get_tags

from knn_ue import InvalidInputError
from knn_ue.errors import FitWarning
from knn_ue.sklearn import KnnUEClassifier
from sklearn_rows import data, reviews

pandas = pytest.importorskip("pandas")

__all__ = ["data", "reviews"]


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
        ({"cv": KFold(3)}, r"each fold must be trained on every class, one lacks \[0\]: stratify cv"),
        ({"cv": KFold(2)}, r"each fold must be trained on every class, one lacks \[0\]: stratify cv"),
        ({"cv": 200}, "cv=200 needs at least 200 rows of each class, the rarest class has"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1, got 0"),
        ({"max_stored": 0}, "max_stored must be a whole number of at least 1, got 0"),
        ({"estimator": LogisticRegression}, "must be an object, got the class LogisticRegression: call it first"),
        ({"estimator": "logistic"}, "estimator must be a scikit-learn classifier, got 'logistic'"),
        ({"estimator": LinearRegression()}, "estimator must be a classifier, LinearRegression is not one"),
        ({"estimator": StandardScaler()}, "estimator must be a classifier, StandardScaler is not one"),
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

    with pytest.raises(InvalidInputError, match="neighbors are compared by X, which contains NaN or infinity: impute"):
        KnnUEClassifier(HistGradientBoostingClassifier(max_iter=2)).fit(X, y)


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT], ids=repr)
@pytest.mark.parametrize("kind", [list, lambda labels: np.array(labels, dtype=object), pandas.Series])
def test_missing_label_is_refused_with_its_row(data, missing, kind):
    X, y, *_ = data
    names = np.array(["a", "b", "c"], dtype=object)[y]
    names[4] = missing

    with pytest.raises(
        InvalidInputError, match=r"y must hold a label for every row, 1 of 400 have none \(row 4\): drop"
    ):
        KnnUEClassifier().fit(X, kind(names.tolist()))


def test_missing_label_among_numbers_and_categories_is_refused_with_its_row(data):
    X, y, *_ = data
    numbers = np.where(np.arange(len(y)) == 4, np.nan, y)

    for labels in (numbers, numbers.tolist(), pandas.Series(numbers).astype("category"), pandas.Series(numbers)):
        with pytest.raises(InvalidInputError, match=r"1 of 400 have none \(row 4\)"):
            KnnUEClassifier().fit(X, labels)


def test_labels_of_several_kinds_are_refused(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match=r"labels of one kind, got 'a' \(row 0\) and 1 \(row 1\): convert"):
        KnnUEClassifier().fit(X, ["a", *[1] * (len(y) - 1)])


def test_no_rows_are_refused_by_name(data):
    X, y, *_ = data

    with pytest.raises(InvalidInputError, match="fit needs rows, got 0 of them"):
        KnnUEClassifier().fit(X[:0], y[:0])


def test_texts_are_refused_before_the_estimator_sees_them(reviews):
    texts, labels = reviews

    with pytest.raises(InvalidInputError, match="X holds texts, and neighbors are compared by numbers"):
        KnnUEClassifier().fit(texts, labels)


def test_columns_of_categories_are_refused_where_neighbors_are_compared_by_them(data):
    X, y, *_ = data
    frame = pandas.DataFrame({"number": X[:, 0], "genre": pandas.Categorical(np.where(X[:, 1] > 0, "drama", "comedy"))})
    boosted = HistGradientBoostingClassifier(max_iter=2, categorical_features="from_dtype")

    with pytest.raises(InvalidInputError, match=r"neighbors are compared by X, .*: encode such columns in a pipeline"):
        KnnUEClassifier(boosted).fit(frame, y)


def test_missing_values_behind_a_step_are_refused_by_its_name(data):
    X, y, *_ = data
    X = np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X)
    model = KnnUEClassifier(make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=2)))

    assert not get_tags(model).input_tags.allow_nan
    with pytest.raises(InvalidInputError, match=r"compared by the output of the step standardscaler, .*: impute"):
        model.fit(X, y)


def test_validation_rows_that_are_stored_rows_are_warned_about(data):
    X, y, X_val, y_val = data

    with pytest.warns(FitWarning, match="200 of 200 rows of X_val are at distance 0 of a stored row"):
        KnnUEClassifier().fit(np.vstack([X, X_val]), np.append(y, y_val), X_val=X_val, y_val=y_val)


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
