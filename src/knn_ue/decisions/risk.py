"""The promise of a precision: below which score should an answer rather not be given?"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, bool_vector, float_vector
from knn_ue.decisions.betting import Units, climb, rank_within, risk_bound_of, rungs, units_needed
from knn_ue.decisions.contract import ABSTAINED, Losses, Scored
from knn_ue.errors import InvalidInputError
from knn_ue.folder import from_plain

# The shares of rows answered at the thresholds that are tested, from the highest threshold to the lowest.
_COVERAGES = np.linspace(0.1, 1.0, 19)
# The first threshold tested is reached by so many times the rows that are needed without any error. One error is then
# allowed; otherwise a single unlucky row among the most confident would end the search before it began.
_HEAD_START = 1.75
_MAX_ROWS = 1 << 62
_LEAST_SHARE = 1e-9
_RISKS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # what is tried where a target is too low
_MORE = 1.25  # rows that did not do are never said to be enough

Unit = Literal["row", "sentence", "document"]


@dataclass(frozen=True, kw_only=True)
class RiskThreshold:
    """A decision: abstain below the score that keeps the share of wrong answers at `target_risk`.

    Fitted on `n` answers of `n_units` rows, sentences or documents, whichever are independent (`unit`). Answering where
    the score is at least `threshold`, and of a sentence at most the `cap` best, gave `n_answered` answers with
    `n_errors` errors; `bound` is the upper bound of the risk. A document counts as at most `cap` answers.

    Where nothing can be promised `threshold` is None, every answer is an abstention, and the numbers are those of the
    highest threshold tested (0, 0 and 1 where the rows were too few to test any). `best_risk` is then the lowest
    risk tried that the rows do support, and `n_needed` about how many units the target needs; None where there is none.
    `str` is the promise: one sentence.
    """

    kind: ClassVar[str] = "risk"

    target_risk: float = 0.05
    delta: float = 0.1
    threshold: float | None = None
    n: int = 0
    n_answered: int = 0
    n_errors: int = 0
    bound: float = 1.0
    unit: Unit = "row"
    n_units: int = 0
    cap: int | None = None
    best_risk: float | None = None
    n_needed: int | None = None

    def __post_init__(self) -> None:
        check_risk(self.target_risk, self.delta)

    def fit(self, held_out: Scored, /) -> Self:
        """Return the threshold chosen on `held_out`; sentences or documents, where it has them, are its units."""
        correct = held_out.correct
        if correct is None:
            raise InvalidInputError("a risk threshold needs held-out rows with labels: pass Scored(correct=...)")
        chosen = _chosen(held_out, correct, self.target_risk, self.delta)
        if not chosen.found:
            others = (risk for risk in _RISKS if risk > self.target_risk)
            best = next((risk for risk in others if _chosen(held_out, correct, risk, self.delta).found), None)
            needed = _needed(held_out, correct, self.target_risk, self.delta)
            if needed is not None:
                needed = max(needed, math.ceil(_MORE * chosen.n_units))
            chosen = replace(chosen, best_risk=best, n_needed=needed)
        return replace(self, **asdict(chosen))

    def fields(self, scored: Scored, /) -> list[dict[str, Any]]:
        """Return for each answer whether it is an abstention."""
        least = math.inf if self.threshold is None else self.threshold
        withheld = scored.confidence < least
        if self.unit == "sentence" and self.cap is not None and scored.sentence is not None:
            withheld |= rank_within(scored.confidence, scored.sentence) >= self.cap
        return [{ABSTAINED: value} for value in withheld.tolist()]

    def losses(self, scored: Scored, /) -> Losses | None:
        """Return what labeled answers say of the promise; None where nothing was promised."""
        if self.threshold is None:
            return None
        if scored.correct is None:
            raise InvalidInputError("a promise is watched on rows with labels: pass Scored(correct=...)")
        if self.unit == "row" or self.cap is None:
            given = (scored.confidence >= self.threshold).astype(np.float64)
            return Losses(shown=given, wrong=given * ~scored.correct, risk=self.target_risk, cap=1)
        units = _units(scored, weighted=self.unit == "document")
        shown, wrong = units.all_counts(self.threshold, self.cap)
        return Losses(shown=shown, wrong=wrong, risk=self.target_risk, cap=self.cap)

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
        counts = (stored.n_units, stored.cap, stored.n_needed)
        if not all(count is None or 0 <= count <= _MAX_ROWS for count in counts):
            raise ValueError(f"n_units, cap and n_needed must be counts, got {dict(plain)}")
        if stored.best_risk is not None and not 0 < stored.best_risk < 1:
            raise ValueError(f"best_risk must lie strictly between 0 and 1, got {stored.best_risk}")
        return stored

    @property
    def found(self) -> bool:
        """Whether any threshold qualifies."""
        return self.threshold is not None

    @property
    def coverage(self) -> float:
        """Share of the `n` answers that are given; 0 where no threshold qualifies."""
        return self.n_answered / self.n if self.found else 0.0

    def __str__(self) -> str:
        units, goal = f"{self.n_units} held-out {self.unit}s", percent(1 - self.target_risk)
        if self.found:
            return (
                f"at least {goal} of the answers given are right, with probability {percent(1 - self.delta)}: counted "
                f"over the answers with a score of at least {self.threshold:.4g}{self._cap_words()} in {self.unit}s "
                f"drawn like the {units}, where {self.n_answered} of {self.n} were given and {self.n_errors} of them "
                f"wrong, which bounds their share by {percent(self.bound)}; void for other kinds of {self.unit}s and "
                "once the model, its examples or its scores change"
            )
        can = (
            f"and no precision of at least {percent(1 - _RISKS[-1])} can"
            if self.best_risk is None
            else f"{percent(1 - self.best_risk)} can"
        )
        if self.n_needed is not None:
            more = f"about {_about(self.n_needed - self.n_units):,} more are needed for {goal}"
        else:
            more = "more of them may not help: even the answers with the highest scores are wrong too often"
        return f"a precision of {goal} cannot be promised with these {units}, {can}; {more}"

    def _cap_words(self) -> str:
        if self.cap is None:
            return ""
        if self.unit == "sentence":
            return f", at most {self.cap} of a sentence,"
        return f", where a {self.unit} with more than {self.cap} of them counts as {self.cap},"


def _about(count: int) -> int:
    """Return a count rounded to two digits, which is more than is known of it."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // step) * step


