"""Answers and explanations that say how much their inputs are like the training data."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from knn_ue.answers import Answer, Entity, EntityExplanation, Explanation, SentenceAnswer, SentenceExplanation
from knn_ue.arrays import FloatArray, IntArray, check_positive
from knn_ue.calibrators.contract import Calibrator
from knn_ue.encoding import Example
from knn_ue.errors import InvalidInputError
from knn_ue.familiarity import ENTITIES, SENTENCES, Familiarity, span_means
from knn_ue.pipeline.entity_answers import explain_sentences
from knn_ue.types import Outputs

OfRow = TypeVar("OfRow", bound=Answer | Explanation)
OfEntity = TypeVar("OfEntity", Entity, EntityExplanation)
OfSentence = TypeVar("OfSentence", SentenceAnswer, SentenceExplanation)


def of_rows(records: Sequence[OfRow], outputs: Outputs, familiarity: Familiarity | None) -> list[OfRow]:
    """Return what is said of texts or pairs, with the p-values of their rows."""
    if familiarity is None:
        return list(records)
    found = _both(familiarity, familiarity.p_value(outputs))
    return [
        replace(record, familiarity=p_value, unfamiliar=unfamiliar)
        for record, (p_value, unfamiliar) in zip(records, found, strict=True)
    ]


def of_sentences(
    records: Sequence[OfSentence], outputs: Outputs, familiarity: Familiarity | None, sizes: Sequence[int]
) -> list[OfSentence]:
    """Return what is said of sentences of so many words, with their p-values; one without words has none.

    Their entities get p-values too, each among the entities predicted in the validation sentences.
    """
    if familiarity is None:
        return list(records)
    scores = familiarity.score(outputs)
    ends = np.array([*accumulate(sizes)], dtype=np.int64)
    starts = ends - np.array(sizes, dtype=np.int64)
    full = starts < ends
    found = iter(_of_spans(familiarity, scores, starts[full], ends[full], SENTENCES))
    spans = [(n + x.start, n + x.end) for n, record in zip(starts, records, strict=True) for x in record.entities]
    first, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    of_entities = iter(_of_spans(familiarity, scores, first, end, ENTITIES))
    changed = []
    for record, has_words in zip(records, full, strict=True):
        own: Any = tuple(_known(entity, *next(of_entities)) for entity in record.entities)
        p_value, unfamiliar = next(found) if has_words else (None, None)
        changed.append(replace(record, familiarity=p_value, unfamiliar=unfamiliar, entities=own))
    return changed


def explain_outputs(
    examples: Sequence[Example], outputs: Outputs, calibrator: Calibrator, familiarity: Familiarity | None, *, top: int
) -> list[Explanation] | list[SentenceExplanation]:
    """Return why each example, or each word, is as sure as it is; a record a sentence where entities are scored."""
    if not len(outputs):
        return []
    if calibrator.reads_entities:
        check_positive(top, "top")
        sentences = explain_sentences(examples, calibrator.answer(outputs, top=top))
        return of_sentences(sentences, outputs, familiarity, [len(example.parts) for example in examples])
    explained = calibrator.explain(outputs, top=top)
    return list(explained) if outputs.groups is not None else of_rows(explained, outputs, familiarity)


def check_explains(calibrator: Calibrator, method: str) -> None:
    """Raise unless the calibrator of a method gives reasons."""
    if not calibrator.explains:
        raise InvalidInputError(
            f"explain needs the method knn-ue, knn-ue-no-label or knn-ue-entity, this pipeline was fitted with "
            f"{method!r}: fit with one of them"
        )


def measurable(familiarity: Familiarity | None, *sets: Outputs) -> Familiarity | None:
    """Return the familiarity where all sets have the views it looks at: outputs made before may have none."""
    return familiarity if all(outputs.views is not None for outputs in sets) else None


def _known(entity: OfEntity, p_value: float, unfamiliar: bool) -> OfEntity:
    return replace(entity, familiarity=p_value, unfamiliar=unfamiliar)


def _of_spans(
    familiarity: Familiarity, scores: FloatArray, start: IntArray, end: IntArray, kind: str
) -> list[tuple[float, bool]]:
    if not len(start):
        return []
    return _both(familiarity, familiarity.p_value_of(span_means(scores, start, end), kind))


def _both(familiarity: Familiarity, p_values: FloatArray) -> list[tuple[float, bool]]:
    return list(zip(p_values.tolist(), familiarity.is_unfamiliar(p_values).tolist(), strict=True))
