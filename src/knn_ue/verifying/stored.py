"""What the arrays of a stored verifier may be: every value is checked before one of them is used."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.folder.schema import ArrayRule, check_arrays

_MOST = 1e15  # squares and sums of such stay finite
_WHOLE = 1 << 40


def check_stored(
    arrays: Mapping[str, npt.NDArray[Any]], views: Iterable[str], *, n_classes: int, n_answers: int
) -> None:
    """Raise ValueError unless the arrays are those of a verifier with these views."""
    rules = {
        "gold": _numbers(("rows",), most=n_classes - 1),
        "answers": _numbers(("rows",), most=n_answers - 1),
        "left_out": ArrayRule(dtype=np.float64, shape=("rows", n_classes), least=0, most=1),
        "scores": ArrayRule(dtype=np.float64, shape=("rows",), least=0, most=1),
        "own": ArrayRule(dtype=np.float64, shape=("rows",), optional=True),  # NaN where it is unknown
    }
    for view in views:
        rules[f"{view}.weights"] = _real(("rows", n_classes))
        rules |= _sparse(view) if f"{view}.starts" in arrays else _dense(view)
    check_arrays(arrays, rules)
    if unknown := sorted(arrays.keys() - rules.keys()):
        raise ValueError(f"the array {unknown[0][:80]} belongs to no view")
    if "own" in arrays and np.isinf(arrays["own"]).any():
        raise ValueError("the own scores must be finite, or NaN where unknown")
    for view in views:
        _check_view(arrays, view, len(arrays["gold"]))


def _dense(view: str) -> dict[str, ArrayRule]:
    columns = f"{view} columns"
    return {
        f"{view}.rows": _real(("rows", columns), np.float32),
        f"{view}.center": _real((columns,)),
        f"{view}.scale": ArrayRule(dtype=np.float64, shape=(1,), least=1e-12, most=_MOST),
    }


def _sparse(view: str) -> dict[str, ArrayRule]:
    entries, seen = f"{view} entries", f"{view} seen"
    return {
        f"{view}.starts": _numbers((f"{view} starts",), rising=True),
        f"{view}.columns": _numbers((entries,)),
        f"{view}.values": _real((entries,), np.float32),
        f"{view}.seen": _numbers((seen,), rising=True),
        f"{view}.idf": _real((seen,)),
        f"{view}.unseen_idf": _real((1,)),
        f"{view}.sizes": _numbers((2,)),
    }


def _check_view(arrays: Mapping[str, npt.NDArray[Any]], view: str, n_rows: int) -> None:
    if f"{view}.starts" not in arrays:
        return
    starts, columns, seen = (arrays[f"{view}.{name}"] for name in ("starts", "columns", "seen"))
    all_columns, seen_columns = arrays[f"{view}.sizes"].tolist()
    if len(starts) != n_rows + 1 or starts[0] or starts[-1] != len(columns) or seen_columns != len(seen):
        raise ValueError(f"the rows of the view {view} contradict each other")
    if columns.max(initial=-1) >= seen_columns or seen.max(initial=-1) >= all_columns or all_columns > 1 << 24:
        raise ValueError(f"the columns of the view {view} are not among its {all_columns}")


def _numbers(shape: tuple[str | int, ...], *, most: float = _WHOLE, rising: bool = False) -> ArrayRule:
    return ArrayRule(dtype=np.int64, shape=shape, least=0, most=most, rising=rising)


def _real(shape: tuple[str | int, ...], dtype: type[np.generic] = np.float64) -> ArrayRule:
    return ArrayRule(dtype=dtype, shape=shape, least=-_MOST, most=_MOST)
