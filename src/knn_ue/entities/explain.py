"""Why an entity is as sure as it is: what each ingredient adds, and the training examples behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray, softmax
from knn_ue.entities.evidence import INGREDIENTS
from knn_ue.entities.model import EntityModel, SentenceReading
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import ExplainedNeighbor, TextsOf, nearest_examples

_NOTABLE = 0.25  # log-odds: less than this is not worth a word
_WORDS = {
    "type": ("a clear type", "an unclear type"),
    "link": ("a clear start and end", "an unclear start or end"),
    "beside": ("clear words beside it", "a word beside it that may be part of an entity"),
    "apart": ("no other entity at its ends", "another entity right beside it"),
    "distance": ("closer training examples than usual", "more distant training examples than usual"),
    "agreement": ("neighbors of its type", "neighbors of other types"),
    "company": ("clear entities in its sentence", "unclear entities in its sentence"),
}


@dataclass(frozen=True, kw_only=True)
class EntityExplanation:
    """One entity, rows `first` to `last`: `score` is the probability that its type and its span are right.

    `raw_confidence` is the product of its words' softmax. `terms` says what each ingredient adds to the log-odds of
    an ordinary entity. `neighbors` are the training examples nearest to its first word.
    """

    type: str
    first: int
    last: int
    sentence: int
    raw_confidence: float
    score: float
    terms: Mapping[str, float]
    raised_by: tuple[str, ...]
    lowered_by: tuple[str, ...]
    neighbors: tuple[ExplainedNeighbor, ...]
    text: str | None

    def __str__(self) -> str:
        lines = [f"{self.type}: {self.raw_confidence:.3f} -> {self.score:.3f}"]
        lines[0] += f" ({', '.join(f'{name} {term:+.2f}' for name, term in self.terms.items())})"
        if self.text is not None:
            lines.insert(0, self.text)
        for verb, reasons in (("raised", self.raised_by), ("lowered", self.lowered_by)):
            if reasons:
                lines.append(f"  {verb} by {'; '.join(reasons)}")
        lines += [near.line() for near in self.neighbors]
        return "\n".join(lines)


def explain_entities(
    model: EntityModel,
    outputs: Outputs,
    reading: SentenceReading,
    neighbors: Neighbors,
    texts_of: TextsOf,
    *,
    top: int,
) -> list[EntityExplanation]:
    """Return an explanation of each entity in `reading`, made of `outputs` and the `neighbors` of every word.

    `texts_of` is asked once, for the neighbors of all entities.
    """
    terms = model.entity.terms(reading.evidence.values)
    raw = softmax(outputs.logits).max(axis=1)
    names: Sequence[str] = outputs.class_names or ()
    spans = reading.spans
    rows = zip(spans.kind.tolist(), spans.first.tolist(), spans.last.tolist(), spans.sentence.tolist(), strict=True)
    first_words = outputs.predicted[spans.first]
    shown = nearest_examples(neighbors.take(spans.first), first_words, texts_of, names=names, top=top)
    explained = []
    for place, (kind, first, last, sentence) in enumerate(rows):
        raised, lowered = _reasons(terms[place])
        explained.append(
            EntityExplanation(
                type=reading.tags.names[kind],
                first=first,
                last=last,
                sentence=sentence,
                raw_confidence=float(np.prod(raw[first : last + 1])),
                score=float(reading.scores[place]),
                terms=dict(zip(INGREDIENTS, terms[place].tolist(), strict=True)),
                raised_by=raised,
                lowered_by=lowered,
                neighbors=shown[place],
                text=None if outputs.texts is None else outputs.texts[first],
            )
        )
    return explained


def _reasons(terms: FloatArray) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name what notably raises and what lowers the score, the strongest first."""
    order = np.argsort(-np.abs(terms), kind="stable").tolist()
    raised = [_WORDS[INGREDIENTS[i]][0] for i in order if terms[i] > _NOTABLE]
    lowered = [_WORDS[INGREDIENTS[i]][1] for i in order if terms[i] < -_NOTABLE]
    return tuple(raised), tuple(lowered)
