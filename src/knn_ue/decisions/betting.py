"""A precision that is kept where errors come in clusters: a bet against each sentence, or document, in turn.

Entities of one sentence are right or wrong together, so they are no independent trials. Whole sentences are. Let
Z = wrong - risk * shown in one of them. If more than `risk` of what is shown were wrong, Z would be above 0 on the
mean, and nobody could grow rich by betting on Z < 0: wealth above 1 / delta has a probability of at most delta.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray

# The shares of answers shown at the thresholds that are tested, from the highest threshold to the lowest.
_SHARES = np.linspace(0.05, 1.0, 20)
HIDDEN = 0.1  # the cap of a sentence, or the most that a document counts, hides at most this share of what is shown
_BOLDEST = 0.9  # of the largest bet that cannot lose everything
N_ORDERS = 20
_BETS = np.geomspace(0.002, 1.0, 30)


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """The n answers of m independent units: `score` (n,), `wrong` (n,) 0 or 1, `unit` (n,) numbers from 0 on.

    `weighted` units, which are documents, may show any number of answers but count as at most the cap; of others, which
    are sentences, at most the cap is shown. `n_units` counts those without an answer too.
    """

    score: FloatArray
    wrong: FloatArray
    unit: IntArray
    n_units: int
    weighted: bool = False

    @cached_property
    def rank(self) -> IntArray:
        """The place (n,) of each answer among those of its unit."""
        return rank_within(self.score, self.unit)

    def shown(self, threshold: float, cap: int) -> BoolArray:
        """Return which answers (n,) are shown."""
        reached: BoolArray = self.score >= threshold
        return reached if self.weighted else reached & (self.rank < cap)

    def counts(self, threshold: float, cap: int) -> tuple[FloatArray, FloatArray]:
        """Return for each unit that shows an answer how many it shows, and how many of these are wrong."""
        shown, wrong = self.all_counts(threshold, cap)
        some = shown > 0
        return shown[some], wrong[some]

    def all_counts(self, threshold: float, cap: int) -> tuple[FloatArray, FloatArray]:
        """Return the same for every unit, in order."""
        kept = self.shown(threshold, cap)
        shown = np.bincount(self.unit[kept], minlength=self.n_units).astype(np.float64)
        wrong = np.bincount(self.unit[kept], weights=self.wrong[kept], minlength=self.n_units).astype(np.float64)
        weight = np.minimum(1.0, cap / np.maximum(shown, 1.0))
        return shown * weight, wrong * weight


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A threshold that is tested and its cap."""

    threshold: float
    cap: int


def rank_within(score: FloatArray, unit: IntArray) -> IntArray:
    """Return the place (n,) of each answer among those of its unit, 0 for the highest score.

    >>> rank_within(np.array([0.2, 0.9, 0.5]), np.array([0, 0, 1])).tolist()
    [1, 0, 0]
    """
    order = np.lexsort((-score, unit))
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    rank = np.empty(len(score), dtype=np.int64)
    rank[order] = np.arange(len(score)) - np.repeat(starts, np.diff(np.append(starts, len(score))))
    return rank


def rungs(units: Units) -> list[Rung]:
    """Return the thresholds at which 5, 10, ... 100 % of the answers are shown, highest first, each with its cap.

    The promise is exact where these are other answers than those it is tested on; nobody needs to label them.
    """
    if not len(units.score):
        return []
    descending = np.sort(units.score)[::-1]
    ranks = np.ceil(np.round(_SHARES * len(descending), 9)).astype(np.int64)
    thresholds = np.unique(descending[ranks - 1])[::-1].tolist()
    return [Rung(threshold=at, cap=_cap(units, at)) for at in thresholds]


def _cap(units: Units, threshold: float) -> int:
    """Return the smallest cap that hides at most `HIDDEN` of the answers at this threshold."""
    per_unit = np.sort(np.bincount(units.unit[units.score >= threshold]))
    per_unit = per_unit[per_unit > 0]
    caps = np.arange(1, per_unit[-1] + 1)
    kept = np.minimum(per_unit[None], caps[:, None]).sum(axis=1)
    return int(caps[np.argmax(kept >= (1 - HIDDEN) * per_unit.sum())])


