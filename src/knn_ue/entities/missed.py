"""Entities that were missed: which words tagged "O" may hide one.

doubt    log-odds of any entity at the word         more raises the risk
apart    1 if no predicted entity stands beside it  raises: a doubtful word at an entity's end is that entity's doubt
capital  1 if it stands out by its capital          raises, in sentences where capitals are known and meant

Those sentences have a regression of their own, with all three: elsewhere no capital means nothing.

Neighbors are left out: the share of them that are not O got the weight zero on two validation sets.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.entities.evidence import WordCase, log_odds
from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic
from knn_ue.entities.spans import Spans, TagSet
from knn_ue.types import Outputs

_GUESS = Guess(
    center=(-6.5, 1.0, 0.0),
    scale=(1.2, 0.4, 0.2),
    intercept=-6.0,
    slopes=(1.0, 0.5, 1.0),
    strength=(10.0, 10.0, 100.0),  # how much a capital says is a habit of the corpus: it is held
)
_UNCASED = (0, 1)  # the ingredients of a sentence whose case says nothing
# A warning that is right less often than this would be read by nobody.
_WARN_FROM = 0.3
# What may be chosen where capitals help to find them. With the least of these, warnings were right more often than
# without capitals, on average over in-domain sentences under shift (docs/entity_results.md).
_WARN_FROM_WITH_CAPITALS = (0.15, 0.2, 0.25, 0.3)


@dataclass(frozen=True, kw_only=True)
class MissedSpan:
    """A run of words tagged "O" that may hide an entity: rows `first` to `last`, the likeliest type, how likely."""

    sentence: int
    first: int
    last: int
    kind: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class MissedModel:
    """How likely a word tagged "O" hides an entity: in any sentence, and in one of `usual_case`, None if unknown.

    A sentence counts as such where capitals are meant. There, words are worth a warning from `warn_from` on.
    """

    any_case: SignedLogistic
    usual_case: SignedLogistic | None = None
    warn_from: Annotated[float, Interval(ge=0.001, le=0.999)] = 0.25

    def __post_init__(self) -> None:
        parts = ((self.any_case, len(_UNCASED)), (self.usual_case, len(_GUESS.slopes)))
        for part, n_ingredients in parts:
            if part is not None and (len(part.slopes) != n_ingredients or min(part.slopes) < 0):
                raise ValueError("a slope of missed entities is missing or has the wrong sign")

    def probability(self, outputs: Outputs, spans: Spans, tags: TagSet, case: WordCase | None) -> FloatArray:
        """Return the probability (n,) of every word, 0 inside entities."""
        values = _evidence(outputs, spans, tags)
        probability = self.any_case.probability(values)
        if case is not None and self.usual_case is not None:
            probability[case.meant] = self.usual_case.probability(
                np.column_stack([values, case.stands_out])[case.meant]
            )
        return np.where(spans.covered, 0.0, probability)

    def thresholds(self, n_words: int, case: WordCase | None) -> FloatArray:
        """Return the probability (n,) from which on a word is worth a warning."""
        if case is None or self.usual_case is None:
            return np.full(n_words, _WARN_FROM)
        return np.where(case.meant, self.warn_from, _WARN_FROM)


def fit_missed(outputs: Outputs, predicted: Spans, gold: Spans, tags: TagSet, case: WordCase | None) -> MissedModel:
    """Return how likely a word tagged "O" lies in a gold entity none of whose words was found.

    Where capitals are meant, `warn_from` is the least value at which the warnings are right at least as often as
    those that would be given without capitals.
    """
    hidden = hidden_words(predicted, gold)
    asked = ~predicted.covered
    values = _evidence(outputs, predicted, tags)
    plain = MissedModel(any_case=fit_signed_logistic(values[asked], hidden[asked], _GUESS.take(_UNCASED)))
    if case is None:
        return plain
    asked &= case.meant
    usual_case = fit_signed_logistic(np.column_stack([values, case.stands_out])[asked], hidden[asked], _GUESS)
    model = replace(plain, usual_case=usual_case)
    without, with_capitals = (
        np.where(asked, part.probability(outputs, predicted, tags, case), 0.0) for part in (plain, model)
    )
    wanted = max(_WARN_FROM, share_right(without >= _WARN_FROM, hidden, predicted, if_none=0.0))
    enough = [
        least
        for least in _WARN_FROM_WITH_CAPITALS
        if share_right(with_capitals >= least, hidden, predicted, if_none=1.0) >= wanted
    ]
    return replace(model, warn_from=min(enough, default=_WARN_FROM))


def _evidence(outputs: Outputs, spans: Spans, tags: TagSet) -> FloatArray:
    return np.column_stack([log_odds(outputs.logits, tags.kind >= 0), ~spans.next_to_one])


def hidden_words(predicted: Spans, gold: Spans) -> BoolArray:
    """Return which words (n,) lie in a gold entity that no predicted entity touches."""
    return gold.touching(-gold.lowest(-predicted.covered.astype(np.float64)) == 0)


def find_missed(
    outputs: Outputs, spans: Spans, tags: TagSet, probability: FloatArray, warn_from: FloatArray
) -> list[MissedSpan]:
    """Return the runs of words whose `probability` (n,) of hiding an entity reaches `warn_from` (n,), in order."""
    found = []
    for first, last in zip(*_runs((probability >= warn_from) & ~spans.covered, spans), strict=True):
        top = first + int(np.argmax(probability[first : last + 1]))
        inside = np.where(tags.kind >= 0, outputs.logits[top], -np.inf)
        found.append(
            MissedSpan(
                sentence=int(spans.sentence_of_word[first]),
                first=int(first),
                last=int(last),
                kind=int(tags.kind[int(np.argmax(inside))]),
                probability=float(probability[top]),
            )
        )
    return found


def _runs(suspect: BoolArray, spans: Spans) -> tuple[IntArray, IntArray]:
    """Return the first and the last word of each run of `suspect` words (n,); none crosses sentences."""
    joined = np.zeros(len(suspect) + 1, dtype=bool)  # each word to the one before it, and the end to nothing
    joined[1:-1] = suspect[1:] & suspect[:-1] & (spans.sentence_of_word[1:] == spans.sentence_of_word[:-1])
    return np.flatnonzero(suspect & ~joined[:-1]), np.flatnonzero(suspect & ~joined[1:])


def share_right(suspect: BoolArray, hidden: BoolArray, spans: Spans, *, if_none: float) -> float:
    """Return the share of the runs of `suspect` words that touch a `hidden` one."""
    first, last = _runs(suspect, spans)
    n_hidden = np.r_[0, np.cumsum(hidden)]
    return float((n_hidden[last + 1] > n_hidden[first]).mean()) if len(first) else if_none
