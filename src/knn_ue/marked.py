"""Entities as tools write them down -> where they stand in the words of a sentence.

An entity is `{"text": "Ada Lovelace", "type": "PER"}`, which stands wherever its words do, `{"start": 0, "end": 2,
"type": "PER"}`, or `{"start_char": 0, "end_char": 12, "type": "PER"}`; `label` may stand for `type`, and `confidence`
or `score` may say how sure the model was. `start` and `end` count words where words were given, characters where a text
was; `end` is not included. All entities may also be one object of lists, `{"PER": ["Ada Lovelace"]}`, or a list of IOB2
tags, one per word.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import extract_entities, split_tag

Places = Sequence[tuple[int, int]]  # where each word stands in its text
_WORD = re.compile(r"\w+|[^\w\s]")
_EDGE = re.compile(r"\w")


@dataclass(frozen=True, kw_only=True)
class Marked:
    """The words from `first` to `last`, both inside, that were called `kind`, and how sure the model was, if it said.

    Entities of one sentence are in order, and none overlaps another: of two that do, the surer or the longer stands.
    """

    kind: str
    first: int
    last: int
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was said of one sentence: the entities that were found in it, and those that were not."""

    found: tuple[Marked, ...]
    not_found: tuple[str, ...] = ()

    def tags(self, n_words: int) -> tuple[str, ...]:
        """Return an IOB2 tag per word."""
        tags = ["O"] * n_words
        for one in self.found:
            tags[one.first : one.last + 1] = [f"B-{one.kind}", *[f"I-{one.kind}"] * (one.last - one.first)]
        return tuple(tags)


def split_text(text: str) -> tuple[tuple[int, int], ...]:
    """Return where the words of a text stand: runs of letters and digits, and each other mark by itself.

    >>> split_text("Ada's cat.")
    ((0, 3), (3, 4), (4, 5), (6, 9), (9, 10))
    """
    return tuple(found.span() for found in _WORD.finditer(text))


def read_marked(
    entities: object,
    words: Sequence[str],
    row: str,
    *,
    text: str | None = None,
    places: Places | None = None,
    confidence: float | None = None,
) -> Answer:
    """Return where entities stand in `words`, which stand at `places` of `text` where a text was given.

    `row` is what errors call it; `confidence` is that of entities that have none of their own.

    >>> read_marked([{"text": "Ada", "type": "PER"}], ["Ada", "met", "Ada"], "row 0").tags(3)
    ('B-PER', 'O', 'B-PER')
    >>> read_marked({"PER": ["Alan"]}, ["Ada", "met", "Ada"], "row 0").not_found
    ('Alan',)
    """
    if isinstance(entities, str):
        entities = _json_of(entities, row)
    if entities is None or (isinstance(entities, float) and math.isnan(entities)):
        return Answer(found=())
    if isinstance(entities, Mapping):
        listed: object = [
            {"text": each, "type": kind}
            for kind, many in entities.items()
            for each in ([many] if isinstance(many, str) else many or [])
        ]
    else:
        listed = entities.tolist() if hasattr(entities, "tolist") else entities
    if not isinstance(listed, (list, tuple)):
        raise InvalidInputError(f"the answer of {row} must be a list of entities or tags, got {str(listed)[:40]!r}")
    if listed and all(isinstance(each, str) for each in listed):
        return _of_tags(list(listed), words, row, confidence)
    spans = places if text is not None and places is not None else _word_places(words)
    joined = " ".join(words) if text is None else text
    found: list[Marked] = []
    missing: list[str] = []
    for entity in listed:
        own = list(_places(entity, spans, joined, row, in_words=text is None))
        found += [replace(one, confidence=confidence) if one.confidence is None else one for one in own]
        if not own and isinstance(entity, Mapping):
            missing.append(str(entity.get("text") or "")[:80])
    return Answer(found=_without_overlaps(found), not_found=tuple(missing))


def _of_tags(tags: Sequence[str], words: Sequence[str], row: str, confidence: float | None) -> Answer:
    if len(tags) != len(words):
        raise InvalidInputError(f"{row} has {len(words)} words but {len(tags)} tags as its answer: give one per word")
    other = next((tag for tag in tags if split_tag(tag) is None), None)
    if other is not None:
        raise InvalidInputError(
            f"the answer of {row} has the tag {other!r}, which is not IOB2: write O, B-TYPE, I-TYPE"
        )
    found = extract_entities(tags)
    return Answer(found=tuple(Marked(kind=k, first=x, last=y, confidence=confidence) for k, x, y in found))


