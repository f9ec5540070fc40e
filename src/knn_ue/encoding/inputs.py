"""Rows of any accepted shape -> `Example`, and label names -> class numbers.

| task                 | a row may be                                                              |
|----------------------|---------------------------------------------------------------------------|
| text-classification  | a string; `{"text", "label"}`; an object with `text` and `label`          |
| text-pair            | a (premise, hypothesis) tuple or list; a dict or object with those names  |
| token-classification | a list of words; `{"tokens", "tags"}`; a string or `{"text"}`, see `WordsOf` |

Labels and tags may be left out; the entities of a text to tag may be its `label` (see `knn_ue.marked`). A label is
looked up by its name; where the model has no names of its own (`LABEL_0`, `LABEL_1`, ...), or all labels are numbers
and no class is called by one, it is the number of a class. Half a surrogate pair, which is no character, becomes
U+FFFD.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from knn_ue.arrays import IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.folder.tensors import valid_unicode
from knn_ue.marked import read_marked
from knn_ue.tasks import GIVEN_KEYS, TASKS, Task

# Batches that are read and answered at a time: enough rows to sort by length, few enough that memory stays flat.
WINDOW_BATCHES = 32

_SHOWN_NAMES = 12
_WINDOW_CHARACTERS = 1 << 22


@dataclass(frozen=True, slots=True)
class RawText:
    """A text as it was given, and its words: the first character of each, and the one after its last."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[start:end] for start, end in self.spans)


WordsOf = Callable[[str], RawText]  # how a tagger splits a text into words; `Encoder.words_of` is the model's own way


def split_words(text: str) -> RawText:
    """Split a text at white space.

    >>> split_words("Ada  wrote.").spans
    ((0, 3), (5, 11))
    """
    return RawText(text, tuple(found.span() for found in re.finditer(r"\S+", text)))


@dataclass(frozen=True, slots=True)
class Example:
    """One row, ready to be tokenized: `parts` is (text,), (premise, hypothesis) or the words of a sentence.

    `labels` is None, (label,) or one tag per word. `domain` names the domain whose scores it asks for; `sample_weight`
    is what its label counts where rows were drawn unevenly; `place` is where it was read. The model sees none of them.
    `raw` is the text that the words of a sentence were taken from, None where words were given. `given` is what the row
    says of an answer that another model gave, unchecked (see `knn_ue.encoding.given`), `document` where it is from.
    """

    parts: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    domain: str | None = field(default=None, repr=False)
    sample_weight: float | None = field(default=None, repr=False)
    place: object = field(default=None, compare=False, repr=False)
    raw: RawText | None = field(default=None, compare=False, repr=False)
    given: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    document: str | None = field(default=None, compare=False, repr=False)

    def named(self, number: int) -> str:
        """Return what messages call it: its place where it was read from a file, else its number."""
        return f"row {number}" if self.place is None else str(self.place)

    def text_of(self, start: int = 0, end: int | None = None) -> str:
        """Return the words from `start` up to, not including, `end` as they were written."""
        if self.raw is None:
            return " ".join(self.parts[start:end])
        if start == 0 and end is None:
            return self.raw.text
        first, last = self.characters_of(start, len(self.parts) if end is None else end)
        return self.raw.text[first:last]

    def characters_of(self, start: int, end: int) -> tuple[int, int] | tuple[None, None]:
        """Return where these words stand in the text that was given, end not included; None where words were."""
        return (None, None) if self.raw is None else (self.raw.spans[start][0], self.raw.spans[end - 1][1])


def read_examples(rows: Iterable[object], task: Task, *, words_of: WordsOf = split_words) -> Iterator[Example]:
    """Yield every row as an example; what is an example already is passed on."""
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise InvalidInputError(f"rows must be a list of rows, got one {type(rows).__name__}: wrap it in a list")
    for number, row in enumerate(rows):
        yield row if isinstance(row, Example) else read_example(row, task, number, words_of=words_of)


class WindowCounter:
    """Says where windows end: after `WINDOW_BATCHES` batches, earlier where texts are very long.

    A bound on what is held at once. Rows of one window share batches: answered in other company, the last digits of
    their scores may differ.
    """

    def __init__(self, *, batch_size: int) -> None:
        self._most_rows = batch_size * WINDOW_BATCHES
        self._n_rows, self._room = 0, _WINDOW_CHARACTERS

    def ends_with(self, example: Example) -> bool:
        """Count the next example, and say whether it is the last of its window."""
        self._n_rows += 1
        self._room -= sum(map(len, example.parts))
        ends = self._n_rows == self._most_rows or self._room < 0
        if ends:
            self._n_rows, self._room = 0, _WINDOW_CHARACTERS
        return ends


