"""The verifier as a calibrator: how likely the judged model's answer is right, by a small reader of the same input.

It needs texts and answers, nothing of the judged model: see `knn_ue.verifying`. Where the model says how sure it is,
that counts too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.answers import Explanation, NeighborExample, class_name
from knn_ue.arrays import FloatArray, check_positive, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.calibrators.top_label import with_top
from knn_ue.folder.schema import Arrays
from knn_ue.reasons import percent
from knn_ue.types import Outputs
from knn_ue.verifying import (
    OTHER,
    UNSTATED,
    Comparison,
    LabelParams,
    LabelVerifier,
    RawViews,
    Reader,
    VerdictExplanation,
    compare,
    fit_labels,
    open_reader,
    read_outputs,
)
from knn_ue.verifying.logistic import log_odds

_HALF = 0.25
_LEAST_SHOWN = 0.05  # an own score that adds less to the log-odds goes without saying


class Verdict(Calibrator):
    """P(the given answer is right) from what a reader would answer, the model's record, and its own score.

    `reader` is a name of `knn_ue.verifying.READERS` or a reader. Predictions stay; another class may be likelier.

    >>> from knn_ue.toy import given_answers
    >>> labeled, test = given_answers(seed=0)
    >>> verdict = Verdict().fit(labeled)
    >>> scores = verdict.predict(test).confidence
    >>> bool(scores[test.predicted == test.labels].mean() > scores[test.predicted != test.labels].mean())
    True
    """

    kind: ClassVar[str] = "verdict"
    keeps_prediction: ClassVar[bool] = False
    explains: ClassVar[bool] = True
    judges_given: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays."""

        reader: str
        params: LabelParams

    verifier_: LabelVerifier

    def __init__(self, reader: "str | Reader" = "instant") -> None:
        self.reader = reader

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts = super().facts()
        facts.pop("verifier", None)
        return facts | {"reader": self._reader().name}

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return for each answer what spoke for and against it, and the `top` nearest labeled rows."""
        del found
        check_positive(top, "top")
        self._check_ready(outputs)
        why = self.verifier_.explain(self._read(outputs), outputs.predicted, self._own(outputs), top=top)
        return [self._explanation(outputs, why, row) for row in range(len(outputs))]

    def compare(self, outputs: Outputs) -> Comparison:
        """Return its scores of labeled `outputs` beside those of plain rivals learned from the same rows."""
        self._check_ready(outputs)
        labels = outputs.require_labels("comparing the verifier")
        return compare(self.verifier_, self._read(outputs), outputs.predicted, labels, self._own(outputs))

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        own = own_scores(validation)
        self.verifier_ = fit_labels(
            self._read(validation),
            validation.predicted,
            validation.require_labels("Verdict.fit"),
            None if np.isnan(own).all() else own,
            n_classes=_n_labels(validation),
            n_answers=validation.n_classes,
        )

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        if not len(outputs):
            return np.zeros((0, outputs.n_classes))
        verifier, views, answers = self.verifier_, self._read(outputs), outputs.predicted
        probs = np.zeros((len(outputs), outputs.n_classes))
        probs[:, : verifier.params.n_classes] = verifier.posterior(views, answers)
        return with_top(probs, answers, verifier.verdict(views, answers, self._own(outputs)))

    def _reader(self) -> Reader:
        return open_reader(self.reader) if isinstance(self.reader, str) else self.reader

    def _read(self, outputs: Outputs) -> RawViews:
        return read_outputs(self._reader(), outputs)

    def _own(self, outputs: Outputs) -> FloatArray | None:
        return own_scores(outputs) if self.verifier_.params.own_slope else None

    def _own_state(self) -> State:
        return self.State(reader=self._reader().name, params=self.verifier_.params)

    def _arrays(self) -> Arrays:
        return self.verifier_.state()[1]

    def _restore(self, state: State, arrays: Arrays) -> None:
        self.reader = state.reader
        self.verifier_ = LabelVerifier.restored(state.params, arrays)

    def _explanation(self, outputs: Outputs, why: VerdictExplanation, row: int) -> Explanation:
        names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
        given = int(outputs.predicted[row])
        base = self.verifier_.share_right
        raised, lowered = _reasons(why, row, base, given, names)
        return Explanation(
            text=None if outputs.texts is None else outputs.texts[row],
            label=names[given],
            score=float(why.score[row]),
            raw_score=float(softmax(outputs.logits[row : row + 1])[0, given]),
            **dict.fromkeys(_NO_TERMS),
            base_score=base,
            n_neighbors=why.rows.shape[1],
            raised_by=raised,
            lowered_by=lowered,
            neighbors=_nearest(why, row, given, names),
        )


_NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")


def own_scores(outputs: Outputs) -> FloatArray:
    """Return the log-odds (n,) of the model's own confidence in its answer, NaN where it did not say."""
    rows, answers = np.arange(len(outputs)), outputs.predicted
    logits = outputs.logits.astype(np.float64)
    own = logits[rows, answers].copy()
    logits[rows, answers] = -np.inf
    highest = logits.max(axis=1)
    others = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    log_odds: FloatArray = own - others
    if OTHER in (outputs.class_names or ()):  # answers that somebody else gave
        log_odds[log_odds > UNSTATED - _HALF] = np.nan
    return log_odds


def _n_labels(outputs: Outputs) -> int:
    """Return how many of the classes are labels: those before the one for all other answers."""
    names = list(outputs.class_names or ())
    return names.index(OTHER) if OTHER in names else outputs.n_classes


def _reasons(
    why: VerdictExplanation, row: int, base: float, given: int, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what raises the score above what is usual for the model, and what lowers it: their log-odds add up."""
    probs, answer = why.distribution[row], names[given]
    own_share = float(probs[given]) if given < len(probs) else 0.0
    best = int(probs.argmax())
    instead = "" if best == given else f", {names[best]} {percent(float(probs[best]))}"
    reader = why.slope * float(log_odds(np.array(own_share)))
    record = float(why.verifier[row]) - reader + why.bias - float(log_odds(np.array(base)))
    said, right = int(why.said[row]), int(why.right[row])
    known = f"{answer} was right {right} of the {said} times it was said" if said else f"{answer} is a new answer"
    terms = [
        (reader, f"the reader by itself gives {answer} {percent(own_share)}{instead}"),
        (record, known),
    ]
    if abs(own := float(why.own[row])) > _LEAST_SHOWN:
        terms.append((own, f"the model's own score for it is {'high' if own > 0 else 'low'}"))
    terms.sort(key=lambda term: -abs(term[0]))
    return tuple(text for term, text in terms if term > 0), tuple(text for term, text in terms if term <= 0)


def _nearest(why: VerdictExplanation, row: int, given: int, names: Sequence[str]) -> tuple[NeighborExample, ...]:
    return tuple(
        NeighborExample(
            id=int(why.rows[row, place]),
            label=class_name(names, int(why.gold[row, place])),
            distance=float(1.0 - why.similarity[row, place]),
            text=None,
            agrees=int(why.gold[row, place]) == given,
            given=class_name(names, int(why.given[row, place])),
        )
        for place in range(why.rows.shape[1])
    )