def climb(
    units: Units, ladder: list[Rung], *, risk: float, delta: float, others: Units | None = None, seed: int = 0
) -> tuple[int, Rung | None]:
    """Return how many rungs pass in a row, and the last of them, or where none does the first one that was tested.

    The first failure ends the search, so no correction for many tests is needed. The first one tested is the most
    promising by the labels of `others`, of which these units are independent. Without them it is the first at which
    units without errors would be enough with some to spare. (0, None) where the units are too few for any.
    """
    full = potential(units, ladder[-1], risk=risk) if ladder else 0.0
    needed = max(1.0, min(1.5, 0.5 * full / -np.log(delta))) * -np.log(delta)
    start = next((n for n, rung in enumerate(ladder) if potential(units, rung, risk=risk) >= needed), None)
    if start is None:
        return 0, None
    if others is not None:
        start = max(start, int(np.argmax([growth(others, rung, risk=risk) for rung in ladder])))
    last = ladder[start]
    for n_passed, rung in enumerate(ladder[start:]):
        if not passes(units, rung, risk=risk, delta=delta, seed=seed):
            return n_passed, last
        last = rung
    return len(ladder) - start, last


def potential(units: Units, rung: Rung, *, risk: float) -> float:
    """Return the log-wealth of the boldest bets if no answer were wrong."""
    shown, _ = units.counts(rung.threshold, rung.cap)
    return float(np.log1p(_BOLDEST * risk * shown / ((1 - risk) * rung.cap)).sum())


def passes(units: Units, rung: Rung, *, risk: float, delta: float, seed: int = 0) -> bool:
    """Say whether the answers of a rung show that at most `risk` of such answers are wrong; true with probability at
    most `delta` where they are more.

    The bets are those of Waudby-Smith and Ramdas (2024), on units in a random order, up to the moment when wealth
    reaches 1 / delta. The wealth in several orders is exchangeable, so its running mean may be used like one wealth
    (Ramdas and Manole 2025): what passes in the first order passes, and more.
    """
    shown, wrong = units.counts(rung.threshold, rung.cap)
    if not len(shown):
        return False
    random = np.random.default_rng(seed)
    orders = np.stack([random.permutation(len(shown)) for _ in range(N_ORDERS)])
    won = (wrong - risk * shown)[orders]
    steps = np.log1p(-bets(won, risk=risk, delta=delta, cap=rung.cap) * won)
    wealth = np.cumsum(steps, axis=1)
    goal = -np.log(delta)
    reached = wealth >= goal
    ends = np.where(reached.any(axis=1), reached.argmax(axis=1), len(shown) - 1)
    stopped = np.take_along_axis(wealth, ends[:, None], axis=1)[:, 0]
    means = np.cumsum(np.exp(stopped)) / np.arange(1, N_ORDERS + 1)
    return bool(means.max() >= 1 / delta)


def bets(won: FloatArray, *, risk: float, delta: float, cap: int) -> FloatArray:
    """Return what is bet on each of the n units of `won` (orders, n), from those before it alone."""
    n = won.shape[1]
    number = np.arange(1, n + 1)
    zero = np.zeros((len(won), 1))
    before = np.hstack([zero, np.cumsum(won, axis=1)[:, :-1]])
    squares = np.hstack([zero, np.cumsum(won**2, axis=1)[:, :-1]])
    mean = (before - risk / 2) / number
    variance = np.maximum((squares + 0.25) / number - mean**2, 1e-9)
    best: FloatArray = np.sqrt(-2 * np.log(delta) / (n * variance))
    return np.minimum(best, _BOLDEST / ((1 - risk) * cap))


def risk_bound_of(units: Units, rung: Rung, *, delta: float, seed: int = 0) -> float:
    """Return the smallest risk, to a thousandth, that the answers of one rung show."""
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        if passes(units, rung, risk=middle, delta=delta, seed=seed):
            high = middle
        else:
            low = middle
    return high


def units_needed(units: Units, ladder: list[Rung], *, risk: float, delta: float) -> int | None:
    """Return about how many units would show that at most `risk` are wrong at some rung, if all others are like these.

    Wealth grows at best by the mean of ln(1 - bet Z) per unit. None where it grows at no rung.
    """
    fastest = max((growth(units, rung, risk=risk) for rung in ladder), default=0.0) / max(1, units.n_units)
    return None if fastest <= 0 else int(np.ceil(-np.log(delta) / fastest))


def growth(units: Units, rung: Rung, *, risk: float) -> float:
    """Return the log-wealth of the best constant bet, which only hindsight knows; 0 where every bet loses."""
    shown, wrong = units.counts(rung.threshold, rung.cap)
    bet = _BETS[:, None] * _BOLDEST / ((1 - risk) * rung.cap)
    return float(np.log1p(-bet * (wrong - risk * shown)).sum(axis=1).max(initial=0.0))
