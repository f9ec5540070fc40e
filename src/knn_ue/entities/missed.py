"""Entities that were missed: which words tagged "O" may hide one.

doubt   log-odds of any entity at the word         more raises the risk
apart   1 if no predicted entity stands beside it  raises: a doubtful word at an entity's end is that entity's doubt

Neighbors are left out: the share of them that are not O got the weight zero on two validation sets.
"""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.entities.evidence import log_odds
from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic
from knn_ue.entities.spans import Spans, TagSet
from knn_ue.types import Outputs

N_MISSED = 2  # ingredients
_GUESS = Guess(center=(-6.5, 1.0), scale=(1.2, 0.4), intercept=-6.0, slopes=(1.0, 0.5), strength=(10.0, 10.0))
# A warning that is right less often than this would be read by nobody.
_WARN_FROM = 0.3


@dataclass(frozen=True, kw_only=True)
class MissedSpan:
    """A run of words tagged "O" that may hide an entity: rows `first` to `last`, the likeliest type, how likely."""

    sentence: int
    first: int
    last: int
    kind: int
    probability: float


def missed_evidence(outputs: Outputs, spans: Spans, tags: TagSet) -> FloatArray:
    """Return the ingredients (n, 2) of every word."""
    return np.column_stack([log_odds(outputs.logits, tags.kind >= 0), ~spans.next_to_one])


def fit_missed(values: FloatArray, predicted: Spans, gold: Spans) -> SignedLogistic:
    """Return how likely a word tagged "O" lies in a gold entity none of whose words was found."""
    hidden = hidden_words(predicted, gold)
    asked = ~predicted.covered
    return fit_signed_logistic(values[asked], hidden[asked], _GUESS)


def hidden_words(predicted: Spans, gold: Spans) -> BoolArray:
    """Return which words (n,) lie in a gold entity that no predicted entity touches."""
    return gold.touching(-gold.lowest(-predicted.covered.astype(np.float64)) == 0)


def find_missed(outputs: Outputs, spans: Spans, tags: TagSet, probability: FloatArray) -> list[MissedSpan]:
    """Return the runs of words whose `probability` (n,) of hiding an entity is worth a warning, in order."""
    suspect = (probability >= _WARN_FROM) & ~spans.covered
    begins = suspect.copy()
    begins[1:] &= ~suspect[:-1] | (spans.sentence_of_word[1:] != spans.sentence_of_word[:-1])
    firsts = np.flatnonzero(begins).tolist()
    found = []
    for place, first in enumerate(firsts):
        end = firsts[place + 1] if place + 1 < len(firsts) else spans.n_words
        last = first + int(suspect[first:end].sum()) - 1
        top = first + int(np.argmax(probability[first : last + 1]))
        inside = np.where(tags.kind >= 0, outputs.logits[top], -np.inf)
        found.append(
            MissedSpan(
                sentence=int(spans.sentence_of_word[first]),
                first=first,
                last=last,
                kind=int(tags.kind[int(np.argmax(inside))]),
                probability=float(probability[top]),
            )
        )
    return found