def windows(examples: Iterable[Example], *, batch_size: int) -> Iterator[list[Example]]:
    """Yield the examples of one window at a time."""
    counter = WindowCounter(batch_size=batch_size)
    window: list[Example] = []
    for example in examples:
        window.append(example)
        if counter.ends_with(example):
            yield window
            window = []
    if window:
        yield window


def read_example(row: object, task: Task, number: int = 0, *, words_of: WordsOf = split_words) -> Example:
    """Read one row of any accepted shape; `number` is its place, for messages, `words_of` splits texts to tag.

    >>> read_example({"text": "fine", "label": "good"}, "text-classification")
    Example(parts=('fine',), labels=('good',))
    >>> read_example(("A man sleeps.", "He is awake."), "text-pair")
    Example(parts=('A man sleeps.', 'He is awake.'), labels=None)
    """
    if isinstance(row, Example):
        return row
    record = TASKS[task]
    raw = None
    if record.is_tagging and (text := _raw_text(row)) is not None:
        raw = words_of(valid_unicode(text))
    content, labels = _content(row, task) if raw is None else raw.words, None
    if raw is not None:
        labels = _marked_labels(row, raw, number)
    elif content is not None:
        labels = _read_labels(row, task, number)
    if content is None and (content := _bare_content(row, task)) is None:
        raise InvalidInputError(
            f"row {number} must be {record.example} for {task}, got {_shown(row)}: convert or drop it"
        )
    for value in content:
        if not isinstance(value, str):
            raise InvalidInputError(f"row {number} must hold text, got {_shown(value)}: convert it to a string")
    parts = tuple(valid_unicode(str(value)) for value in content)
    if record.is_tagging and labels is not None and len(labels) != len(parts):
        raise InvalidInputError(
            f"row {number} has {len(parts)} words but {len(labels)} tags: give each word exactly one tag"
        )
    place = None if isinstance(row, Mapping) else getattr(row, "place", None)
    domain, weight = _field(row, "domain"), _field(row, "sample_weight")
    named = domain if isinstance(domain, str) and domain else None
    read_weight = None if weight is None else _read_weight(weight, number)
    document = _field(row, "document")
    from_document = str(document) if isinstance(document, (str, int)) else None
    return Example(parts, labels, named, read_weight, place, raw, _given(row), from_document)


def all_labeled(examples: Sequence[Example], *, start: int = 0, expected: bool | None = None) -> bool:
    """Return whether the examples have labels; all must, or none. `expected` is what earlier examples had."""
    for number, example in enumerate(examples, start=start):
        found = example.labels is not None
        if expected is None:
            expected = found
        elif found != expected:
            raise InvalidInputError(
                f"{example.named(number)} has {'a' if found else 'no'} label, unlike the rows before it: "
                "label every row or no row"
            )
    return bool(expected)


def class_numbers(examples: Sequence[Example], class_names: Sequence[str], *, start: int = 0) -> IntArray:
    """Return the class number of every label, in order; all examples must have labels.

    >>> class_numbers([Example(("fine",), ("good",))], ["bad", "good"])
    array([1])
    """
    known = {name: number for number, name in enumerate(class_names)}
    # A table with a gap makes floats of its numbers, so "1.0" may well be the label "1".
    values: dict[int | None, int] = {_whole_number(name): number for name, number in known.items()}
    values.pop(None, None)
    numbered = reads_numbers(examples, class_names)
    if numbered:
        values = {number: number for number in range(len(class_names))}
    numbers: list[int] = []
    for row, example in enumerate(examples, start=start):
        for label in example.labels or ():
            number = known.get(label)
            if number is None:  # most labels are names: only the others are read as numbers
                number = values.get(_whole_number(label))
            if number is None:
                first = "" if example.place else " (the first row is 0)"
                said = _unknown_number(class_names) if numbered else _unknown_label(label, class_names)
                raise InvalidInputError(f"{example.named(row)} has the label {str(label)[:80]!r}, {said}{first}")
            numbers.append(number)
    return np.asarray(numbers, dtype=np.int64)


def _unknown_label(label: str, class_names: Sequence[str]) -> str:
    shown = ", ".join(class_names[:_SHOWN_NAMES]) + (", ..." if len(class_names) > _SHOWN_NAMES else "")
    meant = label.strip().casefold()
    alike = next((name for name in class_names if name.strip().casefold() == meant), None)
    way_out = f"write {alike!r}, as the model does" if alike else "correct the row"
    return (
        f"which the model does not know; its {len(class_names)} labels are: {shown}: {way_out}, "
        "or train with that label"
    )


