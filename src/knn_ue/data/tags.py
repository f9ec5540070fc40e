"""Tag schemes: which one a file is written in, and its tags in IOB2.

IOB2 begins each entity with B. IOB1 begins one with I, and with B only where it touches another of its type. BIOES also
marks the last word (E) and the single word (S) of an entity; BILOU calls them L and U.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from knn_ue.arrays import check_choice
from knn_ue.data.lines import Place
from knn_ue.data.rows import TaggedRow
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import split_tag

TagScheme = Literal["auto", "iob1", "iob2", "bioes", "bilou"]

_PREFIXES = {"iob1": "OBI", "iob2": "OBI", "bioes": "OBIES", "bilou": "OBILU"}
_PAST_IOB = {"E": "bioes", "S": "bioes", "L": "bilou", "U": "bilou"}
_ANY_PREFIX = "BI" + "".join(_PAST_IOB)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and tags as the file has them, and the place of each token; no tags where the file is read unlabeled.

    `extra` holds the other fields of the row: its place, domain and sample weight.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    places: tuple[Place, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


def tagged_rows(
    read: Callable[[], Iterator[Sentence]], scheme: TagScheme = "auto", *, labeled: bool = True
) -> Iterator[TaggedRow]:
    """Yield the sentences with IOB2 tags; "auto" reads them all once before, to see the scheme."""
    if not labeled:
        for sentence in read():
            yield TaggedRow(sentence.tokens, **sentence.extra)
        return
    known = detect_scheme(read()) if scheme == "auto" else scheme
    for sentence in read():
        tags = convert_tags(sentence.tags, known, sentence.places) if sentence.tags else None
        yield TaggedRow(sentence.tokens, tags, **sentence.extra)


def is_tag(text: str) -> bool:
    """Say whether `text` is a tag of any scheme.

    >>> is_tag("B-PER"), is_tag("O"), is_tag("U-LOC"), is_tag("NNP"), is_tag("B-")
    (True, True, True, False, False)
    """
    return split_tag(text, _ANY_PREFIX) is not None


def detect_scheme(sentences: Iterable[Sentence]) -> TagScheme:
    """Return the one scheme in which every sentence is possible, as far as the tags tell."""
    orphan: tuple[Place, str] | None = None
    lone_begin = False
    for sentence in sentences:
        previous = None
        # A text whose entities are marked by place has no tags.
        for tag, place in zip(sentence.tags, sentence.places if sentence.tags else (), strict=True):
            prefix, kind = _parse(tag, place)
            if prefix in _PAST_IOB:
                return _PAST_IOB[prefix]  # type: ignore[return-value]
            if kind is not None and kind != previous:
                lone_begin |= prefix == "B"
                if prefix == "I" and orphan is None:
                    orphan = place, tag
            previous = kind
    if orphan and lone_begin:
        place, tag = orphan
        raise place.error(
            "an entity begins with I here (IOB1) but with B elsewhere (IOB2)",
            tag,
            "write B at the first word, or state the scheme 'iob1' to begin an entity here",
        )
    return "iob1" if orphan else "iob2"


def convert_tags(tags: Sequence[str], scheme: TagScheme, places: Sequence[Place] | None = None) -> tuple[str, ...]:
    """Return the tags of one sentence in IOB2; a sequence that `scheme` does not allow is an error at its place.

    >>> convert_tags(["I-PER", "I-PER", "B-PER", "O"], "iob1")
    ('B-PER', 'I-PER', 'B-PER', 'O')
    >>> convert_tags(["B-PER", "E-PER", "S-LOC"], "bioes")
    ('B-PER', 'I-PER', 'B-LOC')
    """
    check_choice(scheme, "scheme", get_args(TagScheme))
    if places is None:
        places = [Place("the tags", number, "token") for number in range(1, len(tags) + 1)]
    if scheme == "auto":
        scheme = detect_scheme([Sentence(tuple(tags), tuple(tags), tuple(places))])
    closes = scheme in ("bioes", "bilou")
    converted: list[str] = []
    opened: str | None = None  # the type of the entity that the next word may, or in BIOES must, continue
    for tag, place in zip(tags, places, strict=True):
        prefix, kind = _parse(tag, place)
        if prefix not in _PREFIXES[scheme]:
            raise place.error(f"tags of the scheme {scheme} begin with one of {_PREFIXES[scheme]}", tag, _STATE)
        continues = kind is not None and kind == opened and prefix not in "BSU"
        if not continues and prefix in "IEL" and scheme != "iob1":
            raise place.error(f"{tag} must continue an entity of its type ({scheme})", _pair(converted, tag), _STATE)
        if closes and opened is not None and not continues:
            raise _unclosed(opened, scheme, place, _pair(converted, tag))
        converted.append("O" if kind is None else tag.replace(prefix, "I" if continues else "B", 1))
        opened = kind if prefix in "BI" else None
    if closes and opened is not None:
        raise _unclosed(opened, scheme, places[-1], tags[-1])
    return tuple(converted)


_STATE = "correct the tag, or state the scheme the file is written in"


def _unclosed(kind: str, scheme: str, place: Place, value: str) -> InvalidInputError:
    last = "L" if scheme == "bilou" else "E"
    return place.error(f"an entity of type {kind!r} must end with {last} ({scheme})", value, _STATE)


def _pair(converted: list[str], tag: str) -> str:
    return f"{converted[-1]} {tag}" if converted else tag


def _parse(tag: str, place: Place) -> tuple[str, str | None]:
    """Return the prefix and the type; the type of O is None."""
    if (found := split_tag(tag, _ANY_PREFIX)) is None:
        raise place.error("a tag must be O, B-TYPE, I-TYPE (or E, S, L, U)", tag, "correct the tag")
    return found[0], None if tag == "O" else found[1]
