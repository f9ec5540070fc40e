"""The verifier as a calibrator: how likely the judged model's answer is right, by a small reader of the same input.

It needs texts and answers, nothing of the judged model: see `knn_ue.verifying`. Where the model says how sure it is,
that counts too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.answers import Explanation, NeighborExample, class_name
from knn_ue.arrays import FloatArray, check_positive
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.calibrators.top_label import with_top
from knn_ue.calibrators.verdict_rivals import SHOWN, Compared, Rival
from knn_ue.folder.schema import Arrays
from knn_ue.folder.tensors import PackedTexts
from knn_ue.reasons import percent
from knn_ue.types import Outputs
from knn_ue.verifying import (
    OTHER,
    UNSTATED,
    LabelParams,
    LabelVerifier,
    RawViews,
    Reader,
    VerdictExplanation,
    fit_labels,
    open_reader,
    read_outputs,
    record,
)
from knn_ue.verifying.comparison import scores_of_all
from knn_ue.verifying.logistic import log_odds, sigmoid
from knn_ue.verifying.views import inner_views

_HALF = 0.25
_DIGITS = 9
_CELLS = 1 << 20
_TEXTS = "labeled"
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

    reader: "str | Reader"
    verifier_: LabelVerifier
    texts_: PackedTexts
    """The labeled rows as people read them, for explanations."""

    def __init__(self, reader: "str | Reader" = "instant") -> None:
        self.reader = reader

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts = super().facts()
        for name in ("verifier", "texts"):
            facts.pop(name, None)
        return facts | {"reader": self._reader().name}

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return for each answer what spoke for and against it, and the `top` nearest labeled rows."""
        del found
        check_positive(top, "top")
        self._check_ready(outputs)
        why = self.verifier_.explain(self._read(outputs), outputs.predicted, self._own(outputs), top=top)
        own = own_scores(outputs).tolist()
        return [self._explanation(outputs, why, row, own[row]) for row in range(len(outputs))]

    def scores_as_new(self) -> FloatArray:
        """Return what each labeled answer scores where its own label is left out."""
        self._check_ready(None)
        return self.verifier_.scores

    def suggestion_gain(self) -> tuple[float, float]:
        """Return the share of the labeled answers that is right, as given and with what would be suggested instead.

        Each is judged as if it were new. Suggested is the likeliest other label where it is likelier than the answer.
        """
        fitted = self.verifier_
        others = record.left_out_posterior(
            fitted.left_out, fitted.gold, fitted.answers, n_answers=fitted.params.n_answers
        )
        probs = np.zeros((len(others), fitted.params.n_answers))
        probs[:, : fitted.params.n_classes] = others
        best = with_top(probs, fitted.answers, fitted.scores).argmax(axis=1)
        return float((fitted.answers == fitted.gold).mean()), float((best == fitted.gold).mean())

    def rivals(self) -> Mapping[str, Calibrator]:
        """Return a constant per answer, the model's own score where there is one, and regressions."""
        compared = Compared(self._scores_of_all)
        has_own = self.verifier_.own is not None
        return {shown: Rival(name, compared) for name, shown in SHOWN.items() if has_own or name != "platt"}

    def _scores_of_all(self, outputs: Outputs) -> Mapping[str, FloatArray]:
        inner = inner_views(self.verifier_.views, self._read(outputs))
        return scores_of_all(self.verifier_, inner, outputs.predicted, self._own(outputs))

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        own = own_scores(validation)
        self.texts_ = PackedTexts.pack(validation.texts or ())
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
        # Inner products with all labeled rows are held for so many rows at a time.
        size = max(1, _CELLS // len(self.verifier_.gold))
        parts = (outputs.take(slice(start, start + size)) for start in range(0, len(outputs), size))
        return np.concatenate([self._judged(part) for part in parts])

    def _judged(self, outputs: Outputs) -> FloatArray:
        answers = outputs.predicted
        likely, scores = self.verifier_.judge(self._read(outputs), answers, self._own(outputs))
        probs = np.zeros((len(outputs), outputs.n_classes))
        probs[:, : likely.shape[1]] = likely
        return with_top(probs, answers, scores)

    def _reader(self) -> Reader:
        return open_reader(self.reader) if isinstance(self.reader, str) else self.reader

    def _read(self, outputs: Outputs) -> RawViews:
        return read_outputs(self._reader(), outputs)

    def _own(self, outputs: Outputs) -> FloatArray | None:
        return own_scores(outputs) if self.verifier_.params.own_slope else None

    def _own_state(self) -> State:
        return self.State(reader=self._reader().name, params=self.verifier_.params)

    def _arrays(self) -> Arrays:
        return self.verifier_.state()[1] | self.texts_.to_arrays(_TEXTS)

    def _restore(self, state: State, arrays: Arrays) -> None:
        self.reader = state.reader
        self.texts_ = PackedTexts.from_arrays(arrays, _TEXTS)
        shown = self.texts_.to_arrays(_TEXTS).keys()
        kept = {name: array for name, array in arrays.items() if name not in shown}
        self.verifier_ = LabelVerifier.restored(state.params, kept)
        if len(self.texts_) != len(self.verifier_.gold):
            raise ValueError("its texts are not those of its labeled rows")

    def _explanation(self, outputs: Outputs, why: VerdictExplanation, row: int, own: float) -> Explanation:
        names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
        given = int(outputs.predicted[row])
        base = self.verifier_.share_right
        raised, lowered = _reasons(why, row, base, given, names)
        stated: float | None = None if np.isnan(own) else float(sigmoid(np.array(own)))
        return Explanation(
            text=None if outputs.texts is None else outputs.texts[row],
            label=names[given],
            score=float(why.score[row]),
            raw_score=stated,
            **dict.fromkeys(_NO_TERMS),
            base_score=base,
            n_neighbors=why.rows.shape[1],
            raised_by=raised,
            lowered_by=lowered,
            neighbors=_nearest(why, row, given, names, self.texts_),
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
    if any(name.endswith(OTHER) for name in outputs.class_names or ()):  # answers that somebody else gave
        log_odds[log_odds > UNSTATED - _HALF] = np.nan
        log_odds = np.round(log_odds, _DIGITS)  # equal confidences stay equal, whatever the answer
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
    probable = percent(float(probs[best]))
    if best == given:
        would = f'the verifier by itself would answer "{answer}" too ({probable})'
    elif given < len(probs):
        would = f'the verifier by itself would answer "{names[best]}" ({probable}; "{answer}" {percent(own_share)})'
    else:
        would = f'the verifier by itself would answer "{names[best]}" ({probable})'
    reader = why.slope * float(log_odds(np.array(own_share)))
    record = float(why.verifier[row]) - reader + why.bias - float(log_odds(np.array(base)))
    said, right = int(why.said[row]), int(why.right[row])
    times, were = "time" if said == 1 else "times", "was" if right == 1 else "were"
    known = f'of {said} {times} it said "{answer}", {right} {were} right'
    if not said:
        known = f'no labeled row has the answer "{answer}"'
    if given >= len(probs):
        known = "an answer that is none of the labels counts as wrong"
    terms = [(reader, would), (record, known)]
    if abs(own := float(why.own[row])) > _LEAST_SHOWN:
        terms.append((own, f"its own score is {'higher' if own > 0 else 'lower'} than usual"))
    terms.sort(key=lambda term: -abs(term[0]))
    return tuple(text for term, text in terms if term > 0), tuple(text for term, text in terms if term <= 0)


def _nearest(
    why: VerdictExplanation, row: int, given: int, names: Sequence[str], texts: PackedTexts
) -> tuple[NeighborExample, ...]:
    return tuple(
        NeighborExample(
            id=int(why.rows[row, place]),
            label=class_name(names, int(why.gold[row, place])),
            distance=float(1.0 - why.similarity[row, place]),
            text=texts[int(why.rows[row, place])],
            agrees=int(why.gold[row, place]) == given,
            given=class_name(names, int(why.given[row, place])),
        )
        for place in range(why.rows.shape[1])
    )
