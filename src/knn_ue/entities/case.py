"""What capital letters say about entities, for models that do not see them.

Only a sentence of usual case says anything: its first word with a letter is capitalized, and some word is not. In
headlines, shouting and careless writing capitals mean little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.entities.spans import Spans
from knn_ue.types import Outputs

_HANDLE_MARKS = ("@", "#")


@dataclass(frozen=True, kw_only=True, eq=False)
class WordCase:
    """Which of n words are `small` (they start in lower case, and are no handle or topic) and which `capital`.

    Both are False outside sentences of usual case, whose words are `telling`. The first word with a letter is no
    `capital`: it is one in every sentence. A `mark` is a bare "@" or "#": what follows is the rest of a handle.
    """

    telling: BoolArray
    small: BoolArray
    capital: BoolArray
    mark: BoolArray

    @classmethod
    def of(cls, words: Sequence[str], starts: Sequence[int]) -> "WordCase":
        """Read the words of sentences that begin at the rows `starts`.

        >>> WordCase.of(["The", "bank", "of", "Oslo", ",", "@", "ana"], [0]).small
        array([False,  True,  True, False, False, False, False])
        """
        telling, small, capital = np.zeros((3, len(words)), dtype=bool)
        for start, stop in zip(starts, [*starts[1:], len(words)], strict=True):
            sentence = words[start:stop]
            letters = [place for place, word in enumerate(sentence) if any(map(str.isalpha, word))]
            if letters and sentence[letters[0]][:1].isupper() and any(word[:1].islower() for word in sentence):
                telling[start:stop] = True
                for place in letters:
                    small[start + place] = sentence[place][0].islower() and not _is_handle(sentence, place)
                    capital[start + place] = sentence[place][0].isupper() and place > letters[0]
        mark = np.array([word in _HANDLE_MARKS for word in words], dtype=bool)
        return cls(telling=telling, small=small, capital=capital, mark=mark)

    def small_end(self, spans: Spans) -> FloatArray:
        """Return 1 (m,) where the first or the last word of an entity is small, else 0."""
        return (self.small[spans.first] | self.small[spans.last]).astype(np.float64)

    def capital_beside(self, spans: Spans) -> FloatArray:
        """Return 1 (m,) where a capital of no entity stands right before or after it, or a mark before it, else 0."""
        before, after = (
            np.where(words & ~spans.covered, -1.0, 0.0) for words in (self.capital | self.mark, self.capital)
        )
        return (np.minimum(spans.before(before), spans.after(after)) < 0).astype(np.float64)


def case_of(outputs: Outputs, spans: Spans) -> WordCase | None:
    """Return the case of the words of `outputs`, None where they have no words."""
    return None if outputs.words is None else WordCase.of(outputs.words, spans.starts.tolist())


def _is_handle(sentence: Sequence[str], place: int) -> bool:
    before = sentence[place - 1] if place else ""
    return sentence[place].startswith(_HANDLE_MARKS) or before in _HANDLE_MARKS
