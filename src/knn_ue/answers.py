"""What users are given, defined once: Python, `knn-ue predict`, `explain --json`, the server and its page share it.

`to_dict()` is the one JSON shape. A field without a default is always in it; one with a default only where it has a
value. To give answers something new, add a field with a default here: every reader of this file then knows it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

import numpy as np

from knn_ue.arrays import IntArray
from knn_ue.reasons import familiarity_sentence, percent, sentences
from knn_ue.shown import facts_html, on_one_line, table_html, text_html, visible
from knn_ue.types import Neighbors

_SHOWN_ANSWERS = 50  # in a notebook
TextsOf = Callable[[IntArray], list[str | None]]  # ids -> the text stored with each


class Plain:
    """A record that becomes plain JSON by the rule of this file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as dicts, lists, strings, numbers, booleans and None."""
        found = ((field, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return {field.name: _plain(value) for field, value in found if value is not None or field.default is MISSING}

    def _repr_html_(self) -> str:
        return text_html(str(self))


@dataclass(frozen=True, kw_only=True)
class NeighborExample(Plain):
    """A training example near the input; `agrees` says whether it has the predicted label.

    `given` is what the judged model had answered there, where answers were given with the rows.
    """

    id: int
    label: str
    distance: float
    text: str | None
    agrees: bool
    given: str | None = None

    def line(self) -> str:
        """Return it as a line of a list."""
        mark = "agrees " if self.agrees else "differs"
        said = "" if self.given in (None, self.label) else f" (the model said {self.given})"
        shown = on_one_line(self.text) if self.text else f"id {self.id}"
        return f"  {mark} {self.distance:8.3f}  {self.label}{said}  {shown}"


@dataclass(frozen=True, kw_only=True)
class Answer(Plain):
    """The answer to a text or pair: the label, the calibrated score and the model's own (`raw_score`).

    `familiarity` is the share of validation inputs at least as unlike the training data; where that is at or below the
    false-alarm rate of the fit, the input is `unfamiliar`. Both are None where the encoder has no views.
    Where `abstained`, the label is None and `would_be` is the label it would have been. `decisions` holds the fields
    that other decisions add (see `knn_ue.decisions`). `set` holds the labels among which the right one is, where a
    coverage was promised; it may be empty, or hold every label. `domain` is the domain whose scale the score has; None
    where there is none. `probabilities` are those of the `top_k` most likely labels, where they were asked for.
    `alternatives` are those of the likeliest labels beside a given answer, by the verifier; `suggested` is the first of
    them where it is likelier than the answer, if suggestions were asked for; `raw_score` is None where the model that
    gave the answer did not say how sure it was.
    """

    label: str | None
    score: float
    raw_score: float | None
    abstained: bool
    would_be: str | None = None
    probabilities: Mapping[str, float] | None = None
    alternatives: Mapping[str, float] | None = None
    suggested: str | None = None
    set: tuple[str, ...] | None = None
    decisions: Mapping[str, Any] | None = None
    domain: str | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    neighbors: tuple[NeighborExample, ...]

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"label": _label(self.label, self.would_be)}
        facts |= {"score": f"{self.score:.3f}", "raw score": _raw(self.raw_score)}
        facts |= {f"probability of {name}": f"{value:.3f}" for name, value in (self.probabilities or {}).items()}
        if self.familiarity is not None:
            facts["familiarity"] = f"{self.familiarity:.2g}{' (unfamiliar)' if self.unfamiliar else ''}"
        if self.set is not None:
            facts["set of labels"] = ", ".join(self.set) or "empty: no label is likely enough"
        facts |= self.decisions or {}
        return facts_html("Answer", facts) + _neighbors_html(self.neighbors)


@dataclass(frozen=True, kw_only=True)
class Word(Plain):
    """A word of a tagged sentence and its tag."""

    word: str
    tag: str | None
    score: float
    raw_score: float
    abstained: bool
    would_be: str | None = None
    probabilities: Mapping[str, float] | None = None
    decisions: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Entity(Plain):
    """An entity: the words from `start` up to, not including, `end`.

    Where a text was given, not words, it stands at the characters from `start_char` up to, not including, `end_char`.
    With the method knn-ue-entity `score` is the probability that type and span are right, and `raised_by` and
    `lowered_by` give the reasons. With any other method it is the product over the words, and there are no reasons.
    `neighbors` are those of the first word. `familiarity` compares it with the entities predicted in the validation
    sentences. `raw_score` is None where the model that marked it did not say how sure it was.
    """

    type: str | None
    text: str
    start: int
    end: int
    score: float
    raw_score: float | None
    abstained: bool
    would_be: str | None = None
    decisions: Mapping[str, Any] | None = None
    start_char: int | None = None
    end_char: int | None = None
    raised_by: tuple[str, ...] | None = None
    lowered_by: tuple[str, ...] | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    neighbors: tuple[NeighborExample, ...]


@dataclass(frozen=True, kw_only=True)
class MissedEntity(Plain):
    """Words from `start` up to, not including, `end` that may hide an entity the model missed, and how likely."""

    type: str
    text: str
    start: int
    end: int
    score: float
    start_char: int | None = None
    end_char: int | None = None

    def __str__(self) -> str:
        return f"may have missed {self.type} {self.text!r} ({percent(self.score)})"


@dataclass(frozen=True, kw_only=True)
class SentenceAnswer(Plain):
    """The answer to a tagged sentence; `score`, `none_missed` and `missed` are set by the method knn-ue-entity only.

    `score` is the probability that all entities are right and none is missed, `none_missed` that of the latter.
    """

    words: tuple[Word, ...]
    entities: tuple[Entity, ...]
    score: float | None = None
    none_missed: float | None = None
    missed: tuple[MissedEntity, ...] | None = None
    domain: str | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None

    def _repr_html_(self) -> str:
        lines = [
            (_label(entity.type, entity.would_be), entity.text, f"{entity.score:.3f}", _raw(entity.raw_score))
            for entity in self.entities
        ]
        lines += [
            (f"{each.type}?", f"may be missed: {each.text}", f"{each.score:.3f}", "") for each in self.missed or ()
        ]
        whole = "" if self.score is None else f"all entities right and none missed: {self.score:.3f}"
        sentence = text_html(" ".join(word.word for word in self.words))
        return sentence + table_html(["entity", "words", "score", "raw score"], lines, caption=whole)


AnyAnswer = Answer | SentenceAnswer
_Item = TypeVar("_Item", bound=Plain)


class AnswerList(list[_Item]):
    """Answers or explanations in the order of the inputs: a list that is a table in a notebook."""

    def _repr_html_(self) -> str:
        shown = self[:_SHOWN_ANSWERS]
        more = f"<p>... and {len(self) - len(shown)} more</p>" if len(self) > len(shown) else ""
        answers = [each for each in shown if isinstance(each, Answer)]
        if len(shown) < 2 or len(answers) < len(shown):
            return "".join(each._repr_html_() for each in shown) + more
        lines = [
            (
                _label(each.label, each.would_be),
                f"{each.score:.3f}",
                _raw(each.raw_score),
                "" if each.familiarity is None else f"{each.familiarity:.2g}",
                (each.neighbors[0].text or f"id {each.neighbors[0].id}") if each.neighbors else "",
            )
            for each in answers
        ]
        return table_html(["label", "score", "raw score", "familiarity", "nearest example"], lines) + more


@dataclass(frozen=True, kw_only=True)
class Explanation(Plain):
    """Why one text, or one word, has the score it has.

    `weight` multiplies the logits; it is the sum of `distance_term` and `label_term`, which are compared with their
    medians on validation (`usual_...`). All are None where the method has none. `usual_score` is what the input would
    score in a typical neighborhood: from `raw_score` to it, calibration does the same to every input; from it to
    `score`, this neighborhood decides. `n_agreeing` of the `n_neighbors` nearest examples have the predicted label;
    where another label is more common among them, it is `majority_label`, of `n_majority` examples. `familiarity` and
    `unfamiliar` are as in `Answer`; words have none. `adapted_to` is the domain whose scale the score has, if any.
    `base_score` is the share of right answers among the labeled ones, where the answer was given with the row; then
    `raw_score` is None where the model that gave it did not say how sure it was.
    Where a verifier stands beside the model, `unverified_score` is the score without it, and `verifier` what it would
    answer itself: the probabilities of its likeliest label and of the model's.
    """

    text: str | None
    label: str
    score: float
    raw_score: float | None
    weight: float | None
    distance_term: float | None
    label_term: float | None
    usual_distance_term: float | None
    usual_label_term: float | None
    n_agreeing: int | None
    n_neighbors: int
    raised_by: tuple[str, ...]
    lowered_by: tuple[str, ...]
    usual_weight: float | None = None
    usual_score: float | None = None
    usual_n_agreeing: int | None = None
    majority_label: str | None = None
    n_majority: int | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    adapted_to: str | None = None
    base_score: float | None = None
    unverified_score: float | None = None
    verifier: dict[str, float] | None = None
    neighbors: tuple[NeighborExample, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON, with the sentences that are printed, `in_words`, by what they are about."""
        return super().to_dict() | {"in_words": sentences(self)}

    def __str__(self) -> str:
        return visible("\n".join([*self._lines(), *_near(self.neighbors)]))

    def _repr_html_(self) -> str:
        return text_html("\n".join(self._lines())) + _neighbors_html(self.neighbors)

    def _lines(self) -> list[str]:
        said = sentences(self)
        known = said.pop("familiarity", None)
        lines = [] if self.text is None else [on_one_line(self.text)]
        lines += [known] if known else []
        before = self.raw_score if self.base_score is None else self.base_score
        lines.append(f"{self.label}: {percent(before or 0.0)} -> {percent(self.score)}")
        return lines + [f"  {sentence}" for sentence in said.values()]


