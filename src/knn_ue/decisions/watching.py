"""Does a promise still hold? A test that may be looked at after every label, without more false alarms for it.

Let Z = wrong - risk * shown of each unit. As long as at most `risk` of what is shown is wrong, nobody can grow rich by
betting on Z > 0, so wealth of 1 / alarm is reached in a share of at most `alarm` of all promises that hold, however
often one looks (Ville's inequality). Bets of several sizes share the wealth, and new ones begin every 100 units, so
that a long good time does not hide a change.
"""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.decisions.contract import Losses
from knn_ue.decisions.risk import check_share, percent

ALARM = 0.05
_BETS = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
_RESTART = 100


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What labels say of a promise: `evidence` is the largest wealth that bets against it reached, which is at least
    1 / `alarm` in a share of at most `alarm` of all promises that hold; `broken_after` units, None where it was not."""

    promise: str
    risk: float
    alarm: float
    n_units: int
    n_shown: float
    n_wrong: float
    evidence: float
    broken_after: int | None

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the promise."""
        return self.broken_after is None

    def __str__(self) -> str:
        seen = f"{self.n_wrong:.4g} of {self.n_shown:.4g} were wrong, at most {percent(self.risk)} was promised"
        odds = f"evidence 1 : {_odds(self.evidence)}"
        if self.holds:
            return f"holds so far ({odds} after {self.n_units} labels): {seen}"
        return f"broken ({odds} after {self.n_units} labels, alarm after {self.broken_after}): {seen}"


def watch(losses: Losses, promise: str, *, alarm: float = ALARM) -> Watched:
    """Return whether the promise still holds after these units; `alarm` is the allowed share of false alarms.

    >>> quiet = Losses(shown=np.ones(300), wrong=np.zeros(300), risk=0.1, cap=1)
    >>> str(watch(quiet, "90 % are right"))
    'holds so far (evidence 1 : 1 after 300 labels): 0 of 300 were wrong, at most 10 % was promised'
    """
    check_share(alarm, "alarm", "0.05 for 5 %")
    wealth = log_wealth(losses)
    reached = np.flatnonzero(wealth >= -np.log(alarm))
    return Watched(
        promise=promise,
        risk=losses.risk,
        alarm=alarm,
        n_units=len(losses.shown),
        n_shown=float(losses.shown.sum()),
        n_wrong=float(losses.wrong.sum()),
        evidence=float(np.exp(min(700.0, wealth.max(initial=0.0)))),
        broken_after=int(reached[0]) + 1 if len(reached) else None,
    )


def log_wealth(losses: Losses) -> FloatArray:
    """Return the log of the wealth (m,) after each unit.

    The bets that begin with the b-th hundred units start with a share of 1 / b(b + 1), and those of one beginning share
    it evenly; what is kept for later beginnings, 1 / (b + 1) in all, is not bet.
    """
    won = losses.wrong - losses.risk * losses.shown
    bets = _BETS / (losses.risk * losses.cap)
    steps = np.log1p(bets[:, None] * won)
    n_begun = -(-len(won) // _RESTART)
    number = np.arange(1, n_begun + 1)
    held = -np.log1p(np.repeat(number, _RESTART)[: len(won)])
    total = held.astype(np.float64)
    for begun in number.tolist():
        start = (begun - 1) * _RESTART
        grown = np.cumsum(steps[:, start:], axis=1)
        share = np.logaddexp.reduce(grown, axis=0) - np.log(len(bets)) - np.log(begun * (begun + 1))
        total[start:] = np.logaddexp(total[start:], share)
    return total


def _odds(evidence: float) -> str:
    """Return a wealth with two digits.

    >>> _odds(1.0), _odds(5163.2), _odds(1e12)
    ('1', '5,200', 'more than 1,000,000')
    """
    if evidence > 1e6:
        return "more than 1,000,000"
    return f"{float(f'{evidence:.2g}'):,.4g}" if evidence < 100 else f"{round(float(f'{evidence:.2g}')):,}"
