"""Outputs and a fitted calibrator -> answers: plain dicts of strings, numbers and booleans, ready for JSON."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators import Calibrator, Found
from knn_ue.encoding import Example
from knn_ue.entities import find_entities
from knn_ue.pipeline.entity_answers import explain_sentences, sentence_fields
from knn_ue.pipeline.fitted import search_neighbors, store_of
from knn_ue.types import Outputs, Prediction
from knn_ue.weighting import ExplainedNeighbor, nearest_examples

Answer = dict[str, Any]
Threshold = float | Sequence[float]  # for all, or one for each row (in tagging for each sentence)


def text_answers(
    outputs: Outputs, calibrator: Calibrator, *, threshold: Threshold, top: int, found: Found | None = None
) -> list[Answer]:
    """Return an answer for each row: label, score, raw_score, abstained, neighbors; would_be where it abstained."""
    names = _names(outputs)
    thresholds = _one_each(threshold, len(outputs))
    if calibrator.explains and top and len(outputs):
        explained = calibrator.explain(outputs, top=top, found=found)  # weight and neighbors from a single search
        scores = [(row.predicted, row.confidence, row.raw_confidence) for row in explained]
        neighbors = [[_explained_neighbor(near) for near in row.neighbors] for row in explained]
    else:
        prediction = calibrator.predict(outputs, found=found)
        scores = _triples(prediction)
        neighbors = nearest(outputs, calibrator, top=top)
    return [
        _answer("label", names[predicted], score, raw, abstained=score < least) | {"neighbors": near}
        for (predicted, score, raw), near, least in zip(scores, neighbors, thresholds, strict=True)
    ]


def tagged_answers(
    examples: Sequence[Example],
    outputs: Outputs,
    calibrator: Calibrator,
    *,
    threshold: Threshold,
    top: int,
    found: Found | None = None,
) -> list[Answer]:
    """Return {"words", "entities"} for each sentence, in order; one without words has neither.

    Where entities have a score of their own there are also "score", "none_missed" and "missed": see `entity_answers`.
    """
    if calibrator.reads_entities:
        full = calibrator.answer(outputs, top=top, found=found)
        explained = explain_sentences(examples, full)
        scores = [[entity.score for entity in sentence.entities] for sentence in explained]
        answers = _tagged(examples, outputs, full.prediction, threshold, scores)
        for answer, sentence in zip(answers, explained, strict=True):
            answer["entities"] = [
                entity
                | {"raised_by": list(why.raised_by), "lowered_by": list(why.lowered_by)}
                | {"neighbors": [_explained_neighbor(near) for near in why.neighbors]}
                for entity, why in zip(answer["entities"], sentence.entities, strict=True)
            ]
            answer |= sentence_fields(sentence)
        return answers
    answers = _tagged(examples, outputs, calibrator.predict(outputs, found=found), threshold, None)
    starts = np.cumsum([0, *(len(example.parts) for example in examples)]).tolist()
    rows = [
        start + entity["start"] for start, answer in zip(starts, answers, strict=False) for entity in answer["entities"]
    ]
    neighbors = iter(nearest(outputs.take(np.array(rows, dtype=np.int64)), calibrator, top=top))
    for answer in answers:
        answer["entities"] = [entity | {"neighbors": next(neighbors)} for entity in answer["entities"]]
    return answers


def _tagged(
    examples: Sequence[Example],
    outputs: Outputs,
    prediction: Prediction,
    threshold: Threshold,
    entity_scores: list[list[float]] | None,
) -> list[Answer]:
    """Return words and entities of each sentence; without `entity_scores` an entity has the product of its words'."""
    names = _names(outputs)
    whole = metrics.mark_entities(names)
    answers: list[Answer] = []
    row = 0
    thresholds = _one_each(threshold, len(examples))
    for place, (example, least) in enumerate(zip(examples, thresholds, strict=True)):
        rows = range(row, row + len(example.parts))
        row = rows.stop
        tags = [names[prediction.predicted[number]] for number in rows]
        scores, raw = prediction.confidence[rows.start : row], prediction.raw_confidence[rows.start : row]
        spans = metrics.extract_entities(tags) if whole and tags else []
        own = [None] * len(spans) if entity_scores is None else entity_scores[place]
        entities = [
            _entity(example.parts, span, scores, raw, least, score) for span, score in zip(spans, own, strict=True)
        ]
        inside = {n for e in entities if e["abstained"] for n in range(e["start"], e["end"])}
        words = [
            {"word": word}
            | _answer(
                "tag",
                tags[number],
                float(scores[number]),
                float(raw[number]),
                abstained=number in inside if whole else bool(scores[number] < least),
            )
            for number, word in enumerate(example.parts)
        ]
        answers.append({"words": words, "entities": entities})
    return answers


