"""Mistakes in what `KnnUEClassifier` is given, each answered in one sentence before anything is fitted."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from knn_ue.arrays import FloatArray
from knn_ue.errors import FitWarning, InvalidInputError

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
    elif is_regressor(estimator) or not (  # some classifiers have their methods only once they are fitted
        is_classifier(estimator) or any(hasattr(estimator, method) for method in _ANSWERS)
    ):
        raise InvalidInputError(
            f"estimator must be a classifier, {type(estimator).__name__} is not one: it predicts no classes"
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


def check_labels(y: Any, name: str) -> None:
    """Raise where there is no label, one is missing, or some are texts and others numbers.

    scikit-learn would call the last two a comparison that failed, or, in a list, make one class "nan" of them.
    """
    labels = list(y) if isinstance(y, (list, tuple)) else np.asarray(y)
    if not len(labels):
        raise InvalidInputError("fit needs rows, got 0 of them: check what was filtered out")
    if isinstance(labels, np.ndarray) and (labels.ndim != 1 or labels.dtype.kind not in "Of"):
        return
    missing = [row for row, label in enumerate(labels) if _is_missing(label)]
    if missing:
        raise InvalidInputError(
            f"{name} must hold a label for every row, {len(missing)} of {len(labels)} have none "
            f"({listed_rows(missing)}): drop them"
        )
    row_of = {isinstance(label, str): row for row, label in reversed(list(enumerate(labels)))}
    if len(row_of) > 1:
        shown = " and ".join(f"{labels[row]!r} (row {row})" for row in sorted(row_of.values()))
        raise InvalidInputError(f"{name} must hold labels of one kind, got {shown}: convert them to strings")


def listed_rows(rows: Sequence[int], n_shown: int = 5) -> str:
    """Return the first rows of many.

    >>> listed_rows([4, 7])
    'rows 4, 7'
    """
    more = ", ..." if len(rows) > n_shown else ""
    return f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:n_shown]))}{more}"


def _is_missing(label: Any) -> bool:
    # pandas has two objects of its own, which are neither equal nor unequal to anything.
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def check_every_class(classes: npt.NDArray[Any], known: npt.NDArray[Any]) -> None:
    """Raise where the estimator of a fold has not seen all classes."""
    if not np.array_equal(classes, known):
        missing = np.setdiff1d(classes, known).tolist()
        raise InvalidInputError(f"each fold must be trained on every class, one lacks {missing}: stratify cv")


def warn_of_stored_rows(nearest: FloatArray) -> None:
    """Warn where rows to calibrate on are stored rows: they are classified and searched better than any others."""
    n_same = int((nearest == 0).sum())
    if n_same:
        warnings.warn(
            f"{n_same} of {len(nearest)} rows of X_val are at distance 0 of a stored row: if they are rows of X, "
            "probabilities will be too high: calibrate on other rows",
            FitWarning,
            stacklevel=3,
        )


def check_scores(classifier: Any, n_classes: int) -> None:
    """Raise where scores compare pairs of classes: with 3 classes there are as many pairs, so the shape hides it."""
    shapes = [value for name, value in classifier.get_params().items() if name.endswith("decision_function_shape")]
    if n_classes > 2 and "ovo" in shapes:
        raise InvalidInputError(
            "decision_function must have one column per class, those of SVC compare pairs of classes: use "
            'decision_function_shape="ovr"'
        )
