"""Is the traffic moving away from the training data? Familiarity and agreement, live and on validation."""

import math
from collections import deque
from collections.abc import Sequence
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
Closeness = tuple[FloatArray, FloatArray]  # mean distance and share of agreeing neighbors, one value a row each


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
    """What the window says about the last `n` inputs.

    `familiarity` is None where the encoder has no views; then `distance`, that to the neighbors, stands in for it.
    `agreement` is None where the method has no neighbors. In tagging familiarity is that of sentences, the other two
    are those of words.
    """

    level: Level
    message: str
    n: int
    window: int
    familiarity: Side | None = None
    distance: Side | None = None
    agreement: Side | None = None


class DriftWindow:
    """The last inputs' familiarity, and their neighbors' mean distance and share of agreement, of words in tagging."""

    def __init__(self, size: int) -> None:
        self._familiarity: deque[float] = deque(maxlen=size)
        self._near: deque[tuple[float, float]] = deque(maxlen=size)
        self._size = size
        self._lock = Lock()

    def observe(self, familiarity: Sequence[float], near: Closeness | None) -> None:
        """Remember the inputs of one request: their p-values, and the distance and agreement of their neighbors."""
        with self._lock:
            self._familiarity.extend(familiarity)
            if near is not None:
                self._near.extend(zip(near[0].tolist(), near[1].tolist(), strict=True))

    def clear(self) -> None:
        """Forget everything: the model, and so all that is measured, is another."""
        with self._lock:
            self._familiarity.clear()
            self._near.clear()

    def report(self, quantiles: DriftQuantiles | None, *, has_familiarity: bool = False) -> DriftReport:
        """Compare the window with the validation rows."""
        if quantiles is None and not has_familiarity:
            return DriftReport(
                level="off",
                message="There are neither views nor neighbors to compare, so drift is not measured.",
                n=0,
                window=0,
            )
        with self._lock:
            p_values = np.array(self._familiarity, dtype=np.float64)
            near = np.array(self._near, dtype=np.float64).reshape(-1, 2)
        n_inputs = len(p_values) if has_familiarity else len(near)
        if not n_inputs:
            return DriftReport(level="collecting", message=_collecting(0), n=0, window=self._size)
        familiarity = distance = agreement = None
        if has_familiarity:
            # In domain p-values are uniform: their percentiles are known without looking at the validation rows.
            familiarity = _compare(p_values, np.linspace(0.0, 1.0, 101), higher_is_worse=False)
        if quantiles is not None and len(near):
            if not has_familiarity:
                distance = _compare(near[:, 0], quantiles.distance, higher_is_worse=True)
            agreement = _compare(near[:, 1], quantiles.agreement, higher_is_worse=False)
        level, message = _verdict(n_inputs, len(near), familiarity, distance, agreement)
        return DriftReport(
            level=level,
            message=message,
            n=n_inputs,
            window=self._size,
            familiarity=familiarity,
            distance=distance,
            agreement=agreement,
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


def _verdict(
    n_inputs: int, n_near: int, familiarity: Side | None, distance: Side | None, agreement: Side | None
) -> tuple[Level, str]:
    """Say "moving" where a share beyond the 5 % tail is at least twice that, and 3 standard errors above it."""
    if n_inputs < ENOUGH:
        return "collecting", _collecting(n_inputs)
    usual = f"{1 - _TAIL / 100:.0%}"
    reasons = []
    if familiarity is not None and familiarity.beyond >= _alarm(n_inputs):
        reasons.append(f"{familiarity.beyond:.0%} are less like the training data than {usual} of the validation rows")
    if distance is not None and distance.beyond >= _alarm(n_inputs):
        reasons.append(f"{distance.beyond:.0%} are farther from the training data than {usual} of the validation rows")
    if agreement is not None and n_near >= ENOUGH and agreement.beyond >= _alarm(n_near):
        reasons.append(
            f"{agreement.beyond:.0%} have neighbors that agree less than with {usual} of the validation rows"
        )
    if reasons:
        return "moving", f"The traffic is moving away from the training data: of the last {n_inputs} inputs " + (
            " and ".join(reasons) + "."
        )
    return "steady", f"The last {n_inputs} inputs are as close to the training data as the validation rows."


def _alarm(n_rows: int) -> float:
    """Return the share beyond the tail from which on the traffic is moving."""
    tail = _TAIL / 100
    return max(_TIMES * tail, tail + _SIGMAS * math.sqrt(tail * (1 - tail) / n_rows))


def _collecting(n_rows: int) -> str:
    return f"Too early to say: {n_rows} of {ENOUGH} inputs seen."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
