"""Where the entities of tagged sentences are: flat arrays over all words of all sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import find_spans, is_tag_set, parse_tag
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class TagSet:
    """IOB2 classes: the type of each as a number (n_classes,), -1 for "O"; `names` are the types' names.

    `begins` and `continues` (n_classes,) mark the B- and the I- classes.
    """

    names: tuple[str, ...]
    kind: IntArray
    begins: BoolArray
    continues: BoolArray

    @classmethod
    def of(cls, class_names: Sequence[str]) -> "TagSet":
        """Read the names of a tagger's classes.

        >>> TagSet.of(["O", "B-PER", "I-PER", "B-LOC"]).kind
        array([-1,  0,  0,  1])
        """
        parsed = [parse_tag(name) for name in class_names]
        names = tuple(dict.fromkeys(kind for prefix, kind in parsed if prefix != "O"))
        kinds = [-1 if prefix == "O" else names.index(kind) for prefix, kind in parsed]
        prefixes = np.array([prefix for prefix, _ in parsed])
        return cls(
            names=names,
            kind=np.array(kinds, dtype=np.int64),
            begins=prefixes == "B",
            continues=prefixes == "I",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Spans:
    """m entities in n words: `kind` (m,) numbers a type, `first` and `last` (m,) are rows, both inside the entity.

    `starts` (sentences,) are the rows where a sentence begins, `n_words` is n.
    """

    kind: IntArray
    first: IntArray
    last: IntArray
    starts: IntArray
    n_words: int

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def sentence(self) -> IntArray:
        """The place among `starts` of the sentence of each entity (m,)."""
        places: IntArray = np.searchsorted(self.starts, self.first, side="right") - 1
        return places

    @cached_property
    def sentence_of_word(self) -> IntArray:
        """The place among `starts` of the sentence of each word (n,)."""
        places: IntArray = np.searchsorted(self.starts, np.arange(self.n_words), side="right") - 1
        return places

    @cached_property
    def covered(self) -> BoolArray:
        """Which words (n,) lie inside an entity."""
        return self.touching(np.ones(len(self), dtype=bool))

    @cached_property
    def next_to_one(self) -> BoolArray:
        """Which words (n,) stand right before or after an entity of their sentence."""
        beside = np.zeros(self.n_words, dtype=bool)
        same = self.sentence_of_word[1:] == self.sentence_of_word[:-1]
        beside[1:] |= self.covered[:-1] & same
        beside[:-1] |= self.covered[1:] & same
        return beside

    def touching(self, chosen: BoolArray) -> BoolArray:
        """Return which words (n,) lie inside one of the `chosen` (m,) entities."""
        steps = np.zeros(self.n_words + 1, dtype=np.int64)
        steps[self.first[chosen]] += 1
        np.subtract.at(steps, self.last[chosen] + 1, 1)
        return np.cumsum(steps)[:-1] > 0

    def lowest(self, values: FloatArray) -> FloatArray:
        """Return the least of `values` (n,) in each entity (m,)."""
        if not len(self):
            return np.zeros(0)
        # reduceat needs every bound inside the array; the padding only ever ends an entity.
        bounds = np.stack((self.first, self.last + 1), axis=1).ravel()
        lowest: FloatArray = np.minimum.reduceat(np.append(values, np.inf), bounds)[::2]
        return lowest

    def before(self, values: FloatArray) -> FloatArray:
        """Return `values` (n,) at the word before each entity (m,), inf where a sentence begins with it."""
        return np.where(self._opens[self.first], np.inf, values[self.first - 1])

    def after(self, values: FloatArray) -> FloatArray:
        """Return `values` (n,) at the word after each entity (m,), inf where a sentence ends with it."""
        return np.where(self._opens[self.last + 1], np.inf, np.append(values, np.inf)[self.last + 1])

    @cached_property
    def _opens(self) -> BoolArray:
        opens = np.zeros(self.n_words + 1, dtype=bool)
        opens[self.starts] = opens[-1] = True
        return opens

    def same_in(self, other: "Spans") -> BoolArray:
        """Return for each entity (m,) whether `other` holds one with the same type, first and last word."""
        expected = np.full((2, self.n_words), -1)
        expected[:, other.first] = other.kind, other.last
        same: BoolArray = (expected[:, self.first] == (self.kind, self.last)).all(axis=0)
        return same


def is_tagged(outputs: Outputs) -> bool:
    """Say whether the rows are words of sentences and the classes IOB2 tags."""
    return outputs.groups is not None and outputs.class_names is not None and is_tag_set(outputs.class_names)


def find_entities(outputs: Outputs, classes: IntArray) -> Spans:
    """Return the entities that `classes` (n,), one class number a word, mark in the sentences of `outputs`."""
    if outputs.groups is None or outputs.class_names is None or not is_tagged(outputs):
        raise InvalidInputError(
            "entities need Outputs with groups and IOB2 class_names such as O, B-PER, I-PER: "
            "pass Outputs(groups=..., class_names=...)"
        )
    tags = TagSet.of(outputs.class_names)
    starts = np.flatnonzero(np.diff(outputs.groups, prepend=-1))
    names, (found,) = find_spans([[outputs.class_names[number] for number in classes.tolist()]], starts)
    number = np.array([tags.names.index(name) if name in tags.names else -1 for name in names], dtype=np.int64)
    return Spans(kind=number[found[0]], first=found[1], last=found[2], starts=starts, n_words=len(outputs))