def percent(share: float) -> str:
    """Return a share with three digits.

    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * share:.3g} %"


def _chosen(held_out: Scored, correct: BoolArray, risk: float, delta: float) -> RiskThreshold:
    if held_out.sentence is None and held_out.document is None:
        return choose_threshold(confidence=held_out.confidence, correct=correct, target_risk=risk, delta=delta)
    return choose_for_units(held_out, target_risk=risk, delta=delta)


def _needed(held_out: Scored, correct: BoolArray, risk: float, delta: float) -> int | None:
    if held_out.sentence is None and held_out.document is None:
        return answers_needed(held_out.confidence, correct, target_risk=risk, delta=delta)
    units = _units(held_out, weighted=held_out.document is not None)
    return units_needed(units, rungs(units), risk=risk, delta=delta)


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
    result = RiskThreshold(target_risk=float(target_risk), delta=float(delta), n=len(scores), n_units=len(scores))
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


def choose_for_units(held_out: Scored, *, target_risk: float, delta: float = 0.1) -> RiskThreshold:
    """Return the same for answers of sentences or documents: these are drawn independently, answers are not.

    See `knn_ue.decisions.betting`. The thresholds and caps that are tested come from `held_out.others`; without these
    from the rows themselves, their labels unseen, and the promise is approximate.
    """
    check_risk(target_risk, delta)
    weighted = held_out.document is not None
    units = _units(held_out, weighted=weighted)
    others = units if held_out.others is None else _units(held_out.others, weighted=weighted)
    labeled = held_out.others is not None and held_out.others.correct is not None
    n_passed, rung = climb(units, rungs(others), risk=target_risk, delta=delta, others=others if labeled else None)
    result = RiskThreshold(
        target_risk=float(target_risk),
        delta=float(delta),
        n=len(units.score),
        unit="document" if units.weighted else "sentence",
        n_units=units.n_units,
    )
    if rung is None:
        return result
    shown = units.shown(rung.threshold, rung.cap)
    return replace(
        result,
        threshold=rung.threshold if n_passed else None,
        n_answered=int(shown.sum()),
        n_errors=int(units.wrong[shown].sum()),
        bound=risk_bound_of(units, rung, delta=delta),
        cap=rung.cap,
    )


def _units(scored: Scored, *, weighted: bool) -> Units:
    """Return the answers by document, which are weighted, or else by sentence."""
    number = scored.document if weighted else scored.sentence
    if number is None:
        raise InvalidInputError(
            "a promise over documents needs the document of every row: name it in the field document"
            if weighted
            else "a promise over sentences needs the sentence of every answer: pass Scored(sentence=...)"
        )
    wrong = np.zeros(len(scored)) if scored.correct is None else 1.0 - scored.correct
    n_units = int(number.max(initial=-1)) + 1 if scored.n_units is None else scored.n_units
    return Units(score=scored.confidence, wrong=wrong, unit=number, n_units=n_units, weighted=weighted)


def answers_needed(confidence: FloatArray, correct: BoolArray, *, target_risk: float, delta: float) -> int | None:
    """Return about how many rows would show that at most `target_risk` of the answers at some threshold are wrong.

    That is if all rows are like these: k answers with a share of errors e show it where k is the log of 1 / delta by
    the divergence of e from the target. None where the errors are too many at every threshold.

    >>> confidence = np.linspace(0, 1, 100)
    >>> answers_needed(confidence, confidence > 0.5, target_risk=0.05, delta=0.1)
    184
    """
    order = np.argsort(-confidence, kind="stable")
    rank = np.arange(1, len(order) + 1)
    n_errors = np.cumsum(~correct[order])
    kept = n_errors < target_risk * rank
    if not kept.any():
        least = rows_needed(target_risk, delta)
        return least if len(order) < least else None
    # The shares of few rows are too good: half an error more, but never so many that they say nothing.
    cautious = (n_errors[kept] + 0.5) / (rank[kept] + 1)
    errors = np.minimum(cautious, (n_errors[kept] / rank[kept] + target_risk) / 2)
    share = rank[kept] / len(order)
    divergence = errors * np.log(errors / target_risk) + (1 - errors) * np.log((1 - errors) / (1 - target_risk))
    return int(min(np.ceil((-math.log(delta) / (divergence * share)).min()), _MAX_ROWS))


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


def check_unit(unit: str | None) -> None:
    """Raise unless it is what may be named: documents, since rows and sentences are independent without a word."""
    if unit not in (None, "document"):
        rule = f"must be 'document' or be left out (rows, or sentences in tagging, are independent then), got {unit!r}"
        raise InvalidInputError(f"unit {rule}", shell=f"--unit {rule}")


def warn_of_abstention(threshold: RiskThreshold | None) -> None:
    """Warn the caller of `fit` where nothing can be promised."""
    if threshold is not None and not threshold.found:
        warnings.warn(f"{threshold}; the model will abstain on every input", stacklevel=3)


def check_risk(target_risk: float, delta: float) -> None:
    """Raise unless both are strictly between 0 and 1."""
    for name, value in (("target_risk", target_risk), ("delta", delta)):
        check_share(value, name, "0.05 for 5 %")


def check_share(value: float, name: str, example: str) -> None:
    """Raise unless it is strictly between 0 and 1, and no closer to them than rows can be counted."""
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < value < 1:
        rule = f"must lie strictly between 0 and 1, got {value!r}: try {example}"
        raise InvalidInputError(f"{name} {rule}", shell=f"{option} {rule}")
    if not _LEAST_SHARE <= value <= 1 - _LEAST_SHARE:
        rule = f"must be at least {_LEAST_SHARE:.0e} away from 0 and 1, got {value!r}: try {example}"
        raise InvalidInputError(f"{name} {rule}", shell=f"{option} {rule}")
