"""Rows -> the features and the logits of a fitted scikit-learn estimator."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array, get_tags

from knn_ue.arrays import FloatArray
from knn_ue.errors import InvalidInputError
from knn_ue.sklearn.checks import check_scores

Features = str | Callable[[Any, Any], Any]

# log(0) has no finite value. A floor far below any probability worth telling from zero leaves the others as they are.
_LOWEST_PROBABILITY = 1e-12


def read_rows(estimator: Any, features: Features, X: Any) -> tuple[Any, FloatArray]:
    """Return what neighbors are compared by (n, d), dense or sparse, and the logits (n, classes)."""
    stop = _step_count(estimator, features)
    if stop:  # the steps of a pipeline run once for both
        *steps, (_, classifier) = _steps(estimator)
        raw = X
        for number, (_, step) in enumerate(steps, start=1):
            X = X if step in (None, "passthrough") else step.transform(X)
            raw = X if number == stop else raw
        logits = class_logits(classifier, X)
        return _numbers(raw, f"the output of the step {steps[stop - 1][0]}"), logits
    # The logits first: the estimator's own checks of X give the errors its users know.
    logits = class_logits(estimator, X)
    if callable(features):
        return _checked(features(estimator, X), len(logits)), logits
    if features == "transform":
        if not hasattr(estimator, "transform"):
            raise InvalidInputError(
                f'features="transform" needs an estimator that has transform, {type(estimator).__name__} has none: '
                'use "auto", "input" or the name of a pipeline step'
            )
        return estimator.transform(X), logits
    check_comparable(estimator, features, X)
    return _numbers(X, "X"), logits


def check_comparable(estimator: Any, features: Features, X: Any) -> None:
    """Raise where neighbors would be compared by texts."""
    by_input = features == "input" or (features == "auto" and len(_steps(estimator)) < 2)
    if by_input and texts_of(X) is not None:
        raise InvalidInputError(
            "X holds texts, and neighbors are compared by numbers: put the estimator behind an encoder in a pipeline, "
            "or pass features=function(estimator, X)"
        )


def _numbers(found: Any, what: str) -> Any:
    """Return what neighbors are compared by as finite numbers, dense or sparse."""
    rule, other = f"neighbors are compared by {what}", "or pass features=function(estimator, X)"
    try:
        numbers = check_array(found, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(
            f"{rule}, which must hold numbers ({reason}): encode such columns in a pipeline, {other}"
        ) from None
    if not np.isfinite(numbers.data if issparse(numbers) else numbers).all():
        raise InvalidInputError(f"{rule}, which contains NaN or infinity: impute in a pipeline, {other}")
    return numbers


def _checked(found: Any, n_rows: int) -> Any:
    """Return what a function of the user gave, if neighbors can be compared by it."""
    rule = f"the function features must return an array of numbers with a row for each of the {n_rows} rows of X"
    try:
        numbers = check_array(found, accept_sparse="csr", ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{rule} ({str(error).splitlines()[0]}): return (n, columns)") from None
    if numbers.shape[0] != n_rows:
        raise InvalidInputError(f"{rule}, got the shape {numbers.shape}: return (n, columns)")
    if not np.isfinite(numbers.data if issparse(numbers) else numbers).all():
        raise InvalidInputError("the function features returned NaN or infinity: impute in the function")
    return numbers


def class_logits(estimator: Any, X: Any) -> FloatArray:
    """Return the logits (n, classes) of a fitted estimator: `decision_function`, else the log of `predict_proba`."""
    if hasattr(estimator, "decision_function"):
        check_scores(estimator, len(estimator.classes_))
        scores: FloatArray = np.asarray(estimator.decision_function(X), dtype=np.float64)
        return np.column_stack([-scores / 2, scores / 2]) if scores.ndim == 1 else scores
    if hasattr(estimator, "predict_proba"):
        probs = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        logits: FloatArray = np.log(np.maximum(probs, _LOWEST_PROBABILITY))
        return logits
    raise InvalidInputError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba: use a classifier that has one"
    )


def takes_missing(estimator: Any, features: Features) -> bool:
    """Say whether the input may hold missing values: those who compare neighbors by it may not have any."""
    steps = _steps(estimator)
    if features == "input" or (features == "auto" and len(steps) < 2):
        return False
    if not steps:
        return hasattr(estimator, "fit") and bool(get_tags(estimator).input_tags.allow_nan)
    # The tags of a pipeline do not say it. Missing values are filled in by an imputer, or taken by every step.
    takes = [step for _, step in steps if hasattr(step, "fit")]
    allowed = [bool(get_tags(step).input_tags.allow_nan) for step in takes]
    fills = [bool(step.__class__.__module__.startswith("sklearn.impute")) for step in takes]
    first_fill = fills.index(True) if any(fills) else len(takes)
    if not callable(features) and first_fill >= _step_count(estimator, features):
        return False  # missing values would reach the features
    return all(allowed[: first_fill + 1])


def texts_of(X: Any) -> Sequence[str] | None:
    """Return the rows of `X` if they are texts, so that explanations can show them."""
    if issparse(X) or not hasattr(X, "__iter__") or getattr(X, "ndim", 1) != 1:
        return None
    rows = list(X)
    return rows if rows and all(isinstance(row, str) for row in rows) else None


def _steps(estimator: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline, frozen or found by a search; none for any other estimator."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return list(getattr(getattr(estimator, "best_estimator_", estimator), "steps", []))


def _step_count(estimator: Any, features: Features) -> int:
    """Return after how many steps of its pipeline the features are read; 0 if they are not the output of a step."""
    steps = _steps(estimator)
    if callable(features) or features in ("input", "transform"):
        return 0
    if features == "auto":
        return max(len(steps) - 1, 0)
    names = [name for name, _ in steps[:-1]]
    if features not in names:
        raise InvalidInputError(
            f'features must be "auto", "input", "transform", a function of (estimator, X) or a step before the '
            f"classifier ({', '.join(names) or 'the estimator is not a pipeline'}), got {features!r}"
        )
    return names.index(features) + 1


def dense(raw: Any, components: FloatArray | None) -> FloatArray:
    if components is not None:
        raw = raw @ components
    dense: FloatArray = np.ascontiguousarray(raw.toarray() if issparse(raw) else raw, dtype=np.float32)
    return dense
