"""Records of any source -> rows: every rule is checked here, for files, frames and data sets alike."""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from knn_ue.data.columns import proposal
from knn_ue.data.faults import OnError, UnlabeledError, stop
from knn_ue.data.lines import RAISE_WORDS, Limits, Place, default_limits
from knn_ue.data.rows import PairRow, Row, RowT, TextRow
from knn_ue.data.tags import Sentence, TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import GIVEN_KEYS, TASKS, Task

Record = Mapping[str, Any]
_DEEPEST = 100  # lists and objects in a field that is passed on


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of one record by our keys, checked when asked for; `columns` names those that are called otherwise."""

    record: Record
    place: Place
    columns: Mapping[str, str]

    def value(self, key: str) -> Any:
        """Return what must not be missing."""
        column = self.columns.get(key, key)
        if self.record.get(column) is not None:
            return self.record[column]
        names = sorted(map(str, self.record))
        if column in self.record:
            raise self.place.error(f"{column} must not be null", None, "fill it in, or remove the row")
        python, shell = proposal([key], names)
        said = "add it, check the task, or "
        raise self.place.error(f"the key {column!r} is missing", names, said + python, shell=said + shell)

    def text(self, key: str) -> str:
        """Return a text that a tokenizer can read."""
        return check_text(self.value(key), self.columns.get(key, key), self.place)


def tokens_and_tags(fields: Fields, *, labeled: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of a record and as many tags (none unless `labeled`), the scheme of the tags unchecked."""
    place = fields.place
    tokens = _strings(fields, "tokens")
    for number, token in enumerate(tokens, start=1):
        check_text(token, f"token {number}", place)
    if not labeled:
        return tokens, ()
    tags = _strings(fields, "tags")
    if len(tokens) != len(tags):
        raise place.error(
            f"each token must have one tag, {len(tokens)} tokens do not go with {len(tags)} tags",
            tags,
            "align them one to one",
        )
    return tokens, tags