def nearest(outputs: Outputs, calibrator: Calibrator, *, top: int) -> list[list[Answer]]:
    """Return the `top` nearest training examples of each row; none where the method has no datastore."""
    store = store_of(calibrator)
    if store is None or not top or not len(outputs):
        return [[] for _ in range(len(outputs))]
    found = search_neighbors(calibrator, outputs, min(top, len(store)))
    assert found is not None
    shown = nearest_examples(found, outputs.predicted, store.texts_of, names=_names(outputs), top=top)
    return [[_explained_neighbor(near) for near in row] for row in shown]


def scored_answers(
    outputs: Outputs, calibrator: Calibrator, found: Found | None = None
) -> tuple[FloatArray, BoolArray]:
    """Return the confidence and correctness of what a user is given: texts, entities, or words of other taggers."""
    labels = outputs.require_labels("target_risk")
    if calibrator.reads_entities:
        reading = calibrator.read(outputs, found=found)
        return reading.scores, reading.spans.same_in(find_entities(outputs, labels))
    prediction = calibrator.predict(outputs, found=found)
    if outputs.groups is None or not metrics.mark_entities(_names(outputs)):
        return prediction.confidence, prediction.predicted == labels
    names = np.array(_names(outputs))
    scores = metrics.score_entities(
        gold=metrics.sentences(names[labels], outputs.groups),
        predicted=metrics.sentences(names[prediction.predicted], outputs.groups),
        confidence=metrics.sentences(prediction.confidence, outputs.groups),
        aggregate="product",
    )
    return scores.confidence, scores.correct


def _entity(
    words: Sequence[str],
    span: tuple[str, int, int],
    scores: FloatArray,
    raw: FloatArray,
    threshold: float,
    own: float | None,
) -> Answer:
    kind, first, last = span
    inside = slice(first, last + 1)
    score = math.prod(scores[inside].tolist()) if own is None else own
    answer = _answer("type", kind, score, math.prod(raw[inside].tolist()), abstained=score < threshold)
    return answer | {"text": " ".join(words[inside]), "start": first, "end": last + 1}


def _answer(key: str, value: str, score: float, raw: float, *, abstained: bool) -> Answer:
    answer: Answer = {key: None if abstained else value, "score": score, "raw_score": raw, "abstained": abstained}
    return answer | {"would_be": value} if abstained else answer


def _explained_neighbor(near: ExplainedNeighbor) -> Answer:
    return {
        "id": near.id,
        "label": near.label_name,
        "distance": near.distance,
        "text": near.text,
        "agrees": near.agrees,
    }


def _triples(prediction: Prediction) -> list[tuple[int, float, float]]:
    columns = (prediction.predicted, prediction.confidence, prediction.raw_confidence)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _one_each(threshold: Threshold, n_rows: int) -> Sequence[float]:
    return [threshold] * n_rows if isinstance(threshold, (int, float)) else threshold


def _names(outputs: Outputs) -> Sequence[str]:
    return outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
