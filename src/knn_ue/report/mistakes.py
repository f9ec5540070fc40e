"""The most confident mistakes and their nearest neighbors."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.calibrators import Calibrator
from knn_ue.evaluation import RAW, AnsweredSet
from knn_ue.types import Outputs
from knn_ue.weighting import Explanation

Side = Literal["before", "after"]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer: `side` says whether the raw confidence ("before") or the calibrated one ("after") was so high.

    `predicted` is the model's answer; both confidences are about it. `explanation` is None where nothing could explain
    it: no method that explains, or no features.
    """

    set_name: str
    row: int
    side: Side
    text: str | None
    predicted: str
    truth: str
    raw_confidence: float
    confidence: float
    explanation: Explanation | None

    def to_plain(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        return asdict(self)


def worst_mistakes(
    sets: Mapping[str, AnsweredSet], method: str, *, explain_with: Calibrator | None, n_mistakes: int, top: int = 5
) -> tuple[Mistake, ...]:
    """Return the `n_mistakes` most confident wrong answers of each labeled set: the raw model's, then the method's.

    A row is shown once. Only the rows shown are searched for, `top` neighbors of each.
    """
    found: list[Mistake] = []
    for name, answered in sets.items():
        if answered.outputs.labels is not None:
            found += _mistakes_of_set(name, answered, method, explain_with, n_mistakes, top)
    return tuple(found)


def _mistakes_of_set(
    name: str, answered: AnsweredSet, method: str, explain_with: Calibrator | None, n_mistakes: int, top: int
) -> list[Mistake]:
    outputs = answered.outputs
    labels = outputs.require_labels("the mistakes")
    raw, ours = answered.confidence(RAW), answered.confidence(method)
    wrong = np.flatnonzero(~answered.correct & answered.counted)
    before = _surest(wrong, (raw, ours), n_mistakes)
    after = _surest(np.setdiff1d(wrong, before), (ours, raw), n_mistakes)
    rows: IntArray = np.concatenate([before, after])
    names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
    explanations = _explanations(outputs, rows, explain_with, top)
    return [
        Mistake(
            set_name=name,
            row=row,
            side="before" if place < len(before) else "after",
            text=None if outputs.texts is None else outputs.texts[row],
            predicted=names[answered.predicted[row]],
            truth=names[labels[row]],
            raw_confidence=float(raw[row]),
            confidence=float(ours[row]),
            explanation=explanations[place],
        )
        for place, row in enumerate(rows.tolist())
    ]


def _surest(rows: IntArray, by: tuple[FloatArray, FloatArray], n_mistakes: int) -> IntArray:
    """Return the rows with the highest first score; the second score, then the row number, decide among equals."""
    order = np.lexsort((rows, -by[1][rows], -by[0][rows]))
    surest: IntArray = rows[order[:n_mistakes]]
    return surest


def _explanations(
    outputs: Outputs, rows: IntArray, explain_with: Calibrator | None, top: int
) -> Sequence[Explanation | None]:
    if explain_with is None or not len(rows):
        return [None] * len(rows)
    if outputs.features is None and (not explain_with.judges_given or outputs.groups is not None):
        return [None] * len(rows)
    return explain_with.explain(outputs.take(rows), top=top)
