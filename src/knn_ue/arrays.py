"""Array checks, each written once, and the softmax every method ends in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.errors import InvalidInputError

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_CHECK_ROWS = 1 << 16
# Larger than any float32, and its sixth power is still a float64: whatever is computed from logits stays finite.
MAX_LOGIT = 1e50
MAX_CLASSES = 1 << 20


def to_numpy(values: object, name: str) -> npt.NDArray[Any]:
    """Turn a list, array or tensor of any framework into a numpy array, without importing that framework."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
        if str(getattr(values, "dtype", "")).endswith("bfloat16"):  # numpy has no such type
            values = values.float()  # type: ignore[attr-defined]
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InvalidInputError(f"{name} cannot be read as an array ({error}): pass a rectangular array") from None
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must hold numbers, got dtype {array.dtype}: convert it first")
    return array


def float_matrix(values: object, name: str, *, dtype: type[np.floating[Any]] | None = None) -> FloatArray:
    """Return `values` as a finite, C-contiguous (n, columns) float array, copied only if it must be.

    Without `dtype`, float32 and float64 stay as they are and everything else becomes float32.

    >>> float_matrix([[1, 2], [3, 4]], "features").dtype
    dtype('float32')
    """
    array = to_numpy(values, name)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must have two dimensions (rows, columns), got shape {array.shape}: reshape it")
    if array.shape[1] == 0:
        raise InvalidInputError(f"{name} must have at least one column, got shape {array.shape}")
    return _finite(array, name, dtype)


def logit_matrix(values: object, name: str) -> FloatArray:
    """Return `values` as a (n, classes) float array with magnitudes up to 1e50, beyond which sums and squares overflow.

    >>> logit_matrix([[1.5, -2.0]], "logits").shape
    (1, 2)
    """
    array = float_matrix(values, name)
    for start in range(0, len(array) if array.dtype == np.float64 else 0, _CHECK_ROWS):
        block = array[start : start + _CHECK_ROWS]
        largest = max(float(block.max()), -float(block.min()))
        if largest > MAX_LOGIT:
            raise InvalidInputError(
                f"{name} must lie within -{MAX_LOGIT:.0e} and {MAX_LOGIT:.0e}, got a magnitude of {largest:.3g}: "
                "divide all of them by one constant, or check the model"
            )
    return array


def float_vector(values: object, name: str, *, length: int | None = None) -> FloatArray:
    """Return `values` as a finite (n,) float64 array."""
    array = to_numpy(values, name)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {array.shape}: ravel it")
    check_length(len(array), name, length)
    return _finite(array, name, np.float64)


def probability_vector(values: object, name: str, *, length: int | None = None) -> FloatArray:
    """Return `values` as a (n,) float64 array within [0, 1]."""
    array = float_vector(values, name, length=length)
    if len(array) and (array.min() < 0 or array.max() > 1):
        worst = array[np.argmax(np.abs(array - 0.5))]
        raise InvalidInputError(f"{name} must lie within [0, 1], got {worst:.6g}: pass probabilities, not logits")
    return array


def probability_matrix(values: object, name: str) -> FloatArray:
    """Return `values` as a (n, classes) float64 array whose rows are distributions (sum 1 within 1e-4)."""
    array = float_matrix(values, name, dtype=np.float64)
    if not len(array):
        return array
    if array.min() < 0:
        raise InvalidInputError(f"{name} must not be negative, got {array.min():.6g}: pass probabilities, not logits")
    sums = array.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[worst] - 1.0) > 1e-4:
        raise InvalidInputError(
            f"each row of {name} must sum to 1, row {worst} sums to {sums[worst]:.6g}: apply a softmax first"
        )
    return array


