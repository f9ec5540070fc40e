"""Docs that a pipeline has read -> confidence of their entities, with the reasons."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from knn_ue.answers import EntityExplanation
from knn_ue.arrays import IntArray
from knn_ue.decisions import Scored
from knn_ue.pipeline.answers import of_entities
from knn_ue.pipeline.domains import calibrator_of
from knn_ue.pipeline.fitted import Fitted, decide
from knn_ue.spacy.attributes import AttributeNames
from knn_ue.spacy.encoder import SpacyEncoder
from knn_ue.types import Outputs


def annotate(
    docs: Sequence[Any],
    encoder: SpacyEncoder,
    fitted: Fitted,
    names: AttributeNames,
    *,
    top: int,
    domain: str | None = None,
) -> None:
    """Set the attributes of the docs and of their entities; nothing else of a doc changes."""
    from spacy.tokens import Span

    filled = [doc for doc in docs if len(doc)]
    for doc in docs:
        doc._.set(names.confidence, 1.0)
        names.set_missed(doc, ())
    if not filled:
        return
    outputs = encoder.outputs(filled)
    answer = calibrator_of(fitted, domain).answer(outputs, top=top)
    first_words = np.cumsum([0, *(len(doc) for doc in filled)])
    entities = of_entities(answer.explanations, outputs, fitted.familiarity)
    for found, is_promised in zip(entities, _promised(entities, outputs, fitted), strict=True):
        doc, offset = _doc_of(found.start, first_words, filled)
        names.set_entity(Span(doc, found.start - offset, found.end - offset), found, promised=is_promised)
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


def _promised(entities: Sequence[EntityExplanation], outputs: Outputs, fitted: Fitted) -> list[bool | None]:
    """Return for each entity whether a decision lets it through; None where there is no decision."""
    if not fitted.decisions:
        return [None] * len(entities)
    assert outputs.groups is not None  # the encoder sets them
    starts = np.array([found.start for found in entities], dtype=np.int64)
    scored = Scored(
        confidence=np.array([found.score for found in entities], dtype=np.float64),
        class_names=list(outputs.class_names or ()),
        sentence=outputs.groups[starts],
    )
    return [not one.abstained for one in decide(scored, fitted.decisions, [None] * len(entities))]


def _doc_of(row: int, first_words: IntArray, docs: Sequence[Any]) -> tuple[Any, int]:
    number = int(np.searchsorted(first_words, row, side="right")) - 1
    return docs[number], int(first_words[number])


def _doc_scores(scores: Any, outputs: Outputs, first_words: IntArray) -> list[float]:
    """Return for each doc the probability that all its sentences are all right, taken as independent."""
    assert outputs.groups is not None  # the encoder sets them
    sentences = outputs.groups[first_words[:-1]]
    ends = np.append(sentences[1:], len(scores))
    return [float(np.prod(scores[a:b])) for a, b in zip(sentences.tolist(), ends.tolist(), strict=True)]