def given_of(record: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what a record says of an answer that some model gave, as it is; None where it says nothing.

    >>> given_of({"text": "a", "Reply": "yes", "confidence": 0.9}, {"answer": "Reply"})
    {'answer': 'yes', 'confidence': 0.9}
    """
    named = {key: columns.get(key, key) for key in GIVEN_KEYS}
    return {key: record[column] for key, column in named.items() if column in record} or None


def origin_of(
    record: Record, place: Place, *, labeled: bool, extra: Record | None, columns: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return what a row knows beside its content: its place, the columns that are passed on, and the optional keys.

    Those are the `domain` and, with labels, the `sample_weight`; empty ones are left out. A domain is a name: many
    files have a column of that name that holds something else, which is no error.
    """
    found: dict[str, Any] = {"place": place, "extra": extra, "given": given_of(record, columns or {})}
    document = record.get("document")
    if isinstance(document, (str, int)) and document != "" and "document" not in (columns or {}).values():
        found["document"] = str(document)
    if isinstance(record.get("domain"), str) and record["domain"].strip():
        found["domain"] = record["domain"].strip()
    weight = record.get("sample_weight") if labeled else None
    if weight not in (None, ""):
        try:
            found["sample_weight"] = float(weight)
        except (OverflowError, TypeError, ValueError):
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


def _label(fields: Fields) -> str:
    name = fields.columns.get("label", "label")
    if name in fields.record and _is_empty(fields.record[name]):
        value = fields.record[name]
        rule, way_out = ("null", "fill it in, or remove") if value is None else ("empty", "fill it in or remove")
        error = fields.place.error(f"{name} must not be {rule}", value, f"{way_out} the row")
        raise UnlabeledError(str(error), shell=error.shell)
    label = fields.value("label")
    if isinstance(label, Integral) and not isinstance(label, bool):
        return str(label)
    if (
        isinstance(label, (float, np.floating)) and float(label).is_integer()
    ):  # as pandas reads numbers where a value is missing
        return str(int(label))
    if not isinstance(label, str):
        way_out = "write 1 and 0, or names" if type(label).__name__.startswith("bool") else "write its name"
        raise fields.place.error(f"{name} must be a string or a whole number", label, f"{way_out}, such as 'pos'")
    return check_text(label, name, fields.place)


def _is_empty(value: object) -> bool:
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or (isinstance(value, str) and not value.strip())


def _label_counts(counts: object, place: Place) -> Mapping[str, int] | None:
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


def _strings(fields: Fields, key: str) -> tuple[str, ...]:
    values, name, place = fields.value(key), fields.columns.get(key, key), fields.place
    if hasattr(values, "tolist"):  # an array, as frames hold lists
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise place.error(f"{name} must be a list of strings", values, "write one string for each word")
    if not values:
        raise place.error(f"{name} must not be empty", values, "fill it in or remove the row")
    for value in values:
        if not isinstance(value, str):
            raise place.error(f"{name} must be a list of strings", value, "write one string for each word")
    return tuple(values)


Records = Iterable[tuple[Place, Record]]
OPTIONAL = ("label_counts", "domain", "sample_weight")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows are read; see `knn_ue.data.read_rows`. With `extras` a row keeps the columns that are not ours.

    `columns` holds the names of those that are not called as our keys.
    """

    task: Task
    labeled: bool = True
    scheme: TagScheme = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=default_limits)
    extras: bool = False
    on_error: OnError = stop

    def needed(self, names: Container[str]) -> dict[str, str]:
        """Return the column of each key that a row must have; `names` are the columns there are.

        A tagger reads texts too, where there are no words or the user names the column of texts; labeled ones have
        their entities in `label`.
        """
        keys = TASKS[self.task].keys(labeled=self.labeled)
        if TASKS[self.task].is_tagging:
            text, tokens = self.columns.get("text", "text"), self.columns.get("tokens", "tokens")
            instead = text in names and tokens not in names
            if self.labeled:
                instead &= self.columns.get("label", "label") in names
            keys = (("text", "label") if self.labeled else ("text",)) if instead or "text" in self.columns else keys
        return {key: self.columns.get(key, key) for key in keys}

    def wanted(self, names: Container[str]) -> list[str]:
        """Return the columns that are read where not all of them are."""
        given = [self.columns.get(key, key) for key in GIVEN_KEYS]
        return [*self.needed(names).values(), *OPTIONAL, *given]

    def rows(self, records: Callable[[], Records]) -> Iterator[Row]:
        """Yield a row for each record; `records` is called twice where the scheme of tags must be found first."""
        if TASKS[self.task].is_tagging:
            return tagged_rows(lambda: self._sentences(records()), self.scheme, labeled=self.labeled)
        return self._plain_rows(records())

    def _plain_rows(self, records: Records) -> Iterator[Row]:
        task = TASKS[self.task]
        for place, record in records:
            fields = Fields(record, place, self.columns)
            try:
                values: dict[str, Any] = {key: fields.text(key) for key in task.input_keys}
                values |= origin_of(
                    record, place, labeled=self.labeled, extra=self._extra(record, place), columns=self.columns
                )
                if self.labeled:
                    values["label"] = _label(fields)
                    if record.get("label_counts") is not None:
                        values["label_counts"] = _label_counts(record["label_counts"], place)
            except InvalidInputError as error:
                self.on_error(error)
                continue
            yield PairRow(**values) if task.is_pair else TextRow(**values)

    def _sentences(self, records: Records) -> Iterator[Sentence]:
        for place, record in records:
            try:
                fields = Fields(record, place, self.columns)
                extra = self._extra(record, place)
                origin = origin_of(record, place, labeled=self.labeled, extra=extra, columns=self.columns)
                tokens, tags = self._tokens_and_tags(fields, origin)
            except InvalidInputError as error:
                self.on_error(error)
                continue
            yield Sentence(tokens, tags, (place,) * len(tokens), origin)

    def _tokens_and_tags(self, fields: Fields, origin: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens and tags of a record; where it has a text in place of words, `origin` gets it."""
        if "text" not in self.needed(fields.record):
            self.check_words(fields.record.get(self.columns.get("tokens", "tokens")), fields.place)
            return tokens_and_tags(fields, labeled=self.labeled)
        origin["raw_text"] = fields.text("text")
        if self.labeled:
            origin["given"] = {**(origin["given"] or {}), "label": fields.value("label")}
        tokens = tuple(origin["raw_text"].split())
        self.check_words(tokens, fields.place)
        return tokens, ()

    def check_words(self, words: object, place: Place) -> None:
        """Raise where a sentence is longer than the limit."""
        if isinstance(words, (list, tuple)) and len(words) > self.limits.sentence_words:
            raise place.error(self.limits.words_rule, len(words), RAISE_WORDS.python, shell=RAISE_WORDS.shell)

    def _extra(self, record: Record, place: Place) -> dict[str, Any] | None:
        if not self.extras:
            return None
        label = TASKS[self.task].label_key
        inputs = set(self.needed(record).values()) - {self.columns.get(label, label)}
        extra = {str(name): value for name, value in record.items() if name not in inputs}
        for name, value in extra.items():
            if _is_deeper(value, _DEEPEST):
                rule = f"a field may hold lists and objects {_DEEPEST} deep at most"
                raise place.error(rule, name, "simplify the field, or leave it out")
        return extra


def _is_deeper(value: object, depth: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(depth == 0 or _is_deeper(one, depth - 1) for one in inside)


def at_least_one(rows: Iterator[RowT], source: str) -> Iterator[RowT]:
    """Pass `rows` on; raise at the end where there was none."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InvalidInputError(f"{source} is empty: at least one row is needed")
