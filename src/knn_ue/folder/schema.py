"""One schema in both directions: what is written is checked by the rules by which it will be read.

The schema of plain values is a dataclass: its annotations are the rules (pydantic reads them, strictly: no number for a
text, no unknown field, no NaN), `Annotated[float, Interval(ge=0, le=1)]` sets limits, and `__post_init__` checks what
several fields say together. The schema of arrays is a `dict[str, ArrayRule]`.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, kw_only=True)
... class Stored:
...     temperature: float
>>> from_plain(Stored, {"temperature": 2.5})
Stored(temperature=2.5)
>>> from_plain(Stored, {"temperature": "x"})
Traceback (most recent call last):
ValueError: temperature: input should be a valid number, got 'x'
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError

_RULES = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
_LONG_NUMBER = re.compile(r"\d+\.\d{9,}|\d{19,}")
_SHORT = {"missing": "missing", "unexpected_keyword_argument": "unknown", "json_invalid": "not JSON of valid Unicode"}

Plain = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]
Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class ArrayRule:
    """What an array may be: its `dtype`, its `shape` and, where given, the range of its values (then none is NaN).

    A number in `shape` is that size, a name is the same size wherever it stands in the rules of one part.
    """

    dtype: type[np.generic]
    shape: tuple[str | int, ...]
    least: float | None = None
    most: float | None = None
    rising: bool = False
    optional: bool = False


def to_plain(record: Any) -> Plain:
    """Return a dataclass as plain JSON; InvalidInputError where its own rules would refuse to read it again."""
    try:
        return checked_plain(record)
    except ValueError as error:
        raise InvalidInputError(f"this could not be read again, so it is not saved ({error}): change it") from None


def checked_plain(record: Any) -> Plain:
    """Return a dataclass as plain JSON; ValueError, to be put into words, where its own rules would refuse it."""
    said = json.dumps(asdict(record))
    _validated(type(record), said)
    plain: Plain = json.loads(said)
    return plain


def from_plain(record: type[Record], plain: object) -> Record:
    """Return the `record` that plain JSON describes; ValueError where it does not keep the rules of its annotations."""
    return _validated(record, json.dumps(plain))


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
            size if isinstance(size, int) else known.setdefault(size, length)
            for size, length in zip(rule.shape, array.shape, strict=False)
        )
        if array.dtype != rule.dtype or array.ndim != len(rule.shape) or array.shape != expected:
            shape = ", ".join(map(str, expected if array.ndim == len(rule.shape) else rule.shape))
            raise ValueError(
                f"{name} must be an array ({shape}) of {np.dtype(rule.dtype).name}, got {array.shape} of {array.dtype}"
            )
        _check_values(name, array, rule)


def _check_values(name: str, array: npt.NDArray[Any], rule: ArrayRule) -> None:
    least, most = rule.least, rule.most
    if array.size and (least is not None or most is not None):
        least, most = -np.inf if least is None else least, np.inf if most is None else most
        # Comparisons with NaN are false, so that NaN is refused too.
        if not (array.min() >= least and array.max() <= most):
            raise ValueError(f"the values of {name} must lie within {least:.4g} and {most:.4g}")
    if rule.rising and (array[1:] < array[:-1]).any():
        raise ValueError(f"the values of {name} must rise")


@contextmanager
def as_written(where: Path | str, kind: str) -> Iterator[None]:
    """Turn what goes wrong with values that were read from a folder into one `StorageError`."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, KnnUeError) and not isinstance(error, InvalidInputError):
            raise
        raise StorageError(
            f"{where} does not hold a valid {kind} ({str(error)[:300]}): restore it from a backup, or refit"
        ) from None


def _validated(record: type[Record], said: str) -> Record:
    from pydantic import ValidationError

    try:
        validated: Record = _adapter(record).validate_json(said)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        if first["type"] in _SHORT:
            raise ValueError(f"{place[:80]} is {_SHORT[first['type']]}") from None
        message = _LONG_NUMBER.sub(
            lambda number: f"{float(number[0]):.4g}", first["msg"][:1].lower() + first["msg"][1:]
        )
        given = repr(first["input"])
        got = given if len(given) <= 60 else f"a {type(first['input']).__name__}"
        raise ValueError(f"{place[:80]}: {message.removeprefix('value error, ')}, got {got}") from None
    return validated


@cache
def _adapter(record: type[Any]) -> Any:
    from pydantic import TypeAdapter

    _make_strict(record, set())
    return TypeAdapter(record)


def _make_strict(hint: Any, seen: set[Any]) -> None:
    """Let pydantic read every dataclass that an annotation reaches by our rules: by its own it would convert."""
    if is_dataclass(hint) and isinstance(hint, type) and hint not in seen:
        seen.add(hint)
        hint.__pydantic_config__ = _RULES  # type: ignore[attr-defined]
        for inner in get_type_hints(hint, include_extras=True).values():
            _make_strict(inner, seen)
    for inner in get_args(hint):
        _make_strict(inner, seen)
