"""Tagged sentences -> answers and explanations: the words, the entities they form, and what may have been missed."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.answers import Entity, EntityExplanation, MissedEntity, SentenceAnswer, SentenceExplanation, Word
from knn_ue.arrays import IntArray
from knn_ue.calibrators.contract import Calibrator, Found, TaggedAnswer
from knn_ue.decisions import Decision, Scored
from knn_ue.encoding import Example
from knn_ue.pipeline.fitted import Decided, class_names, decide, most_likely, nearest
from knn_ue.types import Outputs, Prediction


def sentence_answers(
    examples: Sequence[Example],
    outputs: Outputs,
    calibrator: Calibrator,
    found: Found,
    *,
    decisions: Sequence[Decision],
    abstain_below: Sequence[float | None],
    top: int,
    top_k: int | None = None,
) -> list[SentenceAnswer]:
    """Return the answer to each sentence, in order; one without words has no words and no entities.

    Decisions are about entities, and an entity that abstains takes its words along; where tags are not IOB2, they are
    about words.
    """
    names = class_names(outputs)
    if calibrator.reads_entities:
        full = calibrator.answer(outputs, top=top, found=found)
        prediction, explained = full.prediction, explain_sentences(examples, full)
        entities = [[_own_entity(entity) for entity in sentence.entities] for sentence in explained]
        of_sentence: list[dict[str, Any]] = [
            {"score": x.score, "none_missed": x.none_missed, "missed": x.missed} for x in explained
        ]
    else:
        prediction = calibrator.predict(outputs, found=found)
        entities = _product_entities(examples, prediction, calibrator, found, names=names, top=top)
        of_sentence = [{} for _ in examples]
    whole = metrics.mark_entities(names)
    if whole:
        scores = np.array([entity.score for own in entities for entity in own], dtype=np.float64)
        starts = [first + x.start for first, own in zip(_first_rows(examples), entities, strict=True) for x in own]
        scored = Scored(confidence=scores, class_names=names, sentence=_sentences(outputs)[np.array(starts, dtype=int)])
    else:
        scored = Scored(
            confidence=prediction.confidence,
            class_names=names,
            probs=prediction.probs,
            predicted=prediction.predicted,
            sentence=_sentences(outputs),
        )
    n_decided = [len(own) if whole else len(example.parts) for own, example in zip(entities, examples, strict=True)]
    limits = [least for least, n in zip(abstain_below, n_decided, strict=True) for _ in range(n)]
    decided = iter(decide(scored, decisions, limits))
    likely = most_likely(prediction.probs, names, top_k)
    answers = []
    for number, (example, first) in enumerate(zip(examples, _first_rows(examples), strict=True)):
        mine = [next(decided) for _ in range(n_decided[number])]
        given = [_decided_entity(*pair) for pair in zip(entities[number], mine, strict=True)] if whole else []
        by_word = _of_words(given, len(example.parts)) if whole else mine
        rows = range(first, first + len(example.parts))
        words = [_word(*parts, prediction, names, likely) for parts in zip(example.parts, rows, by_word, strict=True)]
        answers.append(SentenceAnswer(words=tuple(words), entities=tuple(given), **of_sentence[number]))
    return answers


def explain_sentences(examples: Sequence[Example], answer: TaggedAnswer) -> list[SentenceExplanation]:
    """Return one record for each sentence, in order; one without words is right and hides nothing."""
    reading, names, first_rows = answer.reading, answer.reading.tags.names, _first_rows(examples)
    entities: dict[int, list[EntityExplanation]] = {}
    missed: dict[int, list[MissedEntity]] = {}
    for found in answer.explanations:
        number = _example_at(found.start, first_rows)
        place = _place(examples[number], found.start - first_rows[number], found.end - first_rows[number])
        entities.setdefault(number, []).append(replace(found, sentence=number, **place))
    for hidden in reading.missed:
        number = _example_at(hidden.first, first_rows)
        place = _place(examples[number], hidden.first - first_rows[number], hidden.last - first_rows[number] + 1)
        warning = MissedEntity(type=names[hidden.kind], score=hidden.probability, **place)
        missed.setdefault(number, []).append(warning)
    # A text may hold several sentences: it is right if all of them are, which are taken as independent.
    scores, none_missed = np.ones((2, len(examples)))
    for start, score, none in zip(reading.spans.starts, reading.sentence_scores, reading.none_missed, strict=True):
        number = _example_at(int(start), first_rows)
        scores[number] *= score
        none_missed[number] *= none
    return [
        SentenceExplanation(
            text=example.text_of(),
            score=float(scores[number]),
            none_missed=float(none_missed[number]),
            entities=tuple(entities.get(number, ())),
            missed=tuple(missed.get(number, ())),
        )
        for number, example in enumerate(examples)
    ]


def _sentences(outputs: Outputs) -> IntArray:
    """Return the sentence of each word: an example that is a text may hold several."""
    assert outputs.groups is not None  # words are tagged
    return outputs.groups


def _example_at(row: int, first_rows: Sequence[int]) -> int:
    """Return the number of the example that a row belongs to; those without words have none."""
    return bisect_right(first_rows, row) - 1


def _place(example: Example, start: int, end: int) -> dict[str, Any]:
    """Return where the words from `start` up to, not including, `end` stand, and how they are written."""
    first, last = example.characters_of(start, end)
    return {
        "text": example.text_of(start, end),
        "start": start,
        "end": end,
        "start_char": first,
        "end_char": last,
    }


def _own_entity(why: EntityExplanation) -> Entity:
    """Return an entity that has a score of its own, and the reasons for it."""
    return Entity(
        type=why.type,
        text=why.text or "",
        start=why.start,
        end=why.end,
        score=why.score,
        raw_score=why.raw_score,
        abstained=False,
        start_char=why.start_char,
        end_char=why.end_char,
        raised_by=why.raised_by,
        lowered_by=why.lowered_by,
        neighbors=why.neighbors,
    )


def _product_entities(
    examples: Sequence[Example],
    prediction: Prediction,
    calibrator: Calibrator,
    found: Found,
    *,
    names: Sequence[str],
    top: int,
) -> list[list[Entity]]:
    """Return the entities of each sentence with the products of their words' scores; none where tags are not IOB2."""
    if not metrics.mark_entities(names):
        return [[] for _ in examples]
    spans, rows = [], []
    for example, first in zip(examples, _first_rows(examples), strict=True):
        tags = [names[number] for number in prediction.predicted[first : first + len(example.parts)]]
        spans.append(metrics.extract_entities(tags) if tags else [])
        rows += [first + start for _, start, _ in spans[-1]]
    first_words = np.array(rows, dtype=np.int64)
    near = iter(nearest(calibrator, found, prediction.predicted, names=names, top=top, rows=first_words))
    entities = []
    for example, first, own in zip(examples, _first_rows(examples), spans, strict=True):
        inside = [slice(first + start, first + last + 1) for _, start, last in own]
        entities.append(
            [
                Entity(
                    type=kind,
                    **_place(example, start, last + 1),
                    score=math.prod(prediction.confidence[words].tolist()),
                    raw_score=math.prod(prediction.raw_confidence[words].tolist()),
                    abstained=False,
                    neighbors=next(near),
                )
                for (kind, start, last), words in zip(own, inside, strict=True)
            ]
        )
    return entities


