"""What a folder says and may say: `meta.json`, sealed by a checksum, and the rules of every value and array.

`meta.json` names the files and the parts of a folder; what is in its options is checked when they are read. Their
schema is a frozen dataclass: the annotations are the rules. `int`, `float` (finite), `bool`, `str`, `None`, `Literal`,
unions, `tuple[...]`, `dict[str, X]`, `Mapping[str, Any]` (any JSON object), `Annotated[X, Within(...)]` and other such
dataclasses can be used; a field with a default may be missing, and an unknown field is refused. `__post_init__` checks
what several fields say together. The schema of its arrays is a `dict[str, ArrayRule]`.

>>> @dataclass(frozen=True, kw_only=True)
... class Stored:
...     temperature: Annotated[float, Within(1e-300, 1e300)]
>>> read_plain(Stored, {"temperature": 2.5})
Stored(temperature=2.5)
>>> read_plain(Stored, {"temperature": "x"})
Traceback (most recent call last):
ValueError: temperature must be a number, got 'x'
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from io import BufferedReader
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError
from knn_ue.storage.atomic import storage_errors

FORMAT = 1
META = "meta.json"
NAME = r"[a-z][a-z0-9_]*"
GENERATION = r"[0-9]{8}-[0-9a-f]{8}"
# Whatever matches is ours to remove; everything else in the folder is the user's and is never touched.
OUR_NAME = re.compile(rf"(?:{NAME}\.{GENERATION}(?:\.[a-z]+)?|meta\.json\.{GENERATION})")
_PART = re.compile(rf"{NAME}\.{GENERATION}")
_MAX_META_BYTES = 1 << 24

Meta = dict[str, Any]
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
    prefix = f"{name}." if name else ""
    unknown = [key for key in plain if key not in rules]
    if unknown:
        raise ValueError(f"{prefix}{unknown[0]}"[:80] + " is unknown")
    values = {}
    for key, (rule, required) in rules.items():
        if key in plain:
            values[key] = _read(rule, plain[key], f"{prefix}{key}")
        elif required:
            raise ValueError(f"{prefix}{key} is missing")
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
        read = _read(arguments[0], value, name)
        for limit in arguments[1:] if read is not None else ():
            measured = read if isinstance(read, (int, float)) else len(read)
            if not limit.least <= measured <= limit.most:
                what = "the length of " if measured is not read else ""
                raise ValueError(
                    f"{what}{name} must lie within {limit.least:.6g} and {limit.most:.6g}, got {_short(measured)}"
                )
        return read
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
        return {key: _read(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
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


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write out the longest
        return "a number of many digits"
    return (
        repr(value)
        if isinstance(value, (str, int, float, NoneType)) and len(repr(value)) <= 60
        else (f"a {type(value).__name__}")
    )


def generation_of(path: str | Path) -> str:
    """Return the generation that is committed in the folder now."""
    return str(read_meta(Path(path))["generation"])


def kind_of(path: str | Path) -> str:
    """Return what kind of thing the folder holds."""
    return str(read_meta(Path(path))["kind"])


def identity_of(path: str | Path) -> str:
    """Return the identity of what the folder holds, without reading the rest."""
    return str(read_meta(Path(path))["identity"])


def check_named(path: str | Path) -> None:
    """Raise where the folder is a part of another one that no longer names it: what is written to it would be lost.

    A part has a generation in its name, and is named by the `meta.json` beside it, up to the folder that is no part.
    """
    folder = Path(path).absolute()
    identity = identity_of(folder)
    while _PART.fullmatch(folder.name) and os.path.lexists(folder.parent / META):
        whole = read_meta(folder.parent)
        if not any((part["name"], part["identity"]) == (folder.name, identity) for part in whole["folders"].values()):
            raise StorageError(
                f"{folder} is no longer a part of {folder.parent}, which was saved again: nothing was changed, load "
                f"{folder.parent} again, then repeat"
            )
        folder, identity = folder.parent, whole["identity"]


def open_plain_file(path: Path) -> BufferedReader:
    """Open a plain file to read: never a link out of the folder, a pipe that blocks, or an endless device."""
    with storage_errors(f"{path} cannot be read", "restore the folder from a backup"):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StorageError(f"{path} is not a plain file: do not trust this folder")
        return path.open("rb")


def encode_meta(folder: Path, meta: Meta) -> bytes:
    """Return the content of meta.json, having made sure that it can be read back."""
    meta = json.loads(json.dumps(meta))  # what JSON makes of it is what the checksum must hold for
    _check_meta(folder, meta)
    encoded = json.dumps(meta | {"checksum": _checksum(meta)}, indent=1, sort_keys=True).encode()
    if len(encoded) > _MAX_META_BYTES:
        raise StorageError(f"the options are larger than {_MAX_META_BYTES} bytes: store what is large as an array")
    return encoded


def read_meta(folder: Path) -> Meta:
    """Return what the `meta.json` of a folder says, after checking that it is one of ours."""
    path = folder / META
    with storage_errors(f"{folder} cannot be read", "check the path and its permissions"):
        if not os.path.lexists(folder):
            raise StorageError(f"the folder {folder} does not exist: check the path")
        if not os.path.lexists(path):
            raise StorageError(
                f"{folder} has no {META}, so it is not a knn-ue folder or was never saved completely: "
                "give a folder that knn-ue fit or save wrote"
            )
        with open_plain_file(path) as file:
            content = file.read(_MAX_META_BYTES + 1)
    if len(content) > _MAX_META_BYTES:
        raise StorageError(f"{path} is larger than {_MAX_META_BYTES} bytes: do not trust this folder")
    try:
        meta = json.loads(content)
        if not isinstance(meta, dict) or type(meta.get("format")) is not int or meta["format"] < 1:
            raise StorageError(f"{path} has no format number: it is not a knn-ue folder")
        if meta["format"] > FORMAT:
            raise StorageError(
                f"{folder} has format {meta['format']}, this version reads {FORMAT}: upgrade with pip install -U knn-ue"
            )
        if meta.pop("checksum", None) != _checksum(meta):
            raise StorageError(f"{path} does not match its checksum: it was altered; restore it from a backup")
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is not valid JSON: restore the folder from a backup") from None
    _check_meta(folder, meta)
    return meta


def _check_meta(folder: Path, meta: Meta) -> None:
    strings = all(isinstance(meta.get(key), str) for key in ("kind", "identity", "generation"))
    groups = all(isinstance(meta.get(key), dict) for key in ("options", "files", "folders"))
    if not strings or not groups or not re.fullmatch(GENERATION, str(meta.get("generation"))):
        raise StorageError(f"{folder / META} lacks a required entry: restore the folder from a backup")
    for group, wanted in (
        ("files", {"name": str, "size": int, "sha256": str}),
        ("folders", {"name": str, "identity": str}),
    ):
        for entry in meta[group].values():
            well_formed = isinstance(entry, dict) and all(type(entry.get(k)) is t for k, t in wanted.items())
            # A hostile name ("../x", "/etc/x") must never leave the folder.
            if not well_formed or not OUR_NAME.fullmatch(entry["name"]):
                raise StorageError(f"{folder / META} names a file that cannot be ours: do not trust this folder")


def _checksum(meta: Meta) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()
