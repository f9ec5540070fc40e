"""Why an entity is as sure as it is: what each ingredient adds, and the training examples behind it."""

from collections.abc import Sequence

import numpy as np

from knn_ue.answers import EntityExplanation, NeighborExample, TextsOf, nearest_examples
from knn_ue.arrays import FloatArray, softmax
from knn_ue.entities.model import EntityModel, SentenceReading
from knn_ue.types import Neighbors, Outputs

_NOTABLE = 0.25  # log-odds: less than this is not worth a word
_WORDS = {
    "type": ("a clear type", "an unclear type"),
    "link": ("a clear start and end", "an unclear start or end"),
    "beside": ("clear words beside it", "a word beside it that may be part of an entity"),
    "apart": ("no other entity at its ends", "another entity right beside it"),
    "distance": ("closer training examples than usual", "more distant training examples than usual"),
    "agreement": ("neighbors of its type", "neighbors of other types"),
    "company": ("clear entities in its sentence", "unclear entities in its sentence"),
    "small_end": ("no lower-case word at its ends", "begins or ends in a lower-case word"),
    "capital_beside": ("no capitalized word beside it", "a capitalized word, @ or # stands right beside it"),
}


def explain_entities(
    model: EntityModel,
    outputs: Outputs,
    reading: SentenceReading,
    neighbors: Neighbors | None,
    texts_of: TextsOf | None,
    *,
    top: int,
) -> list[EntityExplanation]:
    """Return an explanation of each entity in `reading`, made of `outputs` and the `neighbors` of every word.

    `texts_of` is asked once, for the neighbors of all entities; both are None where nothing is stored.
    """
    terms = model.entity.terms(model.columns(reading.evidence))
    raw = softmax(outputs.logits).max(axis=1)
    names: Sequence[str] = outputs.class_names or ()
    spans = reading.spans
    rows = zip(spans.kind.tolist(), spans.first.tolist(), spans.last.tolist(), spans.sentence.tolist(), strict=True)
    shown: list[tuple[NeighborExample, ...]] = [()] * len(spans)
    if neighbors is not None and texts_of is not None:
        first_words = outputs.predicted[spans.first]
        shown = nearest_examples(neighbors.take(spans.first), first_words, texts_of, names=names, top=top)
    explained = []
    for place, (kind, first, last, sentence) in enumerate(rows):
        raised, lowered = _reasons(model.ingredients, terms[place])
        explained.append(
            EntityExplanation(
                type=reading.tags.names[kind],
                start=first,
                end=last + 1,
                sentence=sentence,
                raw_score=float(np.prod(raw[first : last + 1])),
                score=float(reading.scores[place]),
                terms=dict(zip(model.ingredients, terms[place].tolist(), strict=True)),
                raised_by=raised,
                lowered_by=lowered,
                neighbors=shown[place],
                text=None if outputs.texts is None else outputs.texts[first],
            )
        )
    return explained


def _reasons(names: Sequence[str], terms: FloatArray) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name what notably raises and what lowers the score, the strongest first."""
    order = np.argsort(-np.abs(terms), kind="stable").tolist()
    raised = [_WORDS[names[i]][0] for i in order if terms[i] > _NOTABLE]
    lowered = [_WORDS[names[i]][1] for i in order if terms[i] < -_NOTABLE]
    return tuple(raised), tuple(lowered)
