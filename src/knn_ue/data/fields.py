"""One record of keys and values -> one row, every rule checked in one place for JSON, CSV and the hub."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from knn_ue.data.lines import Place
from knn_ue.data.rows import PairRow, TextRow

Record = Mapping[str, Any]


def text_row(record: Record, place: Place, *, labeled: bool) -> TextRow:
    """Return the text, label and votes of `record`."""
    text = _text(record, "text", place)
    if not labeled:
        return TextRow(text, **drawn_from(record, place, labeled=False))
    extra = drawn_from(record, place, labeled=True)
    return TextRow(text, _label(record, place), _label_counts(record, place), **extra)


def pair_row(record: Record, place: Place, *, labeled: bool) -> PairRow:
    """Return the two texts, label and votes of `record`."""
    premise, hypothesis = _text(record, "premise", place), _text(record, "hypothesis", place)
    if not labeled:
        return PairRow(premise, hypothesis, **drawn_from(record, place, labeled=False))
    extra = drawn_from(record, place, labeled=True)
    return PairRow(premise, hypothesis, _label(record, place), _label_counts(record, place), **extra)


def tokens_and_tags(record: Record, place: Place, *, labeled: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of `record` and as many tags (none unless `labeled`), the scheme of the tags unchecked."""
    tokens = _strings(record, "tokens", place)
    for number, token in enumerate(tokens, start=1):
        check_text(token, f"token {number}", place)
    if not labeled:
        return tokens, ()
    tags = _strings(record, "tags", place)
    if len(tokens) != len(tags):
        raise place.error(
            f"each token must have one tag, {len(tokens)} tokens do not go with {len(tags)} tags",
            tags,
            "align them one to one",
        )
    return tokens, tags


def drawn_from(record: Record, place: Place, *, labeled: bool) -> dict[str, Any]:
    """Return the optional keys: the `domain`, and with labels the `sample_weight`; empty ones are left out.

    A domain is a name: many files have a column of that name that holds something else, which is no error.
    """
    found: dict[str, Any] = {}
    if isinstance(record.get("domain"), str) and record["domain"].strip():
        found["domain"] = record["domain"].strip()
    weight = record.get("sample_weight") if labeled else None
    if weight not in (None, ""):
        try:
            found["sample_weight"] = float(weight)
        except (TypeError, ValueError):
            found["sample_weight"] = 0.0
        if isinstance(weight, bool) or not 0 < found["sample_weight"] < float("inf"):
            raise place.error("sample_weight must be a positive number", weight, "leave it out to count the row once")
    return found


def check_text(text: object, name: str, place: Place) -> str:
    """Return `text` if a tokenizer can read it."""
    if not isinstance(text, str):
        raise place.error(f"{name} must be a string", text, "put it in quotes")
    if not text.strip():
        raise place.error(f"{name} must not be empty", text, "fill it in or remove the row")
    if "\0" in text:
        raise place.error(f"{name} must not hold NUL characters", text, "remove them")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise place.error(
            f"{name} must be valid Unicode", text[error.start : error.end], "write both halves of the surrogate pair"
        ) from None
    return text


def _text(record: Record, key: str, place: Place) -> str:
    return check_text(_value(record, key, place), key, place)


def _label(record: Record, place: Place) -> str:
    label = _value(record, "label", place)
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if not isinstance(label, str):
        raise place.error("label must be a string or a whole number", label, "write its name, such as 'pos'")
    return check_text(label, "label", place)


def _label_counts(record: Record, place: Place) -> Mapping[str, int] | None:
    counts = record.get("label_counts")
    if isinstance(counts, str):  # a table has no other way to write them
        counts = _json_of(counts)
    if counts is None:
        return None
    if not isinstance(counts, Mapping) or not all(_is_count(count) for count in counts.values()):
        raise place.error(
            "label_counts must give a whole number of at least 0 for each label", counts, 'write {"pos": 3, "neg": 1}'
        )
    if not sum(counts.values()):
        raise place.error("label_counts must hold at least one vote", counts, "leave the key out")
    return dict(counts)


def _json_of(text: str) -> Any:
    """Return what a field of a table says as JSON, None where it is empty, and the text where it is no JSON."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_count(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and count >= 0


def _strings(record: Record, key: str, place: Place) -> tuple[str, ...]:
    values = _value(record, key, place)
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise place.error(f"{key} must be a list of strings", values, "write one string for each word")
    if not values:
        raise place.error(f"{key} must not be empty", values, "fill it in or remove the row")
    for value in values:
        if not isinstance(value, str):
            raise place.error(f"{key} must be a list of strings", value, "write one string for each word")
    return tuple(values)


def _value(record: Record, key: str, place: Place) -> Any:
    if record.get(key) is None:
        rule = f"{key} must not be null" if key in record else f"the key {key!r} is missing"
        raise place.error(rule, sorted(map(str, record)), "add it, remove the row, or check the task")
    return record[key]
