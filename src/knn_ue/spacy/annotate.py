"""Docs that a pipeline has read -> confidence of their entities, with the reasons."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knn_ue.answers import EntityExplanation
from knn_ue.arrays import FloatArray, IntArray
from knn_ue.entities import Spans
from knn_ue.pipeline.fitted import Fitted, closeness, shown_neighbors
from knn_ue.spacy.attributes import AttributeNames
from knn_ue.spacy.encoder import SpacyEncoder
from knn_ue.types import Neighbors, Outputs


def annotate(docs: Sequence[Any], encoder: SpacyEncoder, fitted: Fitted, names: AttributeNames, *, top: int) -> None:
    """Set the attributes of the docs and of their entities; nothing else of a doc changes."""
    from spacy.tokens import Span

    filled = [doc for doc in docs if len(doc)]
    for doc in docs:
        doc._.set(names.confidence, 1.0)
        names.set_missed(doc, ())
    if not filled:
        return
    outputs = encoder.outputs(filled)
    found = fitted.calibrator.search(outputs)
    answer = fitted.calibrator.answer(outputs, top=top, found=found)
    first_words = np.cumsum([0, *(len(doc) for doc in filled)])
    familiar = _familiarity(fitted, answer.reading.spans, found)
    for place, why in enumerate(answer.explanations):
        doc, offset = _doc_of(why.start, first_words, filled)
        span = Span(doc, why.start - offset, why.end - offset)
        _set_entity(span, why, names)
        span._.set(names.familiar, None if familiar is None else float(familiar[place]))
    for doc, score in zip(filled, _doc_scores(answer.reading.sentence_scores, outputs, first_words), strict=True):
        doc._.set(names.confidence, score)
    missed: dict[int, list[tuple[int, int, str, float]]] = {}
    for hidden in answer.reading.missed:
        number = int(np.searchsorted(first_words, hidden.first, side="right")) - 1
        offset = int(first_words[number])
        kind = answer.reading.tags.names[hidden.kind]
        words = (hidden.first - offset, hidden.last - offset + 1)
        missed.setdefault(number, []).append((*words, kind, float(hidden.probability)))
    for number, spans in missed.items():
        names.set_missed(filled[number], spans)


def _familiarity(fitted: Fitted, spans: Spans, found: Mapping[str, Neighbors]) -> FloatArray | None:
    """Return for each entity the share of validation words that are at least as far from their neighbors as its
    farthest word is; None where the validation set was not measured."""
    neighbors = shown_neighbors(found)
    if fitted.drift is None or neighbors is None:
        return None
    distance, _ = closeness(neighbors, np.zeros(len(neighbors), dtype=np.int64))
    farthest = -spans.lowest(-distance)
    below: FloatArray = np.searchsorted(fitted.drift.distance, farthest, side="left") / len(fitted.drift.distance)
    return 1.0 - below


def _set_entity(span: Any, why: EntityExplanation, names: AttributeNames) -> None:
    span._.set(names.confidence, float(why.score))
    span._.set(names.raised_by, list(why.raised_by))
    span._.set(names.lowered_by, list(why.lowered_by))
    span._.set(names.neighbors, [near.to_dict() for near in why.neighbors])


def _doc_of(row: int, first_words: IntArray, docs: Sequence[Any]) -> tuple[Any, int]:
    number = int(np.searchsorted(first_words, row, side="right")) - 1
    return docs[number], int(first_words[number])


def _doc_scores(scores: Any, outputs: Outputs, first_words: IntArray) -> list[float]:
    """Return for each doc the probability that all its sentences are all right, taken as independent."""
    assert outputs.groups is not None  # the encoder sets them
    sentences = outputs.groups[first_words[:-1]]
    ends = np.append(sentences[1:], len(scores))
    return [float(np.prod(scores[a:b])) for a, b in zip(sentences.tolist(), ends.tolist(), strict=True)]
