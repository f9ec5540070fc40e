"""Entities in IOB2 tags: which were found, with what confidence, and which were missed; `knn_ue.iob2` reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    bool_vector,
    check_choice,
    check_length,
    check_not_empty,
    float_vector,
    label_vector,
    read_only,
)
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import Tags, extract_entities, find_spans, is_tag_set, one_sentence, same_spans
from knn_ue.metrics.inputs import checked_confidence
from knn_ue.metrics.weights import checked_weights, ratio

__all__ = ["EntityScores", "extract_entities", "mark_entities", "score_entities", "sentences"]

Aggregate = Literal["product", "mean", "min"]
mark_entities = is_tag_set  # the public name
ValuesT = TypeVar("ValuesT", bound=Sequence[Any] | npt.NDArray[Any])


@dataclass(frozen=True, kw_only=True, eq=False)
class EntityScores:
    """The m predicted entities: `confidence` (m,), whether type and span are `correct` (m,), and the gold entities."""

    confidence: FloatArray
    correct: BoolArray
    n_gold: int

    @property
    def n_missed(self) -> int:
        """Gold entities that no predicted entity matches."""
        return self.n_gold - int(self.correct.sum())

    @property
    def precision(self) -> float:
        """Share of predicted entities that are correct; 0 where none is predicted."""
        return float(self.correct.mean()) if len(self.correct) else 0.0

    @property
    def recall(self) -> float:
        """Share of gold entities that are found; 0 where there is none."""
        return float(self.correct.sum() / self.n_gold) if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        """Micro-averaged F1, as seqeval's `f1_score`; 0 where there is no entity at all."""
        return float(2 * self.correct.sum() / max(1, len(self.correct) + self.n_gold))

    def ranked(self, *, include_missed: bool = True) -> tuple[FloatArray, BoolArray]:
        """Return (confidence, correct) for `aurc` and its kin.

        With `include_missed`, each missed gold entity counts as an error at confidence 0, as in the paper.
        """
        n_added = self.n_missed if include_missed else 0
        return (
            np.append(self.confidence, np.zeros(n_added)),
            np.append(self.correct, np.zeros(n_added, dtype=bool)),
        )


def score_entities(
    *,
    gold: Sequence[Tags],
    predicted: Sequence[Tags],
    confidence: Sequence[FloatArray],
    aggregate: Aggregate = "product",
) -> EntityScores:
    """Match predicted with gold entities, a list of tags and one of token confidences for each sentence.

    The confidence of an entity is the product, mean or minimum over its tokens; it is correct when type and span
    match exactly. Entities never reach into the next sentence. Nakayama (2018), seqeval.

    >>> scores = score_entities(gold=[["B-PER", "I-PER"]], predicted=[["B-PER", "I-PER"]], confidence=[[0.5, 0.5]])
    >>> scores.confidence, scores.correct, scores.f1
    (array([0.25]), array([ True]), 1.0)
    """
    check_choice(aggregate, "aggregate", get_args(Aggregate))
    tags = [list(map(one_sentence, side)) for side in (gold, predicted)]
    scores = [float_vector(sentence, "the confidence of a sentence") for sentence in confidence]
    lengths = _sentence_lengths(tags[0], tags[1], scores)
    tokens = checked_confidence(np.concatenate(scores))
    check_not_empty(len(tokens), "gold")
    _, (truth, found) = find_spans([list(chain.from_iterable(side)) for side in tags], np.cumsum(lengths) - lengths)
    return EntityScores(
        confidence=read_only(_combine(tokens, found[1], found[2], aggregate)),
        correct=read_only(same_spans(found, truth, n_words=len(tokens))),
        n_gold=truth.shape[1],
    )


def entity_f1(*, correct: BoolArray, missed: BoolArray, sample_weight: FloatArray | None = None) -> float:
    """Micro-averaged F1 of entities (n,): predicted ones, `correct` or not, and `missed` gold ones; 0 without any.

    `sample_weight` (n,) says how much each of them counts. Nakayama (2018), seqeval.

    >>> entity_f1(correct=[True, False, False], missed=[False, False, True])
    0.5
    """
    hits = bool_vector(correct, "correct")
    absent = bool_vector(missed, "missed", length=len(hits))
    if (hits & absent).any():
        raise InvalidInputError("a missed entity cannot be correct: pass correct=False where missed is True")
    weights = checked_weights(sample_weight, len(hits))
    if weights is None:
        n_right = int(hits.sum())
        return 2 * n_right / max(1, len(hits) + n_right)
    right = hits.astype(np.float64) @ weights.values
    return weights.number(np.nan_to_num(ratio(2.0 * right, weights.total + right)))


def sentences(values: ValuesT, groups: IntArray) -> list[ValuesT]:
    """Cut `values` (n, ...) into one slice for each sentence, `groups` (n,) naming the sentence of each row.

    >>> sentences(["O", "B-PER", "O"], groups=[7, 7, 8])
    [['O', 'B-PER'], ['O']]
    """
    numbers = label_vector(groups, "groups", length=len(values))
    check_not_empty(len(numbers), "groups")
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    seen, counts = np.unique(numbers[starts], return_counts=True)
    if counts.max() > 1:
        raise InvalidInputError(
            f"rows of one group must stand together, group {seen[counts > 1][0]} is split: sort the words by sentence"
        )
    ends = [*starts[1:].tolist(), len(numbers)]
    return [values[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]  # type: ignore[misc]


def _sentence_lengths(gold: list[list[str]], predicted: list[list[str]], confidence: list[FloatArray]) -> IntArray:
    check_not_empty(len(gold), "gold")
    check_length(len(predicted), "predicted", len(gold))
    check_length(len(confidence), "confidence", len(gold))
    lengths = [np.fromiter(map(len, x), dtype=np.int64, count=len(x)) for x in (gold, predicted, confidence)]
    (unequal,) = np.nonzero((lengths[0] != lengths[1]) | (lengths[0] != lengths[2]))
    if len(unequal):
        n_gold, n_predicted, n_confidence = (int(x[unequal[0]]) for x in lengths)
        raise InvalidInputError(
            f"a sentence must have as many gold tags as predicted tags and confidences, sentence {unequal[0]} has "
            f"{n_gold}, {n_predicted} and {n_confidence}: align them word by word"
        )
    return lengths[0]


def _combine(tokens: FloatArray, first: IntArray, last: IntArray, aggregate: Aggregate) -> FloatArray:
    if not len(first):
        return np.zeros(0)
    # reduceat needs every bound inside the array; the padding token only ever ends an entity.
    padded, bounds = np.append(tokens, 1.0), np.stack((first, last + 1), axis=1).ravel()
    if aggregate == "product":
        return np.multiply.reduceat(padded, bounds)[::2]
    if aggregate == "min":
        return np.minimum.reduceat(padded, bounds)[::2]
    total: FloatArray = np.add.reduceat(padded, bounds)[::2]
    return total / (last - first + 1)
