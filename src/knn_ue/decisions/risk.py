"""Abstention thresholds with a risk guarantee: below which confidence should a model rather not answer?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, bool_vector, float_vector
from knn_ue.decisions.contract import ABSTAINED, Scored
from knn_ue.errors import InvalidInputError
from knn_ue.folder import from_plain

# The shares of rows answered at the thresholds that are tested, from the highest threshold to the lowest.
_COVERAGES = np.linspace(0.1, 1.0, 19)
# The first threshold tested is reached by so many times the rows that are needed without any error. One error is then
# allowed; otherwise a single unlucky row among the most confident would end the search before it began.
_HEAD_START = 1.75
_MAX_ROWS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class RiskThreshold:
    """A decision: abstain below the confidence that keeps the share of wrong answers at `target_risk`.

    Fitted on `n` rows by `choose_threshold`. Answering where confidence is at least `threshold` answered `n_answered`
    rows with `n_errors` errors; `bound` is the upper bound of the risk. Where none qualifies, `threshold` is None,
    every answer is an abstention, and the numbers are those of the highest threshold tested (0, 0 and 1 where the rows
    were too few to test any). `str` is one sentence.
    """

    kind: ClassVar[str] = "risk"

    target_risk: float = 0.05
    delta: float = 0.1
    threshold: float | None = None
    n: int = 0
    n_answered: int = 0
    n_errors: int = 0
    bound: float = 1.0

    def __post_init__(self) -> None:
        check_risk(self.target_risk, self.delta)

    def fit(self, held_out: Scored, /) -> Self:
        """Return the threshold chosen on `held_out`."""
        if held_out.correct is None:
            raise InvalidInputError("a risk threshold needs held-out rows with labels: pass Scored(correct=...)")
        chosen = choose_threshold(
            confidence=held_out.confidence, correct=held_out.correct, target_risk=self.target_risk, delta=self.delta
        )
        return replace(self, **asdict(chosen))

    def fields(self, scored: Scored, /) -> list[dict[str, Any]]:
        """Return for each answer whether it is an abstention."""
        least = math.inf if self.threshold is None else self.threshold
        return [{ABSTAINED: score < least} for score in scored.confidence.tolist()]

    def to_plain(self) -> dict[str, Any]:
        """Return the numbers as plain JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], /) -> Self:
        """Read what `to_plain` wrote."""
        stored = from_plain(cls, plain)
        if not 0 <= stored.n_errors <= stored.n_answered <= stored.n <= _MAX_ROWS or not 0 <= stored.bound <= 1:
            raise ValueError(f"n_errors <= n_answered <= n and a bound within 0 and 1 are needed, got {dict(plain)}")
        if stored.threshold is not None and not (0 <= stored.threshold <= 1 and stored.n_answered):
            raise ValueError(f"a threshold within 0 and 1 that was reached is needed, got {dict(plain)}")
        return stored

    @property
    def found(self) -> bool:
        """Whether any threshold qualifies."""
        return self.threshold is not None

    @property
    def coverage(self) -> float:
        """Share of the `n` rows that are answered; 0 where no threshold qualifies."""
        return self.n_answered / self.n if self.found else 0.0

    def __str__(self) -> str:
        goal = f"a risk of at most {self.target_risk:.3g} (with probability {1 - self.delta:.3g}, in domain)"
        if self.found:
            return (
                f"answering at a confidence of at least {self.threshold:.4g} keeps {goal} and answered "
                f"{self.coverage:.1%} of {self.n} rows, with {self.n_errors} errors and a bound of {self.bound:.3g}"
            )
        if not self.n_answered:
            needed = rows_needed(self.target_risk, self.delta)
            return f"no threshold is known to keep {goal}: {self.n} rows are too few, at least {needed} are needed"
        return (
            f"no threshold is known to keep {goal}: even the {self.n_answered} most confident of {self.n} rows have "
            f"{self.n_errors} errors, which leaves a bound of {self.bound:.3g}"
        )