def _places(entity: object, spans: Places, text: str, row: str, *, in_words: bool) -> Iterator[Marked]:
    """Yield where one entity stands; nothing where it does not."""
    if not isinstance(entity, Mapping):
        raise InvalidInputError(
            f'an entity of {row} must be {{"text", "type"}} or {{"start", "end", "type"}}, got {str(entity)[:40]!r}'
        )
    kind = str(entity.get("type") or entity.get("label") or "").strip()
    if not kind:
        raise InvalidInputError(f"an entity of {row} has no type, got {str(dict(entity))[:60]!r}: add its type")
    sure = _confidence(entity, row)
    if "start_char" in entity or ("start" in entity and not in_words):
        start, end = (
            _number(entity, key, row) for key in (("start_char", "end_char") if "start_char" in entity else _ENDS)
        )
        yield from _covering(spans, start, end, kind, sure)
    elif "start" in entity:
        first, after = (_number(entity, key, row) for key in _ENDS)
        if 0 <= first < after <= len(spans):
            yield Marked(kind=kind, first=first, last=after - 1, confidence=sure)
    else:
        wanted = " ".join(str(entity.get("text") or "").split())
        for start, end in _whole_words(wanted, text):
            yield from _covering(spans, start, end, kind, sure)


_ENDS = ("start", "end")


def _covering(spans: Places, start: int, end: int, kind: str, sure: float | None) -> Iterator[Marked]:
    """Yield the words that characters touch, if there are some."""
    inside = [number for number, (first, after) in enumerate(spans) if first < end and after > start]
    if inside and 0 <= start < end:
        yield Marked(kind=kind, first=inside[0], last=inside[-1], confidence=sure)


def _whole_words(wanted: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a string stands in a text with no letter or digit right beside it; case counts only if it helps.

    White space is all alike, and around marks it may be there or not.
    """
    if not wanted:
        return
    parts = _WORD.findall(wanted)
    pattern = re.escape(parts[0])
    for one, other in pairwise(parts):
        gap = r"\s+" if _EDGE.match(one) and _EDGE.match(other) else r"\s*"
        pattern += gap + re.escape(other)
    before = r"(?<!\w)" if _EDGE.match(wanted[0]) else ""
    after = r"(?!\w)" if _EDGE.match(wanted[-1]) else ""
    for flags in (re.NOFLAG, re.IGNORECASE):
        places = [found.span() for found in re.finditer(before + pattern + after, text, flags)]
        if places:
            yield from places
            return


def _without_overlaps(found: Sequence[Marked]) -> tuple[Marked, ...]:
    order = sorted(found, key=lambda one: (-(one.confidence or 0.0), one.first - one.last, one.first))
    kept: list[Marked] = []
    taken: set[int] = set()
    for one in order:
        words = set(range(one.first, one.last + 1))
        if not words & taken:
            kept.append(one)
            taken |= words
    return tuple(sorted(kept, key=lambda one: one.first))


def _word_places(words: Sequence[str]) -> Places:
    """Return where words stand in the text that spaces join them to."""
    places, start = [], 0
    for word in words:
        places.append((start, start + len(word)))
        start += len(word) + 1
    return places


def _confidence(entity: Mapping[str, Any], row: str) -> float | None:
    value = entity.get("confidence", entity.get("score"))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInputError(
            f"the confidence of an entity of {row} must lie within 0 and 1, got {str(value)[:20]}: write 0.95 for 95 %"
        )
    return float(value)


def _number(entity: Mapping[str, Any], key: str, row: str) -> int:
    value = entity.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
        raise InvalidInputError(f"{key} of an entity of {row} must be a whole number, got {str(value)[:20]!r}")
    return int(value)


def _json_of(text: str, row: str) -> object:
    """Return what a table's field says, None where it is empty."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError(
            f"the answer of {row} must be a JSON list of entities or tags, got {text[:40]!r}: write "
            '[{"text": ..., "type": ...}]'
        ) from None
