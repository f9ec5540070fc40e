"""How much each row counts: `sample_weight`, checked in one place, and many weightings of the same rows at once.

A weight of 2 means what the row twice means; a weight of 0 leaves it out. Weights need not be whole numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, float_vector
from knn_ue.errors import InvalidInputError

# Of a sum of weights: a share this little below another one is equal to it.
SUM_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Draws:
    """Many weightings at once, `counts` (n, draws): how often each row was drawn. For `value_of_each_draw`."""

    counts: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Checked weights as columns, `values` (n, draws); `whole` says that all are whole numbers.

    `single` says that one `sample_weight` was passed, so that a metric is one number.
    """

    values: FloatArray
    whole: bool
    single: bool

    @cached_property
    def total(self) -> FloatArray:
        """The sum of the weights of each draw (draws,)."""
        total: FloatArray = self.values.sum(axis=0)
        return total

    def number(self, by_draw: FloatArray) -> float:
        """Return the metric of one weighting as a float; of many, as only `value_of_each_draw` sees them, (draws,)."""
        return float(by_draw[0]) if self.single else by_draw  # type: ignore[return-value]

    def each(self, metric: Callable[[FloatArray], float]) -> float:
        """Return a metric that can only be computed for one weighting (n,) at a time; NaN where all weights are 0."""
        return self.number(np.array([metric(column) if column.any() else np.nan for column in self.values.T]))


def checked_weights(sample_weight: object, n_rows: int, name: str = "sample_weight") -> Weights | None:
    """Return the weights of `n_rows` rows, None where every row counts once."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Draws):
        return Weights(values=sample_weight.counts, whole=True, single=False)
    values = float_vector(sample_weight, name, length=n_rows)
    if n_rows and values.min() < 0:
        raise InvalidInputError(f"{name} must not be negative, got {values.min():.6g}: use 0 to leave a row out")
    if not values.any():
        raise InvalidInputError(f"{name} is zero for every row: at least one row must count")
    return Weights(values=values[:, None], whole=bool((values == np.floor(values)).all()), single=True)


def value_of_each_draw(metric: Callable[..., float], **arrays: Any) -> FloatArray:
    """Return a metric of this package for many weightings (draws,): pass `Draws` as its sample weight.

    It is what the metric would return for each column of the counts, computed in one pass; NaN where it is not defined.

    >>> from knn_ue.metrics import brier_top_label
    >>> counts = np.array([[1.0, 2.0], [1.0, 0.0]])
    >>> value_of_each_draw(brier_top_label, confidence=[1.0, 0.5], correct=[True, False], sample_weight=Draws(counts))
    array([0.125, 0.   ])
    """
    values: FloatArray = np.asarray(metric(**arrays))
    return values


def weighted_mean(values: FloatArray, weights: Weights) -> FloatArray:
    """Return the mean of `values` (n,) for each draw (draws,), NaN where all weights are 0."""
    return ratio(values @ weights.values, weights.total)


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, NaN where `below` is 0."""
    found: FloatArray = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0)
    return found
