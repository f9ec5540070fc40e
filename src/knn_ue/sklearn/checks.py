"""Mistakes in what `KnnUEClassifier` is given, each answered in one sentence before anything is fitted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from knn_ue.errors import InvalidInputError

_ANSWERS = ("predict", "predict_proba", "decision_function")


def check_estimator_is_classifier(estimator: Any) -> None:
    """Raise unless the estimator is an instance that can be fitted on classes; a frozen one must be fitted."""
    if isinstance(estimator, type):
        raise InvalidInputError(f"estimator must be an object, got the class {estimator.__name__}: call it first")
    if not hasattr(estimator, "fit"):
        raise InvalidInputError(f"estimator must be a scikit-learn classifier, got {estimator!r}")
    if isinstance(estimator, FrozenEstimator):
        try:
            check_is_fitted(estimator.estimator)
        except NotFittedError:
            inner = type(estimator.estimator).__name__
            raise InvalidInputError(
                f"a FrozenEstimator must hold a fitted classifier, fit this {inner} first"
            ) from None
    elif is_regressor(estimator) or not any(hasattr(estimator, method) for method in _ANSWERS):
        raise InvalidInputError(
            f"estimator must be a classifier, {type(estimator).__name__} is none: it predicts no classes"
        )


def check_folds(cv: Any) -> None:
    """Raise where `cv` is what scikit-learn once called a fitted estimator."""
    if isinstance(cv, str) and cv == "prefit":
        raise InvalidInputError('cv="prefit" is not known: wrap the fitted estimator, FrozenEstimator(estimator)')


def check_fit_params(fit_params: Mapping[str, Any], n_rows: int) -> None:
    """Raise where fit parameters have no way to where they belong, or weights are not one per row."""
    if fit_params.get("groups") is not None and not get_config()["enable_metadata_routing"]:
        raise InvalidInputError(
            "groups reach cv by metadata routing only: call sklearn.set_config(enable_metadata_routing=True) first, or "
            "pass cv=list(GroupKFold().split(X, y, groups))"
        )
    weight: Any = fit_params.get("sample_weight")
    if hasattr(weight, "__len__") and len(weight) != n_rows:
        raise InvalidInputError(f"sample_weight must have a value for each of the {n_rows} rows, got {len(weight)}")


def check_labels_are_there(y: Any) -> None:
    """Raise where a label is None, which scikit-learn would call an unknown type."""
    values = np.asarray(y)
    if values.dtype == object and values.ndim == 1:
        missing = [row for row, label in enumerate(values) if label is None]
        if missing:
            raise InvalidInputError(
                f"y must hold a label for every row, {len(missing)} have None, the first is row {missing[0]}: drop them"
            )


def check_scores(classifier: Any, n_classes: int) -> None:
    """Raise where scores compare pairs of classes: with 3 classes there are as many pairs, so the shape hides it."""
    shapes = [value for name, value in classifier.get_params().items() if name.endswith("decision_function_shape")]
    if n_classes > 2 and "ovo" in shapes:
        raise InvalidInputError(
            "decision_function must have one column per class, those of SVC compare pairs of classes: use "
            'decision_function_shape="ovr"'
        )