@dataclass(frozen=True, kw_only=True)
class EntityExplanation(Plain):
    """Why one entity, the words from `start` up to, not including, `end`, has the score it has.

    `score` is the probability that its type and its span are right, `raw_score` the product of its words' softmax.
    `terms` holds what each ingredient adds to the log-odds of an ordinary entity. `neighbors` are the training
    examples nearest to its first word.
    """

    type: str
    text: str | None
    start: int
    end: int
    sentence: int
    score: float
    raw_score: float | None
    terms: Mapping[str, float]
    raised_by: tuple[str, ...]
    lowered_by: tuple[str, ...]
    start_char: int | None = None
    end_char: int | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    neighbors: tuple[NeighborExample, ...]

    def __str__(self) -> str:
        terms = ", ".join(f"{name} {term:+.2f}" for name, term in self.terms.items())
        before = "" if self.raw_score is None else f"{percent(self.raw_score)} -> "
        lines = [f"{self.type}: {before}{percent(self.score)} ({terms})"]
        lines = [*_familiarity_lines(self.familiarity, self.unfamiliar), *lines]
        if self.text is not None:
            lines.insert(0, on_one_line(self.text))
        return visible("\n".join([*lines, *_reason_lines(self.raised_by, self.lowered_by), *_near(self.neighbors)]))


