"""IOB2 tags and the entities they mark: the one reader for training, metrics, entities and pipeline.

A tag is "O", or "B" or "I" followed by nothing or by "-TYPE". A bare "B" or "I" marks an entity without a type, which
is called "_" as in seqeval. "B-" is no tag: its type is missing. A *tag set* is a set of class names that are all tags
and of which at least one is not "O": `["O", "B", "I"]` is one, `["O"]` marks no entities and is none.

B begins an entity, and so does an I that continues nothing: one at the start of a sentence, after "O", or after another
type. This is seqeval's default mode.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import BoolArray, IntArray
from knn_ue.errors import InvalidInputError

NO_TYPE = "_"

Tags = Sequence[str] | npt.NDArray[np.str_]


def is_tag_set(class_names: Iterable[str]) -> bool:
    """Say whether the classes of a tagger are IOB2 tags; those of a part-of-speech tagger, say, are not.

    >>> [is_tag_set(names) for names in (["O", "B-PER", "I-PER"], ["O", "B", "I"], ["O"], ["NOUN", "VERB"])]
    [True, True, False, False]
    """
    names = list(class_names)
    return all(split_tag(name) is not None for name in names) and any(name != "O" for name in names)


def split_tag(tag: object, prefixes: str = "BI") -> tuple[str, str] | None:
    """Return the prefix and the type of a tag, None where it is no tag; "O" has no type, a bare "B" has "_".

    `prefixes` are those of the scheme; "O" belongs to every scheme.

    >>> split_tag("B-PER"), split_tag("I"), split_tag("O"), split_tag("B-"), split_tag("U-LOC", prefixes="BILU")
    (('B', 'PER'), ('I', '_'), ('O', ''), None, ('U', 'LOC'))
    """
    if not isinstance(tag, str):
        return None
    if tag == "O":
        return "O", ""
    prefix, dash, kind = tag.partition("-")
    if prefix not in tuple(prefixes) or bool(dash) != bool(kind):
        return None
    return prefix, kind or NO_TYPE


def parse_tag(tag: object) -> tuple[str, str]:
    """Return the prefix ("O", "B" or "I") and the type of a tag; raise where it is not IOB2."""
    if (found := split_tag(tag)) is None:
        raise InvalidInputError(f"tags must be O, B-TYPE or I-TYPE (IOB2), got {tag!r}: convert the tags first")
    return found


def extract_entities(tags: Tags) -> list[tuple[str, int, int]]:
    """Return the (type, first, last) of each entity in the tags of one sentence; `last` is inside the entity.

    >>> extract_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 4)]
    """
    names, (spans,) = find_spans([one_sentence(tags)], np.zeros(1, dtype=np.int64))
    return [(names[kind], first, last) for kind, first, last in spans.T.tolist()]


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


def same_spans(spans: IntArray, others: IntArray, *, n_words: int) -> BoolArray:
    """Return for each of the (3, m) `spans` whether `others`, over the same `n_words` words, holds it too."""
    expected = np.full((3, n_words), -1)
    expected[:, others[1]] = others
    same: BoolArray = (expected[:, spans[1]] == spans).all(axis=0)
    return same


def one_sentence(tags: Tags) -> list[str]:
    """Return the tags of one sentence as a list."""
    if isinstance(tags, str):
        raise InvalidInputError(f"the tags of a sentence must be a list of strings, got {tags!r}: split it")
    return tags.tolist() if isinstance(tags, np.ndarray) else list(tags)


def _spans(inside: BoolArray, begins: BoolArray, kind: IntArray) -> IntArray:
    continues = inside & ~begins
    continues[1:] &= inside[:-1] & (kind[1:] == kind[:-1])
    first = np.flatnonzero(inside & ~continues)
    last = np.flatnonzero(inside & ~np.append(continues[1:], False)[: len(inside)])
    return np.stack((kind[first], first, last))
