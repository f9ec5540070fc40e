"""Who looks at what: which answers are let through, and which a person sees first.

Every row costs a person the same, so the row that is wrong most probably comes first: of any number of rows that are
looked at, these are expected to hold the most errors. Inputs unlike those the scores were fitted on go to a person
whatever their score, since no score or promise holds for them.
"""

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knn_ue.answers import AnyAnswer
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline.answers import abstains, rated_rows
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.sampling import score_of
from knn_ue.reasons import percent

TARGET = 0.95
THROUGH, PERSON = "through", "person"
_FIRST = (10, 50, 100, 500, 1000, 5000)  # rows that a person may have time for


@dataclass(kw_only=True)
class Scores:
    """What is remembered of each answer while a file is read: 10 bytes a row."""

    score: "array[float]" = field(default_factory=lambda: array("d"))
    abstained: bytearray = field(default_factory=bytearray)
    unfamiliar: bytearray = field(default_factory=bytearray)

    def add(self, answer: AnyAnswer) -> None:
        """Remember one answer."""
        self.score.append(score_of(answer))
        self.abstained.append(abstains(answer.to_dict()))
        self.unfamiliar.append(bool(answer.unfamiliar))


@dataclass(frozen=True, kw_only=True, eq=False)
class Triage:
    """Where each of n answers goes: `through` (n,), and the `order` (n,) in which rows are shown, those for people
    first. `promise` says what holds for those let through; `least` is the score they have, None where a promise that
    does not go by score alone decides."""

    score: FloatArray
    through: BoolArray
    unfamiliar: BoolArray
    order: IntArray
    promise: str
    least: float | None

    @property
    def n_through(self) -> int:
        """How many answers need no person."""
        return int(self.through.sum())

    def errors(self, through: bool) -> float:
        """Return how many errors are expected among those let through, or among the others."""
        return float((1.0 - self.score[self.through == through]).sum())

    def found_after(self, n_rows: int) -> float:
        """Return how many errors a person is expected to find in the first `n_rows`."""
        seen = self.order[: min(n_rows, len(self.order) - self.n_through)]
        return float((1.0 - self.score[seen]).sum())

    def why(self, row: int) -> str:
        """Say why a row goes where it goes."""
        if self.unfamiliar[row]:
            return "unlike the inputs that scores were fitted on"
        if self.least is None:
            return "promised" if self.through[row] else "not promised"
        return f"the score is {'at least' if self.through[row] else 'below'} {self.least:.4g}"

    def sentences(self) -> list[str]:
        """Return what to do with it, in words."""
        n_rows, n_person = len(self.score), len(self.score) - self.n_through
        lines = [
            f"{self.n_through} of {n_rows} answers ({percent(self.n_through / n_rows)}) are let through, "
            f"{n_person} go to a person, {int(self.unfamiliar.sum())} of them as unfamiliar",
            f"let through: {self.promise}",
        ]
        if n_person:
            firsts = [n for n in _FIRST if n < n_person]
            found = [f"the first {n} hold about {self.found_after(n):.0f} errors" for n in firsts[-3:]]
            found.append(f"all {n_person} about {self.errors(through=False):.0f}")
            lines.append(f"for a person: {', '.join(found)}; about {self.errors(through=True):.0f} are let through")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain JSON."""
        n_person = len(self.score) - self.n_through
        return {
            "n": len(self.score),
            "n_through": self.n_through,
            "n_person": n_person,
            "n_unfamiliar": int(self.unfamiliar.sum()),
            "least": self.least,
            "promise": self.promise,
            "expected_errors_through": round(self.errors(through=True), 2),
            "expected_errors_person": round(self.errors(through=False), 2),
            "found_after": {str(n): round(self.found_after(n), 2) for n in _FIRST if n < n_person},
        }


def triage(
    scores: Scores, fitted: Fitted, *, abstain_below: float | None = None, target_precision: float | None = None
) -> Triage:
    """Let through what a fitted promise or `abstain_below` allows, else what labeled rows say is precise.

    Without a promise that was found, the lowest score is taken at which `target_precision` of the labeled rows were
    right, one error more than there were counted in: an estimate, and called one.
    """
    threshold = fitted.threshold
    score = np.frombuffer(scores.score, dtype=np.float64) if scores.score else np.zeros(0)
    if not len(score):
        raise InvalidInputError("there is nothing to triage: the file has no row that can be read")
    unfamiliar = np.frombuffer(scores.unfamiliar, dtype=np.uint8).astype(bool)
    given = ~np.frombuffer(scores.abstained, dtype=np.uint8).astype(bool)
    least: float | None
    if abstain_below is not None:
        least, promise = abstain_below, f"chosen by you, a score of at least {abstain_below:.4g}; {_mean(score, given)}"
    elif threshold is not None and threshold.found and target_precision is None:
        least, promise = (None if threshold.cap is not None else threshold.threshold), str(threshold)
    else:
        target = target_precision or (TARGET if threshold is None else 1.0 - threshold.target_risk)
        least, estimate = _estimated(fitted, target)
        given = score >= least
        promise = f"an estimate, no promise, of a precision of {percent(target)}: {estimate}"
        if threshold is not None and not threshold.found:
            promise += f"; {threshold}"
    through = given & ~unfamiliar
    order = np.lexsort((np.arange(len(score)), score, through))
    return Triage(
        score=score,
        through=through,
        unfamiliar=unfamiliar,
        order=order,
        promise=promise,
        least=None if least is None or np.isinf(least) else float(least),
    )


def line_of(triaged: Triage, row: int, place: int, found: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a row in the queue: where it goes, and why, before what was answered."""
    wrong = round(1.0 - float(triaged.score[row]), 4)
    route = THROUGH if triaged.through[row] else PERSON
    kept = {name: value for name, value in found.items() if name != "neighbors"}
    return {"place": place, "route": route, "why": triaged.why(row), "probably_wrong": wrong} | kept


def _estimated(fitted: Fitted, target: float) -> tuple[float, str]:
    """Return the lowest score at which enough labeled rows were right, infinite where none is, and why in words."""
    score, right, which = rated_rows(fitted)
    order = np.argsort(-score, kind="stable")
    n_rows, n_wrong = np.arange(1, len(order) + 1), np.cumsum(~right[order])
    enough = np.flatnonzero((n_wrong + 1) / (n_rows + 2) <= 1.0 - target)
    if not len(enough):
        return float("inf"), f"no score is high enough on {len(order)} {which}"
    last = enough[-1]
    least = float(score[order][last])
    return least, f"{n_rows[last] - n_wrong[last]} of {n_rows[last]} were right on {len(order)} {which}"


def _mean(score: FloatArray, given: BoolArray) -> str:
    if not given.any():
        return "no score is high enough"
    return f"their scores average {percent(float(score[given].mean()))}"
