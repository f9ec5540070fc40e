"""What a pipeline says of tagged sentences whose entities have a score of their own: one record a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from knn_ue.calibrators import TaggedAnswer
from knn_ue.encoding import Example
from knn_ue.entities import EntityExplanation


@dataclass(frozen=True, kw_only=True)
class MissedWarning:
    """Words from `start` up to, not including, `end` that may hide an entity the model missed, and how likely."""

    text: str
    type: str
    start: int
    end: int
    score: float

    def __str__(self) -> str:
        return f"may have missed {self.type} {self.text!r} ({self.score:.2f})"


@dataclass(frozen=True, kw_only=True)
class SentenceExplanation:
    """One sentence: `score` is the probability that all its entities are right and none is missed.

    `none_missed` is the probability of the latter alone; `first` and `last` of an entity count its words.
    """

    text: str
    score: float
    none_missed: float
    entities: tuple[EntityExplanation, ...]
    missed: tuple[MissedWarning, ...]

    def __str__(self) -> str:
        lines = [self.text, f"all entities right and none missed: {self.score:.3f}", *map(str, self.missed)]
        return "\n".join(lines + [line for entity in self.entities for line in ("", str(entity))])


def explain_sentences(examples: Sequence[Example], answer: TaggedAnswer) -> list[SentenceExplanation]:
    """Return one record for each sentence, in order; one without words is right and hides nothing."""
    places = _places(examples)
    names = answer.reading.tags.names
    entities: dict[int, list[EntityExplanation]] = {}
    missed: dict[int, list[MissedWarning]] = {}
    for found in answer.explanations:
        number, offset = places[found.sentence]
        words = examples[number].parts[found.first - offset : found.last - offset + 1]
        own = replace(
            found, sentence=number, first=found.first - offset, last=found.last - offset, text=" ".join(words)
        )
        entities.setdefault(number, []).append(own)
    for hidden in answer.reading.missed:
        number, offset = places[hidden.sentence]
        start, end = hidden.first - offset, hidden.last - offset + 1
        text = " ".join(examples[number].parts[start:end])
        warning = MissedWarning(text=text, type=names[hidden.kind], start=start, end=end, score=hidden.probability)
        missed.setdefault(number, []).append(warning)
    scores = {number: place for place, (number, _) in enumerate(places)}
    reading = answer.reading
    return [
        SentenceExplanation(
            text=" ".join(example.parts),
            score=float(reading.sentence_scores[scores[number]]) if number in scores else 1.0,
            none_missed=float(reading.none_missed[scores[number]]) if number in scores else 1.0,
            entities=tuple(entities.get(number, ())),
            missed=tuple(missed.get(number, ())),
        )
        for number, example in enumerate(examples)
    ]


def sentence_fields(explained: SentenceExplanation) -> dict[str, Any]:
    """Return what the answer to a sentence holds beside its words and entities."""
    missed = [
        {"type": x.type, "text": x.text, "start": x.start, "end": x.end, "score": x.score} for x in explained.missed
    ]
    return {"score": explained.score, "none_missed": explained.none_missed, "missed": missed}


def _places(examples: Sequence[Example]) -> list[tuple[int, int]]:
    """Return the number and the first row of each sentence that has words."""
    places, row = [], 0
    for number, example in enumerate(examples):
        if example.parts:
            places.append((number, row))
        row += len(example.parts)
    return places