def _decided_entity(entity: Entity, decided: Decided) -> Entity:
    kind, would_be = decided.about(entity.type or "")
    return replace(entity, type=kind, abstained=decided.abstained, would_be=would_be, decisions=decided.fields)


def _of_words(entities: Sequence[Entity], n_words: int) -> list[Decided]:
    """Return what the decisions about entities mean for the words: those of one that abstains abstain too."""
    inside = {place for x in entities if x.abstained for place in range(x.start, x.end)}
    return [Decided(abstained=place in inside, fields=None) for place in range(n_words)]


def _word(
    word: str,
    row: int,
    decided: Decided,
    prediction: Prediction,
    names: Sequence[str],
    likely: Sequence[Mapping[str, float] | None],
) -> Word:
    tag, would_be = decided.about(names[prediction.predicted[row]])
    return Word(
        word=word,
        tag=tag,
        score=float(prediction.confidence[row]),
        raw_score=float(prediction.raw_confidence[row]),
        abstained=decided.abstained,
        would_be=would_be,
        probabilities=likely[row],
        decisions=decided.fields,
    )


def _first_rows(examples: Sequence[Example]) -> list[int]:
    """Return the row of the first word of each sentence."""
    return list(accumulate((len(example.parts) for example in examples[:-1]), initial=0))[: len(examples)]