def choose_threshold(
    *, confidence: FloatArray, correct: BoolArray, target_risk: float, delta: float = 0.1
) -> RiskThreshold:
    """Return the lowest confidence at which answers may be given so that at most `target_risk` of them are wrong.

    With probability 1 - `delta` over the draw of these n rows, the share of wrong answers among all future rows of
    *the same domain* whose confidence reaches the threshold is at most `target_risk`. It says nothing about other
    domains. The rows must be independent, and used for nothing else: not for training, early stopping or fitting.

    The thresholds tested are those at which 10 %, 15 %, ... 100 % of the rows are answered, from high to low; each
    must have a one-sided Clopper-Pearson (1934) upper bound at level `delta` of at most `target_risk`. The first that
    fails ends the search, so no correction for many tests is needed: fixed-sequence testing, Angelopoulos et al.
    (2021). Thresholds that few rows reach are not tested, since a single error would end the search: the first one is
    reached by 1.75 times the rows that would do without any error (see `rows_needed`), or by half of all rows. The
    guarantee is exact where confidence ranks, that is where the risk does not fall as the threshold is lowered.

    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 1000)
    >>> chosen = choose_threshold(confidence=confidence, correct=confidence > 0.5, target_risk=0.1)
    >>> chosen.found, round(chosen.threshold, 2), chosen.coverage
    (True, 0.5, 0.5)
    """
    check_risk(target_risk, delta)
    scores = float_vector(confidence, "confidence")
    wrong = ~bool_vector(correct, "correct", length=len(scores))
    order = np.argsort(-scores, kind="stable")
    ranks = np.ceil(np.round(_COVERAGES * len(scores), 9)).astype(np.int64)
    thresholds = np.unique(scores[order][ranks[ranks > 0] - 1])[::-1]
    # Rows of equal confidence are answered together, so there may be more than the rank says.
    n_answered = np.searchsorted(-scores[order], -thresholds, side="right")
    needed = rows_needed(target_risk, delta)
    enough = n_answered >= max(needed, min(_HEAD_START * needed, len(scores) / 2))
    thresholds, n_answered = thresholds[enough], n_answered[enough]
    n_errors = np.append(0, np.cumsum(wrong[order]))[n_answered]
    bounds = risk_bound(n_errors, n_answered, delta)
    failed = np.flatnonzero(bounds > target_risk)
    n_passed = int(failed[0]) if len(failed) else len(thresholds)
    result = RiskThreshold(target_risk=float(target_risk), delta=float(delta), n=len(scores))
    if not len(thresholds):
        return result
    shown = max(0, n_passed - 1)
    return replace(
        result,
        threshold=float(thresholds[shown]) if n_passed else None,
        n_answered=int(n_answered[shown]),
        n_errors=int(n_errors[shown]),
        bound=float(bounds[shown]),
    )


def risk_bound(n_errors: IntArray, n_rows: IntArray, delta: float) -> FloatArray:
    """Return the one-sided Clopper-Pearson upper bound at level `delta` of the risk, for each number of errors.

    >>> risk_bound(np.array([0, 3]), np.array([45, 45]), 0.1).round(3)
    array([0.05 , 0.142])
    """
    from scipy.stats import beta

    all_wrong = n_errors >= n_rows
    bounds: FloatArray = beta.ppf(1 - delta, n_errors + 1, np.where(all_wrong, 1, n_rows - n_errors))
    return np.where(all_wrong, 1.0, bounds)


def rows_needed(target_risk: float, delta: float) -> int:
    """Return how many rows without any error show that the risk is at most `target_risk`.

    >>> rows_needed(0.05, 0.1)
    45
    """
    return math.ceil(math.log(delta) / math.log1p(-target_risk))


def check_risk(target_risk: float, delta: float) -> None:
    """Raise unless both are strictly between 0 and 1."""
    for name, value in (("target_risk", target_risk), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < value < 1:
            rule = f"must lie strictly between 0 and 1, got {value!r}: try 0.05 for 5 %"
            raise InvalidInputError(f"{name} {rule}", shell=f"--{name.replace('_', '-')} {rule}")
