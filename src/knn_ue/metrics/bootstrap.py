"""How far a metric might lie from its value on other data of the same kind."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import IntArray, check_length, check_not_empty, check_positive
from knn_ue.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A metric's value on the data, `estimate`, and the bounds `low` and `high` of an interval that contains it."""

    low: float
    high: float
    estimate: float


def bootstrap_interval(
    metric: Callable[..., float],
    *arrays: npt.NDArray[Any],
    n_bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: IntArray | None = None,
) -> Interval:
    """Return the percentile interval of `metric(*arrays)` over rows drawn with replacement. Efron (1979).

    Each array has n rows; `metric` is called with the drawn rows of each, in the order given. With `groups` (n,),
    whole groups are drawn: the words of one sentence are not independent. Draws where the metric is NaN are left
    out; where all are, the bounds are NaN. Resampling adds noise that a calibration error counts as error, so that all
    draws may exceed a small one: the interval is extended to the estimate where it would not contain it.

    >>> bootstrap_interval(lambda correct: correct.mean(), np.array([0, 1, 1, 1]), n_bootstrap=200)
    Interval(low=0.25, high=1.0, estimate=0.75)
    """
    check_positive(n_bootstrap, "n_bootstrap")
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must lie between 0 and 1, got {level!r}: 0.95 is usual")
    if not arrays:
        raise InvalidInputError("bootstrap_interval needs at least one array, got none: pass what the metric reads")
    columns = [np.asarray(array) for array in arrays]
    n_rows = len(columns[0])
    check_not_empty(n_rows, "the first array")
    for number, column in enumerate(columns):
        check_length(len(column), f"array {number}", n_rows)
    draw = _row_sampler(n_rows) if groups is None else _group_sampler(np.asarray(groups), n_rows)
    rng = np.random.default_rng(seed)
    values = np.empty(n_bootstrap)
    for number in range(n_bootstrap):
        rows = draw(rng)
        values[number] = metric(*(column[rows] for column in columns))
    low, high = _bounds(values[~np.isnan(values)], level)
    estimate = float(metric(*columns))
    # In this order a NaN of either stays what it is.
    return Interval(low=min(low, estimate), high=max(high, estimate), estimate=estimate)


def _bounds(values: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def _row_sampler(n_rows: int) -> Callable[[np.random.Generator], IntArray]:
    return lambda rng: rng.integers(n_rows, size=n_rows)


def _group_sampler(groups: npt.NDArray[Any], n_rows: int) -> Callable[[np.random.Generator], IntArray]:
    check_length(len(groups), "groups", n_rows)
    _, number = np.unique(groups, return_inverse=True)
    rows = GroupRows(number, int(number.max()) + 1)
    return lambda rng: rows(rng.integers(rows.n_groups, size=rows.n_groups))


class GroupRows:
    """The rows of groups drawn with replacement; `groups` (n,) are numbers below `n_groups`; some may be empty.

    >>> GroupRows(np.array([0, 0, 2]), n_groups=3)(np.array([2, 0, 1, 2]))
    array([2, 0, 1, 2])
    """

    def __init__(self, groups: IntArray, n_groups: int) -> None:
        self.n_groups = n_groups
        self._order = np.argsort(groups, kind="stable")
        self._counts = np.bincount(groups, minlength=n_groups)
        self._starts = np.cumsum(self._counts) - self._counts

    def __call__(self, chosen: IntArray) -> IntArray:
        drawn = self._counts[chosen]
        before = np.cumsum(drawn) - drawn
        rows: IntArray = self._order[np.repeat(self._starts[chosen] - before, drawn) + np.arange(drawn.sum())]
        return rows
