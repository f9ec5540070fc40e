"""What a method said of one test set, a row an answer: all that scores and paired tests need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.data import PairRow, Row, TextRow
from knn_ue.types import Outputs, Prediction
from knn_ue_lab.reproduce.task_data import SetRows, kind_of

# Probabilities of more classes are not kept: no table of the paper reads them.
MAX_CLASSES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Answers (m,) and their `group` (m,), the text or sentence they belong to; groups rise from 0.

    `confidence` in the answer and whether it is `correct`. In tagging an answer is an entity, and each gold entity that
    no answer matches is one more row, `missed`, with confidence 0. `probs` (m, classes) with `labels` (m,) and `human`
    (m,), the distance between predicted and human label distributions (NaN where nobody was asked), are there where
    they make sense. `proximity` (m,) is how near the text, or the entity's words, is to validation rows. `confidence`
    and `group` alone are there where the model does not know the labels.
    """

    confidence: FloatArray
    group: IntArray
    correct: BoolArray | None = None
    missed: BoolArray | None = None
    probs: FloatArray | None = None
    labels: IntArray | None = None
    human: FloatArray | None = None
    proximity: FloatArray | None = None

    def take(self, rows: npt.NDArray[Any]) -> "Answers":
        """Return the answers at `rows`."""
        return Answers(**{name: values[rows] for name, values in self.to_arrays().items()})

    def first(self, n_groups: int) -> "Answers":
        """Return the answers to the first so many texts or sentences."""
        return self.take(np.flatnonzero(self.group < n_groups))

    def given(self) -> "Answers":
        """Return the answers that were given, without missed entities."""
        return self if self.missed is None else self.take(np.flatnonzero(~self.missed))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what is there, by name."""
        return {name: values for name, values in vars(self).items() if values is not None}


def answers_of(
    outputs: Outputs, prediction: Prediction, rows: SetRows, entity_factors: FloatArray | None = None
) -> Answers:
    """Return what the calibrated model said of a test set whose outputs these are.

    An entity is as sure as the product of its words' confidences, or of their `entity_factors` (n,).
    """
    if outputs.groups is not None:
        spoken = prediction.confidence if entity_factors is None else entity_factors
        names = np.array(outputs.class_names)
        gold = names[outputs.require_labels("the experiment")] if rows.labeled else np.full(len(outputs), "O")
        found = _entities(gold, outputs.groups, names, prediction.predicted, spoken, rows.ignored)
        return found if rows.labeled else Answers(confidence=found.confidence, group=found.group)
    if not rows.labeled:
        return Answers(confidence=prediction.confidence, group=np.arange(len(outputs)))
    labels = outputs.require_labels("the experiment")
    small = outputs.n_classes <= MAX_CLASSES
    human = human_distribution(rows.rows[: len(outputs)], outputs.class_names or ())
    return Answers(
        confidence=prediction.confidence,
        group=np.arange(len(outputs)),
        correct=prediction.predicted == labels,
        probs=prediction.probs.astype(np.float32) if small else None,
        labels=np.asarray(labels) if small else None,
        human=None if human is None else 0.5 * np.abs(prediction.probs - human).sum(axis=1),
    )


def human_distribution(rows: Sequence[Row], class_names: Sequence[str]) -> FloatArray | None:
    """Return the share of human votes for each class the model knows (n, classes); None where there are no votes.

    Votes for other classes ("neutral" where the model knows pos and neg) are left out; a row without any other vote is
    NaN.

    >>> human_distribution([TextRow("so so", "pos", {"pos": 3, "neg": 1, "neutral": 1})], ("neg", "pos"))
    array([[0.25, 0.75]])
    """
    counts = [row.label_counts if isinstance(row, (TextRow, PairRow)) else None for row in rows]
    if not any(counts):
        return None
    votes = np.array([[float((count or {}).get(name, 0)) for name in class_names] for count in counts])
    total = votes.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(votes, total, out=np.full_like(votes, np.nan), where=total > 0)
    return shares


def _entities(
    gold_tags: npt.NDArray[np.str_],
    groups: IntArray,
    names: npt.NDArray[np.str_],
    predicted_tags: IntArray,
    spoken: FloatArray,
    ignored: frozenset[str],
) -> Answers:
    shown = np.array(["O" if kind_of(name) in ignored else name for name in names])
    found = [
        metrics.score_entities(gold=[gold], predicted=[predicted], confidence=[confidence])
        for gold, predicted, confidence in zip(
            metrics.sentences(gold_tags, groups),
            metrics.sentences(shown[predicted_tags], groups),
            metrics.sentences(spoken, groups),
            strict=True,
        )
    ]
    # A sentence without entities has no row; its number is still counted.
    numbers = np.unique(groups)
    scored = [one.ranked(include_missed=True) for one in found]
    return Answers(
        confidence=np.concatenate([confidence for confidence, _ in scored]),
        correct=np.concatenate([correct for _, correct in scored]),
        missed=np.concatenate(
            [np.arange(len(x)) >= len(y.confidence) for (x, _), y in zip(scored, found, strict=True)]
        ),
        group=np.repeat(numbers, [len(confidence) for confidence, _ in scored]),
    )
