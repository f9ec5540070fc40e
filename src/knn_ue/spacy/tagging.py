"""spaCy's entities <-> the classes of a tagger: types are mapped, spans become IOB2 class numbers of words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.spacy.lattice import Belief

_ENOUGH = 3
_LEAST = 1e-9  # a probability of zero has no logarithm


@dataclass(frozen=True, kw_only=True)
class TypeMap:
    """Which types of the pipeline are which `types` of the labeled data; a type that is in neither is not scored.

    >>> TypeMap(types=("LOC", "PER"), renamed={"PERSON": "PER", "GPE": "LOC"}).class_names
    ('O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER')
    """

    types: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def between(cls, predicted: Iterable[str], labeled: Iterable[str], renamed: Mapping[str, str]) -> "TypeMap":
        """Return the map of the types that are both predicted, after renaming, and labeled."""
        predicted, labeled = set(predicted), set(labeled)
        if unknown := sorted(set(renamed) - predicted):
            raise InvalidInputError(
                f"a type to map must be one that the pipeline predicts ({', '.join(sorted(predicted))}), got "
                f"{', '.join(unknown)}: correct the map"
            )
        types = tuple(sorted({renamed.get(kind, kind) for kind in predicted} & labeled))
        if not types:
            raise InvalidInputError(
                f"the pipeline predicts {', '.join(sorted(predicted)) or 'no types'} and the data is labeled with "
                f"{', '.join(sorted(labeled)) or 'no types'}, which have none in common: map them, such as PERSON=PER"
            )
        return cls(types=types, renamed=dict(renamed))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The IOB2 classes, "O" first."""
        return ("O", *(f"{prefix}-{kind}" for kind in self.types for prefix in "BI"))

    def number_of(self, label: str, *, of_data: bool = False) -> int | None:
        """Return the number of the type that a label means, None where it is not scored."""
        name = label if of_data else self.renamed.get(label, label)
        return self.types.index(name) if name in self.types else None

    def classes(self, n_words: int, spans: Iterable[tuple[int, int, str]], *, of_data: bool = False) -> IntArray:
        """Return the class (n_words,) of each word, given (first word, word after the last, label) of each entity."""
        found = np.zeros(n_words, dtype=np.int64)
        for start, end, label in spans:
            number = self.number_of(label, of_data=of_data)
            if number is not None:
                found[start] = 1 + 2 * number
                found[start + 1 : end] = 2 + 2 * number
        return found

    def logits(self, belief: Belief) -> FloatArray:
        """Return the logarithm (n, classes) of the probability of each class; what is not scored is "O"."""
        columns = [belief.outside.copy(), *(np.zeros(len(belief.outside)) for _ in self.class_names[1:])]
        for place, label in enumerate(belief.types):
            number = self.number_of(label)
            first, second = (0, 0) if number is None else (1 + 2 * number, 2 + 2 * number)
            columns[first] += belief.begins[:, place]
            columns[second] += belief.continues[:, place]
        logits: FloatArray = np.log(np.maximum(np.column_stack(columns), _LEAST))
        return logits


def proposed_map(
    docs: Iterable[tuple[Iterable[tuple[int, int, str]], Iterable[tuple[int, int, str]]]],
) -> dict[str, str]:
    """Return what types that the data does not have are mostly called there, given (predicted, labeled) of each doc.

    Entities are compared where both have the same words; fewer than three of a type say nothing.

    >>> proposed_map([([(0, 1, "GPE")], [(0, 1, "LOC")])] * 3)
    {'GPE': 'LOC'}
    """
    both: dict[str, Counter[str]] = {}
    names: set[str] = set()
    for predicted, labeled in docs:
        gold = {(start, end): label for start, end, label in labeled}
        names |= set(gold.values())
        for start, end, label in predicted:
            if (start, end) in gold:
                both.setdefault(label, Counter())[gold[start, end]] += 1
    found = {}
    for label, counts in sorted(both.items()):
        name, n_same = counts.most_common(1)[0]
        if label not in names and n_same >= _ENOUGH and 2 * n_same > counts.total():
            found[label] = name
    return found


def spans_of(spans: Sequence[Any]) -> list[tuple[int, int, str]]:
    """Return (first word, word after the last, label) of spaCy spans."""
    return [(span.start, span.end, span.label_) for span in spans]


def sentence_groups(docs: Sequence[Any], classes: IntArray) -> IntArray:
    """Return the number (n,) of the sentence of each word, over all docs; an entity is never cut in two.

    A doc whose sentences are not known is one sentence. `classes` (n,) are those of the words.
    """
    starts = []
    for doc in docs:
        opens = np.zeros(len(doc), dtype=bool)
        if doc.has_annotation("SENT_START"):
            opens |= doc.to_array("SENT_START") == 1
        opens[:1] = True
        starts.append(opens)
    opens = np.concatenate(starts) if starts else np.zeros(0, dtype=bool)
    first_words = np.concatenate([[0], np.cumsum([len(doc) for doc in docs])])[:-1].astype(np.int64)
    inside = (classes > 0) & (classes % 2 == 0)
    opens &= ~inside
    opens[first_words[first_words < len(opens)]] = True
    groups: IntArray = np.cumsum(opens) - 1
    return groups