def label_vector(values: object, name: str, *, n_classes: int | None = None, length: int | None = None) -> IntArray:
    """Return `values` as a (n,) int64 array of class numbers 0 .. n_classes - 1."""
    array = to_numpy(values, name)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {array.shape}: one class number per row")
    if array.dtype.kind not in "iub" and len(array):
        raise InvalidInputError(f"{name} must be whole class numbers, got dtype {array.dtype}: use astype(int)")
    check_length(len(array), name, length)
    labels = np.ascontiguousarray(array, dtype=np.int64)
    if len(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0:
            raise InvalidInputError(f"{name} must not be negative, got {low}: drop the rows you want ignored")
        if high >= MAX_CLASSES:
            raise InvalidInputError(f"{name} must be below {MAX_CLASSES}, got {high}: number the classes from 0")
        if n_classes is not None and high >= n_classes:
            raise InvalidInputError(
                f"{name} must be below the number of classes {n_classes}, got {high}: number the classes from 0"
            )
    return labels


def id_vector(values: object, name: str) -> IntArray:
    """Return `values`, one whole number or a (n,) array of them, as a (n,) int64 array."""
    array = np.atleast_1d(to_numpy(values, name))
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise InvalidInputError(
            f"{name} must be whole numbers in one dimension, got {array.dtype} {array.shape}: ravel or convert them"
        )
    return array.astype(np.int64)


def bool_vector(values: object, name: str, *, length: int | None = None) -> BoolArray:
    """Return `values` (booleans, or numbers that are 0 or 1) as a (n,) bool array."""
    array = to_numpy(values, name)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got shape {array.shape}: ravel it")
    check_length(len(array), name, length)
    if array.dtype.kind != "b":
        if not np.isin(array, (0, 1)).all():
            raise InvalidInputError(
                f"{name} must hold only 0 and 1 (or booleans), got {array[~np.isin(array, (0, 1))][0]}"
            )
        array = array.astype(bool)
    return array


def text_tuple(values: Sequence[str], name: str, *, length: int | None = None) -> tuple[str, ...]:
    """Return `values` as a tuple of strings."""
    if isinstance(values, str):
        raise InvalidInputError(f"{name} must be a sequence of strings, got one string: wrap it in a list")
    texts = tuple(values)
    check_length(len(texts), name, length)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"{name} must be strings, item {position} is a {type(text).__name__}")
    return texts


def check_length(found: int, name: str, expected: int | None) -> None:
    """Raise unless `found` rows are `expected` rows."""
    if expected is not None and found != expected:
        raise InvalidInputError(f"{name} has {found} rows but {expected} are expected, one per example")


def check_not_empty(n_rows: int, name: str) -> None:
    """Raise where there is nothing to compute on."""
    if n_rows == 0:
        raise InvalidInputError(f"{name} is empty: at least one row is needed")


def check_positive(value: int, name: str) -> None:
    """Raise unless `value` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_choice(value: object, name: str, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of the closed `choices`."""
    if value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r:.80}")


def read_only(array: Any) -> Any:
    """Return a view of `array` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def softmax(logits: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Return softmax(weight * logits), float64 (n, classes), with the largest entry where the logits have it.

    `weight` (n,) must be positive. Where it is so small that float64 cannot tell the classes apart, the logits'
    first maximum is raised by one unit in the last place, so that `argmax` never changes.

    >>> softmax(np.array([[0.0, 1e-9]]), np.array([1e-12])).argmax(axis=1)
    array([1])
    """
    with np.errstate(over="ignore"):  # what is minus infinity then has probability zero
        shifted = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
        if weight is not None:
            shifted *= weight[:, None]
    probs: FloatArray = np.exp(shifted, out=shifted)
    probs /= probs.sum(axis=1, keepdims=True)
    predicted = logits.argmax(axis=1)
    (tied,) = np.nonzero(probs.argmax(axis=1) != predicted)
    probs[tied, predicted[tied]] = np.nextafter(probs[tied].max(axis=1), 1.0)
    return probs


def _finite(array: npt.NDArray[Any], name: str, dtype: type[np.floating[Any]] | None) -> FloatArray:
    if dtype is None:
        dtype = np.float64 if array.dtype == np.float64 else np.float32
    with np.errstate(over="ignore"):  # what does not fit becomes inf and is reported below
        converted: FloatArray = np.ascontiguousarray(array, dtype=dtype)
    for start in range(0, len(converted), _CHECK_ROWS):
        block = converted[start : start + _CHECK_ROWS]
        # A finite sum proves a finite block without a temporary; only an overflow needs the closer look.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                continue
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            place = (start + int(bad[0][0]), *map(int, bad[0][1:]))
            raise InvalidInputError(
                f"{name} must be finite, got {array[place]} at {place}: remove or replace the row "
                f"(values are held as {np.dtype(dtype).name})"
            )
    return converted
