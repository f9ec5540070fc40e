"""What `save` accepts, `load` accepts: calibrators with values beyond every limit are refused, or read back equal."""

import json
import random
from collections.abc import Iterator
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from knn_ue.errors import InvalidInputError
from knn_ue.folder import Part
from knn_ue.folder.tensors import arrays_from_bytes, arrays_to_bytes
from knn_ue.methods import METHODS, calibrator_from_part, make_calibrator
from torture.mutations import forge_array
from torture.tally import Plan
from torture.victims import N_NEIGHBORS, toy

_DRAWS = 100_000
_METHODS = ("softmax", "temperature", "mahalanobis", "dac", "knn-ue", "knn-ue-no-label")
_EDGES = (0.0, 5e-324, 1e-300, 1e-100, 1e-20, 1e-9, 1e-6, 1e-3, 0.5, 1.0, 2.0, 1e3, 1e6, 1e9, 1e20, 1e38, 1e100, 1e308)
_NUMBERS = (*_EDGES, *(-edge for edge in _EDGES), float("nan"), float("inf"), float("-inf"))
_WHOLES = (-1, 0, 1, 2, 3, 7, 64, 65_535, 65_536, 65_537, 2**20, 2**31, 2**62, 2**63 - 1, 2**63, 10**30)
_WORDS = ("", "x", "a" * 5000, "\ud800", "\0", "é", "\u2028", "../../x")


def attack(plan: Plan) -> None:
    """Draw a hundred thousand calibrators, or as many as the time allows."""
    rng = random.Random(plan.seed)
    train, validation, _ = toy()
    fitted = [
        make_calibrator(name, train, n_neighbors=N_NEIGHBORS).fit(validation) for name in _METHODS if name in METHODS
    ]
    n_accepted = 0
    while not plan.tally.tried or (plan.left > 0 and plan.tally.tried < _DRAWS):
        calibrator = rng.choice(fitted)
        changed, done = _drawn(calibrator, rng)
        plan.tally.tried += 1
        if changed is not None:
            n_accepted += _is_read_back(changed, f"{calibrator.kind} with {done}", plan)
    plan.tally.note = f"{n_accepted:,} accepted and read back"


def _drawn(calibrator: Any, rng: random.Random) -> tuple[Any, str]:
    """Return a copy with other values, None where a record of its parameters refuses them, and what they are."""
    changed, done = copy(calibrator), []
    for _ in range(rng.choice([1, 1, 2])):
        names = [one.name for one in fields(calibrator.State)]
        if calibrator.ARRAYS and (not names or rng.random() < 0.4):
            done.append(_change_array(changed, rng))
        elif names:
            name = rng.choice(names)
            try:
                value, said = _other(getattr(changed, name), rng)
            except (InvalidInputError, ValueError, TypeError):
                return None, ""
            setattr(changed, name, value)
            done.append(f"{name}{said}")
    return changed, ", ".join(done)


def _other(value: Any, rng: random.Random) -> tuple[Any, str]:
    """Return another value of the same kind, and words for it."""
    if is_dataclass(value) and not isinstance(value, type) and fields(value):
        name = rng.choice(fields(value)).name
        inner, said = _other(getattr(value, name), rng)
        return replace(value, **{name: inner}), f".{name}{said}"
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        inner, said = _other(value[key], rng)
        return {**value, key: inner}, f"[{key!r}]{said}"
    if isinstance(value, tuple) and value:
        place = rng.randrange(len(value))
        inner, said = _other(value[place], rng)
        return (*value[:place], inner, *value[place + 1 :]), f"[{place}]{said}"
    if isinstance(value, bool):
        new: Any = not value
    elif isinstance(value, int):
        new = rng.choice([*_WHOLES, value + 1, -value])
    elif isinstance(value, float):
        new = rng.choice([*_NUMBERS, value * (1 + 1e-9), -value])
    elif isinstance(value, str):
        new = rng.choice(_WORDS)
    else:
        new = value
    return new, f" = {new!r:.30}"


def _change_array(calibrator: Any, rng: random.Random) -> str:
    name = rng.choice(sorted(calibrator.ARRAYS))
    owner, dot, last = name.rpartition(".")
    holder = getattr(calibrator, owner) if dot else calibrator
    arrays = {last: np.array(getattr(holder, last))}
    said = forge_array(arrays, last, rng)
    if last in arrays:
        if dot:
            setattr(calibrator, owner, holder := copy(holder))
        object.__setattr__(holder, last, arrays[last])
    return f"{owner}{dot}{said}"


def _is_read_back(calibrator: Any, place: str, plan: Plan) -> bool:
    """Write a calibrator and read it again; whether it was accepted."""
    try:
        state, arrays = calibrator.to_state()
    except InvalidInputError as error:
        if "\n" in str(error) or len(str(error)) > 1000:
            plan.tally.blame("wrong", f"{place}: not one sentence: {error!r:.200}")
        return False
    except Exception as error:
        plan.tally.blame("wrong", f"{place}: a bare error: {error!r:.200}")
        return False
    try:
        stored = arrays_from_bytes(arrays_to_bytes(arrays)) if arrays else {}
        part = Part(kind=calibrator.kind, state=json.loads(json.dumps(state)), arrays=stored)
        again, read = calibrator_from_part(part, stores=calibrator.stores).to_state()
    except Exception as error:
        plan.tally.blame("lost", f"{place}: was accepted and is not read back: {error!r:.300}")
        return True
    same = again == state and list(read) == list(arrays)
    if not same or any(one.tobytes() != other.tobytes() for one, other in _pairs(read, arrays)):
        plan.tally.blame("wrong", f"{place}: another value was read back")
    return True


def _pairs(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    return ((one[name], other[name]) for name in one)
