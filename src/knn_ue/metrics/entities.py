"""Entities in tag sequences: which were found, with what confidence, and which were missed.

Tags are IOB2: "O", "B-TYPE", "I-TYPE". As in seqeval's default mode, an I-TYPE that continues nothing begins an entity.
"""

import re
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
from knn_ue.metrics.inputs import checked_confidence
from knn_ue.metrics.weights import checked_weights, ratio

_IOB2 = re.compile(r"O|[BI](-.*)?")

Aggregate = Literal["product", "mean", "min"]
Tags = Sequence[str] | npt.NDArray[np.str_]
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


def mark_entities(class_names: Sequence[str]) -> bool:
    """Say whether the classes of a tagger are IOB2 tags; those of a part-of-speech tagger, say, are not.

    >>> mark_entities(["O", "B-PER", "I-PER"]), mark_entities(["NOUN", "VERB"]), mark_entities(["O"])
    (True, False, False)
    """
    return all(map(_IOB2.fullmatch, class_names)) and any(name != "O" for name in class_names)


def extract_entities(tags: Tags) -> list[tuple[str, int, int]]:
    """Return the (type, first, last) of each entity in the tags of one sentence; `last` is inside the entity.

    >>> extract_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 4)]
    """
    names, (spans,) = find_spans([_one_sentence(tags)], np.zeros(1, dtype=np.int64))
    return [(names[kind], first, last) for kind, first, last in spans.T.tolist()]


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
    tags = [list(map(_one_sentence, side)) for side in (gold, predicted)]
    scores = [float_vector(sentence, "the confidence of a sentence") for sentence in confidence]
    lengths = _sentence_lengths(tags[0], tags[1], scores)
    tokens = checked_confidence(np.concatenate(scores))
    check_not_empty(len(tokens), "gold")
    _, (truth, found) = find_spans([list(chain.from_iterable(side)) for side in tags], np.cumsum(lengths) - lengths)
    expected = np.full((3, len(tokens)), -1)
    expected[:, truth[1]] = truth
    return EntityScores(
        confidence=read_only(_combine(tokens, found[1], found[2], aggregate)),
        correct=read_only((expected[:, found[1]] == found).all(axis=0)),
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


def _one_sentence(tags: Tags) -> list[str]:
    if isinstance(tags, str):
        raise InvalidInputError(f"the tags of a sentence must be a list of strings, got {tags!r}: split it")
    return tags.tolist() if isinstance(tags, np.ndarray) else list(tags)


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


def find_spans(sequences: Sequence[list[str]], offsets: IntArray) -> tuple[list[str], list[IntArray]]:
    """Return the names of the types, and for each flat sequence the (3, entities) array of type, first, last token.

    `offsets` are the positions where a sentence begins.
    """
    try:
        codes = {tag: code for code, tag in enumerate(dict.fromkeys(chain.from_iterable(sequences)))}
    except TypeError:
        raise InvalidInputError("tags must be strings, got lists of them: pass one sentence at a time") from None
    prefixes, kinds = zip(*map(parse_tag, codes), strict=True) if codes else ((), ())
    names = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    prefix_of, kind_of = np.array(prefixes, dtype=str), np.array([names[kind] for kind in kinds], dtype=np.int64)
    spans = []
    for tags in sequences:
        numbers = np.fromiter(map(codes.__getitem__, tags), dtype=np.int64, count=len(tags))
        opens = np.zeros(len(tags), dtype=bool)
        opens[offsets[offsets < len(tags)]] = True
        spans.append(_spans((prefix_of != "O")[numbers], (prefix_of == "B")[numbers] | opens, kind_of[numbers]))
    return list(names), spans


def _spans(inside: BoolArray, begins: BoolArray, kind: IntArray) -> IntArray:
    continues = inside & ~begins
    continues[1:] &= inside[:-1] & (kind[1:] == kind[:-1])
    first = np.flatnonzero(inside & ~continues)
    last = np.flatnonzero(inside & ~np.append(continues[1:], False)[: len(inside)])
    return np.stack((kind[first], first, last))


def parse_tag(tag: object) -> tuple[str, str]:
    """Return the prefix ("O", "B" or "I") and the type of a tag."""
    if isinstance(tag, str):
        prefix, _, kind = tag.partition("-")
        if tag == "O" or prefix in ("B", "I"):
            return prefix, kind or "_"  # a bare "B" has no type; seqeval calls it "_"
    raise InvalidInputError(f"tags must be O, B-TYPE or I-TYPE (IOB2), got {tag!r}: convert the tags first")


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
