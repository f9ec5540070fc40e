"""A logistic regression of few parameters whose signs are fixed and which starts from a sensible guess."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray

_LARGEST_LOG_ODDS = 7.0  # scores stay within 0.001 and 0.999
_LARGEST = 1e50  # products of three are finite


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What is believed before any example was seen, and how strongly.

    `center` and `scale` say where a column lies and how far it spreads; `intercept` and `slopes` are of columns so
    standardized. The sign of a slope is the only one it may take. `strength` is the ridge that pulls each slope
    back, `n_examples` how many examples the center and scale count for, and the intercept's pull. No column spreads
    less than `least_scale`: what the examples never showed says something, but does not decide alone.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    intercept: float
    slopes: tuple[float, ...]
    strength: tuple[float, ...]
    n_examples: float = 10.0
    intercept_strength: float = 1.0
    least_scale: float = 0.1

    def held(self, ridge: float) -> "Guess":
        """Return the same belief, its slopes held `ridge` times as strongly."""
        return replace(self, strength=tuple(ridge * strength for strength in self.strength))

    def take(self, places: Sequence[int]) -> "Guess":
        """Return what is believed of the columns at `places` alone."""
        columns = (self.center, self.scale, self.slopes, self.strength)
        center, scale, slopes, strength = (tuple(values[place] for place in places) for values in columns)
        return replace(self, center=center, scale=scale, slopes=slopes, strength=strength)


@dataclass(frozen=True, kw_only=True)
class SignedLogistic:
    """sigmoid(intercept + slopes . (values - center) / scale), clipped to [0.001, 0.999]."""

    intercept: float
    slopes: tuple[float, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.slopes, self.center, self.scale)}
        numbers = np.array([self.intercept, *self.slopes, *self.center, *self.scale], dtype=np.float64)
        usable = np.isfinite(numbers).all() and np.abs(numbers).max() <= _LARGEST
        if len(sizes) != 1 or not usable or min(self.scale, default=1.0) < 1 / _LARGEST:
            raise ValueError(f"{self} is no logistic regression")

    def terms(self, values: FloatArray) -> FloatArray:
        """Return what each column (n, columns) adds to the log-odds of an ordinary row."""
        terms: FloatArray = (values - np.array(self.center)) / np.array(self.scale) * np.array(self.slopes)
        return terms

    def probability(self, values: FloatArray) -> FloatArray:
        """Return the probability (n,) of each row of `values` (n, columns)."""
        log_odds = self.intercept + self.terms(values).sum(axis=1)
        probability: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)))
        return probability


def fit_signed_logistic(values: FloatArray, true: BoolArray, guess: Guess) -> SignedLogistic:
    """Return the regression of `true` (n,) on `values` (n, columns) that minimizes log-loss plus the ridge.

    With no row at all it is the guess itself; with rows that are all true or all false it stays finite.

    >>> guess = Guess(center=(0.0,), scale=(1.0,), intercept=0.0, slopes=(1.0,), strength=(10.0,))
    >>> fit_signed_logistic(np.zeros((0, 1)), np.zeros(0, dtype=bool), guess).slopes
    (1.0,)
    """
    from scipy.optimize import minimize

    center, scale = _placed(values, guess)
    columns, start = (values - center) / scale, np.array([guess.intercept, *guess.slopes])
    ridge = np.array([guess.intercept_strength, *guess.strength])

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        log_odds = x[0] + columns @ x[1:]
        away = x - start
        loss = np.logaddexp(0.0, log_odds).sum() - log_odds[true].sum() + 0.5 * float(ridge @ away**2)
        slope = np.exp(-np.logaddexp(0.0, -log_odds)) - true
        return float(loss), np.r_[slope.sum(), slope @ columns] + ridge * away

    bounds = [(None, None), *[(0.0, None) if slope > 0 else (None, 0.0) for slope in guess.slopes]]
    options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-8}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return SignedLogistic(
        intercept=float(found[0]), slopes=_plain(found[1:]), center=_plain(center), scale=_plain(scale)
    )


def _placed(values: FloatArray, guess: Guess) -> tuple[FloatArray, FloatArray]:
    """Return center and scale (columns,): median and standard deviation, drawn to the guess where rows are few."""
    center, scale = np.array(guess.center), np.array(guess.scale)
    if len(values):
        share = len(values) / (len(values) + guess.n_examples)
        middle = np.median(values, axis=0)
        spread = ((values - middle) ** 2).mean(axis=0)
        center = share * middle + (1 - share) * center
        scale = np.maximum(np.sqrt(share * spread + (1 - share) * scale**2), guess.least_scale)
    return center, scale


def _plain(numbers: Sequence[float] | FloatArray) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers)
