"""What a folder may say, in one place: the type and the range of every value and array, checked when it is read.

The schema of a folder's options is a frozen dataclass: the annotations are the rules. `int`, `float` (finite), `bool`,
`str`, `None`, `Literal`, unions, `tuple[...]`, `dict[str, X]`, `Mapping[str, Any]` (any JSON object), `Annotated[X,
Within(...)]` and other such dataclasses can be used; a field with a default may be missing, and an unknown field is
refused. `__post_init__` checks what several fields say together. The schema of its arrays is a `dict[str, ArrayRule]`.

>>> @dataclass(frozen=True, kw_only=True)
... class Stored:
...     temperature: Annotated[float, Within(1e-300, 1e300)]
>>> read_plain(Stored, {"temperature": 2.5})
Stored(temperature=2.5)
>>> read_plain(Stored, {"temperature": "x"})
Traceback (most recent call last):
ValueError: temperature must be a number, got 'x'
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError

Record = TypeVar("Record")
MAX_CLASSES = 1 << 20
_MAX_ITEMS = 1 << 20
_WHAT = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null"}


@dataclass(frozen=True)
class Within:
    """The least and the most that a number, or the length of a text or list, may be."""

    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class ArrayRule:
    """What an array may be: its `dtype`, its `shape` and, where given, the range of its values (then none is NaN).

    A number in `shape` is that size, a name is the same size wherever it stands in the folder's rules.
    """

    dtype: type[np.generic]
    shape: tuple[str | int, ...]
    within: Within | None = None
    rising: bool = False
    optional: bool = False


@contextmanager
def as_written(path: Path, kind: str) -> Iterator[None]:
    """Turn what goes wrong with values that were read from a folder into one `StorageError`."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, KnnUeError) and not isinstance(error, InvalidInputError):
            raise
        raise StorageError(
            f"{path} does not hold a valid {kind} ({str(error)[:300]}): restore it from a backup, or refit"
        ) from None


def read_plain(record: type[Record], plain: object, name: str = "") -> Record:
    """Return the `record` that plain JSON describes; ValueError where it does not keep the rules of the annotations."""
    if not isinstance(plain, Mapping):
        raise ValueError(f"{name or 'the whole'} must be an object, got {_short(plain)}")
    rules = _rules(record)  # type: ignore[arg-type]
    unknown = [key for key in plain if key not in rules]
    if unknown:
        raise ValueError(f"{_join(name, unknown[0])[:80]} is unknown")
    values = {}
    for key, (rule, required) in rules.items():
        if key in plain:
            values[key] = _read(rule, plain[key], _join(name, key))
        elif required:
            raise ValueError(f"{_join(name, key)} is missing")
    return record(**values)


def check_arrays(
    arrays: Mapping[str, npt.NDArray[Any]], rules: Mapping[str, ArrayRule], sizes: Mapping[str, int] | None = None
) -> None:
    """Raise ValueError unless the arrays keep the rules; `sizes` are those of named dimensions that are known.

    Arrays without a rule are not looked at.
    """
    known = dict(sizes or {})
    for name, rule in rules.items():
        if name not in arrays:
            if not rule.optional:
                raise ValueError(f"the array {name} is missing")
            continue
        array = arrays[name]
        expected = tuple(
            size if isinstance(size, int) else known.setdefault(size, found)
            for size, found in zip(rule.shape, array.shape, strict=False)
        )
        if array.dtype != rule.dtype or array.ndim != len(rule.shape) or array.shape != expected:
            shape = ", ".join(map(str, expected if array.ndim == len(rule.shape) else rule.shape))
            raise ValueError(
                f"{name} must be an array ({shape}) of {np.dtype(rule.dtype).name}, got {array.shape} of {array.dtype}"
            )
        # Comparisons with NaN are false, so that NaN is refused too.
        if (limits := rule.within) and array.size and not (array.min() >= limits.least and array.max() <= limits.most):
            raise ValueError(f"the values of {name} must lie within {limits.least:.4g} and {limits.most:.4g}")
        if rule.rising and (array[1:] < array[:-1]).any():
            raise ValueError(f"the values of {name} must rise")


@cache
def _rules(record: type[Any]) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(record, include_extras=True)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(record)
    }


def _read(rule: Any, value: Any, name: str) -> Any:
    origin, arguments = get_origin(rule), get_args(rule)
    if rule is Any:
        return value
    if origin is Annotated:
        return _within(_read(arguments[0], value, name), arguments[1:], name)
    if origin in (Union, UnionType):
        return _read_union(arguments, value, name)
    if origin is Literal:
        if not isinstance(value, (str, int)) or value not in arguments or isinstance(value, bool):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, arguments))}, got {_short(value)}")
        return value
    if origin is tuple:
        return _read_tuple(arguments, value, name)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict) or len(value) > _MAX_ITEMS:
            raise ValueError(f"{name} must be an object, got {_short(value)}")
        return {key: _read(arguments[1], item, _join(name, key)) for key, item in value.items()}
    if is_dataclass(rule):
        return read_plain(rule, value, name)  # type: ignore[arg-type]
    return _read_scalar(rule, value, name)


def _read_scalar(rule: Any, value: Any, name: str) -> Any:
    if rule is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"{name} must be a finite number, got {_short(value)}")
        return number
    if rule not in _WHAT or type(value) is not rule:  # a bool is no number
        raise ValueError(f"{name} must be {_WHAT.get(rule, rule)}, got {_short(value)}")
    if rule is str and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{name} must be valid Unicode")
    return value


def _read_union(rules: tuple[Any, ...], value: Any, name: str) -> Any:
    """Read `X | None`, or the first of several rules that the value keeps."""
    if value is None and NoneType in rules:
        return None
    others = [rule for rule in rules if rule is not NoneType]
    for rule in others[:-1]:
        try:
            return _read(rule, value, name)
        except ValueError:
            continue
    return _read(others[-1], value, name)


def _read_tuple(rules: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > _MAX_ITEMS:
        raise ValueError(f"{name} must be a list, got {_short(value)}")
    if rules[-1] is Ellipsis:
        rules = (rules[0],) * len(value)
    if len(rules) != len(value):
        raise ValueError(f"{name} must have {len(rules)} items, got {len(value)}")
    return tuple(
        _read(rule, item, f"{name}[{place}]") for place, (rule, item) in enumerate(zip(rules, value, strict=True))
    )


def _within(value: Any, limits: tuple[Any, ...], name: str) -> Any:
    for limit in limits:
        if isinstance(limit, Within) and value is not None:
            measured = value if isinstance(value, (int, float)) else len(value)
            if not limit.least <= measured <= limit.most:
                what = "the length of " if measured is not value else ""
                raise ValueError(
                    f"{what}{name} must lie within {limit.least:.6g} and {limit.most:.6g}, got {_short(measured)}"
                )
    return value


def _join(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write out the longest
        return "a number of many digits"
    return (
        repr(value)
        if isinstance(value, (str, int, float, NoneType)) and len(repr(value)) <= 60
        else (f"a {type(value).__name__}")
    )