@dataclass(frozen=True, kw_only=True)
class SentenceExplanation(Plain):
    """Why one sentence has the score it has: its entities, and what the model may have missed."""

    text: str
    score: float
    none_missed: float
    entities: tuple[EntityExplanation, ...]
    missed: tuple[MissedEntity, ...]
    familiarity: float | None = None
    unfamiliar: bool | None = None
    adapted_to: str | None = None

    def __str__(self) -> str:
        known = _familiarity_lines(self.familiarity, self.unfamiliar, self.adapted_to)
        lines = [
            on_one_line(self.text),
            *known,
            f"all entities right and none missed: {percent(self.score)}",
            *map(str, self.missed),
        ]
        return "\n".join(lines + [line for entity in self.entities for line in ("", str(entity))])


def class_name(names: Sequence[str], label: int) -> str:
    """Return the name of a stored label, which may be none of the model's."""
    return names[label] if label < len(names) else f"class {label}"


def nearest_examples(
    neighbors: Neighbors, predicted: IntArray, texts_of: TextsOf, *, names: Sequence[str], top: int
) -> list[tuple[NeighborExample, ...]]:
    """Return the `top` nearest stored examples of each row, and whether they carry its `predicted` class (n,)."""
    ids, labels, distances = neighbors.ids[:, :top], neighbors.labels[:, :top], neighbors.distances[:, :top]
    rows, places = np.nonzero(ids >= 0)
    texts = texts_of(ids[rows, places]) if len(rows) else []
    shown: list[list[NeighborExample]] = [[] for _ in range(len(neighbors))]
    for row, place, text in zip(rows.tolist(), places.tolist(), texts, strict=True):
        label = int(labels[row, place])
        near = NeighborExample(
            id=int(ids[row, place]),
            label=class_name(names, label),
            distance=float(distances[row, place]),
            agrees=label == int(predicted[row]),
            text=text,
        )
        shown[row].append(near)
    return [tuple(near) for near in shown]


def _familiarity_lines(familiarity: float | None, unfamiliar: bool | None, adapted_to: str | None = None) -> list[str]:
    sentence = familiarity_sentence(familiarity, unfamiliar, adapted_to)
    return [sentence] if sentence else []


def _plain(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def _reason_lines(raised_by: tuple[str, ...], lowered_by: tuple[str, ...]) -> list[str]:
    reasons = (("raised", raised_by), ("lowered", lowered_by))
    return [f"  {verb} by {'; '.join(found)}" for verb, found in reasons if found]


def _raw(score: float | None) -> str:
    return "not stated" if score is None else f"{score:.3f}"


def _label(label: str | None, would_be: str | None) -> str:
    return f"none: abstained (would be {would_be})" if label is None else label


def _neighbors_html(neighbors: tuple[NeighborExample, ...]) -> str:
    if not neighbors:
        return ""
    lines = [
        (f"{near.distance:.3f}", near.label, "yes" if near.agrees else "no", near.text or f"id {near.id}")
        for near in neighbors
    ]
    return table_html(["distance", "label", "agrees", "training example"], lines, caption="Nearest training examples")


def _near(neighbors: tuple[NeighborExample, ...]) -> list[str]:
    return [near.line() for near in neighbors]