def _unknown_number(class_names: Sequence[str]) -> str:
    last = len(class_names) - 1
    return (
        f"but labels that are numbers must be class numbers from 0 ({class_names[0]}) to {last} ({class_names[last]}): "
        "count from 0, or write the names"
    )


def reads_numbers(examples: Sequence[Example], class_names: Sequence[str]) -> bool:
    """Say whether the labels are numbers of the model's own label order: all of them are, and no class is so named.

    >>> reads_numbers([Example(("fine",), ("1",))], ["neg", "pos"]), reads_numbers([Example(("fine",), ("1",))], ["1"])
    (True, False)
    """
    used = {label for example in examples for label in example.labels or ()}
    named = any(_whole_number(name) is not None for name in class_names)
    return bool(used) and not named and all(_whole_number(label) is not None for label in used)


def _whole_number(text: str) -> int | None:
    """Return the number that a text writes, with or without zeros behind the point.

    >>> _whole_number("1"), _whole_number("1.0"), _whole_number("1.5"), _whole_number("one")
    (1, 1, None, None)
    """
    found = re.fullmatch(r"(-?[0-9]{1,9})(?:\.0+)?", text.strip(), flags=re.ASCII)
    return int(found[1]) if found else None


def _field(row: object, name: str) -> object:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def _given(row: object) -> Mapping[str, Any] | None:
    """Return what a row says of an answer that another model gave; None where it says nothing."""
    if isinstance(row, Mapping):
        return {key: row[key] for key in GIVEN_KEYS if key in row} or None
    found = getattr(row, "given", None)
    return found if isinstance(found, Mapping) else None


def _read_weight(weight: object, number: int) -> float:
    if (
        isinstance(weight, bool)
        or not isinstance(weight, (int, float, np.integer, np.floating))
        or not 0 < weight < float("inf")
    ):
        raise InvalidInputError(f"the sample_weight of row {number} must be a positive number, got {_shown(weight)}")
    return float(weight)


def _content(row: object, task: Task) -> Sequence[object] | None:
    fields = [_field(row, name) for name in TASKS[task].input_keys]
    if any(value is None for value in fields):
        return None
    if not TASKS[task].is_tagging:
        return fields
    (words,) = fields
    return list(words) if isinstance(words, Iterable) and not isinstance(words, (str, Mapping)) else None


def _raw_text(row: object) -> str | None:
    """Return the text to tag where a row holds one in place of words."""
    text: object = row
    if isinstance(row, Mapping):
        text = None if row.get("tokens") is not None or row.get("tags") is not None else row.get("text")
    elif not isinstance(row, str):
        text = getattr(row, "raw_text", None)
    return text if isinstance(text, str) else None


def _bare_content(row: object, task: Task) -> Sequence[object] | None:
    record = TASKS[task]
    if isinstance(row, str) and not record.is_pair:
        return [row]
    if not isinstance(row, (list, tuple)):
        return None
    return row if record.is_tagging or (record.is_pair and len(row) == 2) else None


def _read_labels(row: object, task: Task, number: int) -> tuple[str, ...] | None:
    tagging = TASKS[task].is_tagging
    value = _field(row, TASKS[task].label_key)
    if value is None:
        return None
    if tagging and (isinstance(value, str) or not isinstance(value, Iterable)):
        raise InvalidInputError(f"row {number} must have a list of tags, got {_shown(value)}")
    labels: list[str] = []
    for label in value if isinstance(value, Iterable) and tagging else [value]:
        if isinstance(label, bool) or not isinstance(label, (str, Integral)):
            raise InvalidInputError(f"row {number} must have a label that is a string or number, got {_shown(label)}")
        labels.append(str(label))
    return tuple(labels)


def _marked_labels(row: object, raw: RawText, number: int) -> tuple[str, ...] | None:
    """Return the tags of a text whose entities are marked in its `label`; None where it has none."""
    given = getattr(row, "given", None)
    marked = (given or {}).get("label") if not isinstance(row, Mapping) else row.get("label")
    if marked is None or (isinstance(marked, str) and not marked.lstrip().startswith(("[", "{"))):
        return None  # no entities: the label of another task
    answer = read_marked(marked, raw.words, f"row {number}", text=raw.text, places=raw.spans)
    if answer.not_found:
        raise InvalidInputError(
            f"the label of row {number} has {answer.not_found[0]!r}, which is not in its text: correct the row"
        )
    return answer.tags(len(raw.spans))


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
