"""Is the traffic moving away from the training data? Live neighbor distances and agreement against validation's."""

import math
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.pipeline import DriftQuantiles

ENOUGH = 50  # inputs, before anything is said
_TAIL = 5  # percent of the validation rows lie beyond the limits
_SIGMAS = 3.0
_TIMES = 2.0
_BINS = 12

Level = Literal["off", "collecting", "steady", "moving"]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One quantity, live and on validation: the medians, the share of live inputs beyond validation's 5 % tail, the
    largest gap between the two distribution functions (Kolmogorov-Smirnov), and shares of both in common bins."""

    live_median: float | None
    validation_median: float | None
    limit: float | None
    beyond: float
    gap: float
    edges: list[float]
    live: list[float]
    validation: list[float]


@dataclass(frozen=True, kw_only=True)
class DriftReport:
    """What the window says; `distance` and `agreement` are None until there is an input."""

    level: Level
    message: str
    n: int
    window: int
    distance: Side | None = None
    agreement: Side | None = None


class DriftWindow:
    """The last inputs' mean neighbor distance and share of agreeing neighbors; a word is an input in tagging."""

    def __init__(self, size: int) -> None:
        self._rows: deque[tuple[float, float]] = deque(maxlen=size)
        self._size = size
        self._lock = Lock()

    def observe(self, distance: FloatArray, agreement: FloatArray) -> None:
        """Remember the inputs of one request."""
        with self._lock:
            self._rows.extend(zip(distance.tolist(), agreement.tolist(), strict=True))

    def clear(self) -> None:
        """Forget everything: the model, and so the distances, are others."""
        with self._lock:
            self._rows.clear()

    def report(self, quantiles: DriftQuantiles | None) -> DriftReport:
        """Compare the window with the percentiles of the validation rows."""
        if quantiles is None:
            return DriftReport(
                level="off", message="This method looks at no neighbors, so drift is not measured.", n=0, window=0
            )
        with self._lock:
            rows = np.array(self._rows, dtype=np.float64).reshape(-1, 2)
        if not len(rows):
            return DriftReport(level="collecting", message=_collecting(0), n=0, window=self._size)
        # Far is bad, agreement is good: both are compared on the side that hurts.
        distance = _compare(rows[:, 0], quantiles.distance, higher_is_worse=True)
        agreement = _compare(rows[:, 1], quantiles.agreement, higher_is_worse=False)
        level, message = _verdict(len(rows), distance.beyond, agreement.beyond)
        return DriftReport(
            level=level, message=message, n=len(rows), window=self._size, distance=distance, agreement=agreement
        )


def _compare(live: FloatArray, percentiles: FloatArray, *, higher_is_worse: bool) -> Side:
    limit = float(percentiles[100 - _TAIL if higher_is_worse else _TAIL])
    beyond = live > limit if higher_is_worse else live < limit
    edges = _edges(live, percentiles)
    ordered = np.sort(live)
    # The percentiles 1 .. 100 stand for a hundredth of the validation rows each.
    hundredths = percentiles[1:]
    grid = np.unique(np.concatenate((hundredths, ordered)))
    shares = [np.searchsorted(values, grid, side="right") / len(values) for values in (ordered, hundredths)]
    return Side(
        live_median=_finite(float(ordered[(len(ordered) - 1) // 2])),
        validation_median=_finite(float(percentiles[50])),
        limit=_finite(limit),
        beyond=float(beyond.mean()),
        gap=float(np.abs(shares[0] - shares[1]).max()),
        edges=edges.tolist(),
        live=_histogram(live, edges),
        validation=_histogram(hundredths, edges),
    )


def _edges(live: FloatArray, percentiles: FloatArray) -> FloatArray:
    both = np.concatenate((live, percentiles))
    both = both[np.isfinite(both)]
    if not len(both):
        return np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    return np.linspace(low, high if high > low else low + 1.0, _BINS + 1)


def _histogram(values: FloatArray, edges: FloatArray) -> list[float]:
    """Return the share of values in each bin; those without any neighbor lie in the last."""
    clipped = np.clip(values, edges[0], edges[-1])
    found: list[float] = (np.histogram(clipped, bins=edges)[0] / len(values)).tolist()
    return found


def _verdict(n_rows: int, far: float, differing: float) -> tuple[Level, str]:
    """Say "moving" where a share beyond the 5 % tail is at least twice that, and 3 standard errors above it."""
    if n_rows < ENOUGH:
        return "collecting", _collecting(n_rows)
    tail = _TAIL / 100
    limit = max(_TIMES * tail, tail + _SIGMAS * math.sqrt(tail * (1 - tail) / n_rows))
    reasons = []
    if far >= limit:
        reasons.append(f"{far:.0%} are farther from the training data than {1 - tail:.0%} of the validation rows")
    if differing >= limit:
        reasons.append(f"{differing:.0%} have neighbors that agree less than those of {1 - tail:.0%} of them")
    if reasons:
        return "moving", f"The traffic is moving away from the training data: of the last {n_rows} inputs " + (
            " and ".join(reasons) + "."
        )
    return "steady", f"The last {n_rows} inputs lie among the training data as the validation rows do."


def _collecting(n_rows: int) -> str:
    return f"Too early to say: {n_rows} of {ENOUGH} inputs seen."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
