"""What a few seeds allow to say: how far a mean over seeds and texts may be from the truth.

The error of a mean is the sum of two: that of texts, normal, and that of S seeds, whose own size is known from S seeds
only, so that it has the t distribution with S - 1 degrees of freedom: three seeds agree by chance once in four times,
and if the texts add little scatter, such agreement looks like certainty. The sum has no closed form (it is that of
Behrens and Fisher): its tail is integrated. A t distribution with fitted degrees of freedom (Satterthwaite's) has much
the same 95 % interval, but its tails, which decide where many claims are corrected for, are far too thin when seeds
happen to agree.
"""

import math
from functools import lru_cache

import numpy as np

from knn_ue.arrays import FloatArray

LEVEL = 0.95
_NODES = np.linspace(-8.0, 8.0, 1601)
_N_SHARES = 200
_ROUNDING = 1e-12  # what a difference of 0 may be off


def bound_and_p(difference: float, of_texts: float, of_seeds: float, n_seeds: int) -> tuple[float, float, float]:
    """Return how far the 95 % bounds of a mean difference are away, its two-sided p-value and the share of seeds.

    `of_texts` and `of_seeds` are its standard errors; with one seed there is only the first. NaN where one is.

    >>> [round(x, 3) for x in bound_and_p(1.96, 1.0, 0.0, 8)]
    [1.96, 0.05, 0.0]
    """
    total = math.hypot(of_texts, of_seeds)
    if math.isnan(total) or math.isnan(difference):
        return math.nan, math.nan, 0.0
    if total < _ROUNDING:
        return 0.0, float(abs(difference) < _ROUNDING), 0.0
    share = of_seeds / total
    p = min(1.0, 2 * tail(abs(difference) / total, share, n_seeds - 1))
    return bound_of(share, n_seeds - 1) * total, p, share


def of_bound(measured: float, low: float, bound: float, *, share: float = 0.0, n_seeds: int = 2) -> float:
    """Return the two-sided p-value of a value at the `bound` or below, from the lower end of the 95 % interval.

    Seeds have this `share` of the standard error: far from the interval, its tail is thicker the fewer they are.

    >>> round(of_bound(0.5, -1.0, -1.0), 3), round(of_bound(0.5, -1.0, -1.0, share=1.0), 3)
    (0.05, 0.05)
    >>> of_bound(0.5, -1.0, -4.0) < 1e-8, round(of_bound(0.5, -1.0, -4.0, share=1.0), 3)
    (True, 0.017)
    """
    if math.isnan(low):
        return math.nan
    if low >= measured:  # no scatter at all
        return 0.0 if measured > bound else 1.0
    deviation = (measured - low) / bound_of(share, n_seeds - 1)
    return min(1.0, 2 * tail((measured - bound) / deviation, share, n_seeds - 1))


def tail(error: float, share: float, freedom: int) -> float:
    """Return how often a mean is too high by more than `error` standard errors, of which seeds make a `share`.

    >>> round(tail(1.96, 0.0, 1), 3), round(tail(12.706, 1.0, 1), 3)  # the normal distribution, and t
    (0.025, 0.025)
    """
    from scipy.stats import norm, t

    if share == 0:
        return float(norm.sf(error))
    if share > 1 - _ROUNDING:
        return float(t.sf(error, freedom))
    density = norm.pdf(_NODES)
    of_seeds = t.sf((error - math.sqrt(1 - share**2) * _NODES) / share, freedom)
    return float(np.trapezoid(density * of_seeds, _NODES))


def bound_of(share: float, freedom: int) -> float:
    """Return how many standard errors a bound of the 95 % interval is away: 1.96 without any scatter of seeds.

    >>> round(bound_of(0.0, 1), 2), round(bound_of(1.0, 1), 2)
    (1.96, 12.71)
    """
    if share == 0:
        return float(_bounds(1)[0])
    return float(np.interp(share, np.linspace(0.0, 1.0, _N_SHARES + 1), _bounds(freedom)))


@lru_cache
def _bounds(freedom: int) -> FloatArray:
    from scipy.optimize import brentq
    from scipy.stats import t

    level = (1 - LEVEL) / 2
    highest = float(t.isf(level, freedom))
    shares = np.linspace(0.0, 1.0, _N_SHARES + 1)
    found = [
        brentq(lambda error, share=share: tail(error, share, freedom) - level, 1.0, highest + 1) for share in shares
    ]
    return np.array(found)
