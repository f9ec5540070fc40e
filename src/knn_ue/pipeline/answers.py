"""Outputs, a fitted calibrator and decisions -> answers: one search and one fetch of texts for a whole batch.

Then how familiar their inputs are, and one answer <-> one JSON line of `knn-ue predict`, whoever writes the file.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from knn_ue import metrics
from knn_ue.answers import (
    Answer,
    AnswerList,
    AnyAnswer,
    Entity,
    EntityExplanation,
    Explanation,
    SentenceAnswer,
    SentenceExplanation,
)
from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_positive
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.data import PairRow, Row, TaggedRow
from knn_ue.decisions import Decision, Scored
from knn_ue.encoding import Example
from knn_ue.encoding.given import given_answer
from knn_ue.entities import find_entities
from knn_ue.errors import InvalidInputError
from knn_ue.familiarity import ENTITIES, SENTENCES, Familiarity, span_means
from knn_ue.pipeline.entity_answers import explain_sentences, sentence_answers
from knn_ue.pipeline.fitted import Fitted, class_names, decide, most_likely, nearest
from knn_ue.types import Outputs, Prediction
from knn_ue.verifying import OTHER

_OTHERS = 3  # labels beside a given answer
AbstainBelow = float | None | Sequence[float | None]  # for all, or for each example; None leaves it to the decisions


def answer_examples(
    examples: Sequence[Example],
    outputs: Outputs,
    calibrator: Calibrator,
    *,
    decisions: Sequence[Decision] = (),
    abstain_below: AbstainBelow = None,
    top: int,
    top_k: int | None = None,
    found: Found | None = None,
    familiarity: Familiarity | None = None,
) -> list[AnyAnswer]:
    """Return the answer to each example, in order; with `top_k`, the probabilities of that many labels.

    `found` is what the calibrator's `search` returned for `outputs`; without it there is one search here. Without
    `familiarity` answers do not say how much their inputs are like the training data.
    """
    below = list(abstain_below) if isinstance(abstain_below, Sequence) else [abstain_below] * len(examples)
    if found is None:
        found = calibrator.search(outputs)
    if outputs.groups is None:
        texts = _text_answers(
            outputs, calibrator, found, decisions=decisions, abstain_below=below, top=top, top_k=top_k
        )
        return [*of_rows(_as_given(texts, examples), outputs, familiarity)]
    sentences = sentence_answers(
        examples, outputs, calibrator, found, decisions=decisions, abstain_below=below, top=top, top_k=top_k
    )
    sizes = [len(example.parts) for example in examples]
    return [*of_sentences(sentences, outputs, familiarity, sizes)]


def _as_given(answers: Sequence[Answer], examples: Sequence[Example]) -> list[Answer]:
    """Return the answers with the words in which they were given: an answer that is no label keeps its own."""
    found = []
    for answer, example in zip(answers, examples, strict=True):
        if example.given is not None and answer.alternatives is not None:
            said, sure = given_answer(example)
            answer = replace(answer, raw_score=sure)
            answer = replace(answer, would_be=said) if answer.abstained else replace(answer, label=said)
        found.append(answer)
    return found


def with_suggestion(answer: AnyAnswer) -> AnyAnswer:
    """Return the answer with the likeliest other label where that is likelier than what was given."""
    if isinstance(answer, SentenceAnswer) or not answer.alternatives:
        return answer
    label, share = max(answer.alternatives.items(), key=itemgetter(1))
    return replace(answer, suggested=label) if share > answer.score else answer


def _said(example: Example) -> str | None:
    """Return the words of an answer that was given with a row; None where none was."""
    return None if example.given is None else given_answer(example)[0]


def check_abstain_below(value: float | None) -> None:
    """Raise unless it is a probability or None."""
    if value is not None and (isinstance(value, bool) or not 0 <= value <= 1):
        raise InvalidInputError(f"abstain_below must lie within [0, 1], got {value!r}")


def score_answers(outputs: Outputs, calibrator: Calibrator, *, found: Found | None = None) -> Scored:
    """Return the score of everything a user is given for labeled `outputs`, and whether it is right.

    That is texts and pairs, entities of tagged sentences, or words where tags are not IOB2.
    """
    labels = outputs.require_labels("a decision")
    names = class_names(outputs)
    words = documents = n_units = None
    if outputs.groups is not None:
        words = np.cumsum(np.diff(outputs.groups, prepend=-1) != 0) - 1
        n_units = int(words[-1]) + 1
    if outputs.documents is not None:
        documents = np.unique(outputs.documents, return_inverse=True)[1]
        n_units = int(documents.max()) + 1
    if calibrator.reads_entities:
        reading = calibrator.read(outputs, found=found)
        spans = reading.spans
        right = spans.same_in(find_entities(outputs, labels))
        return Scored(
            confidence=reading.scores,
            class_names=names,
            correct=right,
            sentence=spans.sentence,
            document=None if documents is None else documents[spans.first],
            n_units=n_units,
        )
    prediction = calibrator.predict(outputs, found=found)
    if outputs.groups is None or not metrics.mark_entities(names):
        return Scored(
            confidence=prediction.confidence,
            class_names=names,
            probs=prediction.probs,
            predicted=prediction.predicted,
            correct=prediction.predicted == labels,
            labels=labels,
            sentence=words,
            document=documents,
            n_units=n_units,
        )
    tags = np.array(names)
    entities = metrics.score_entities(
        gold=metrics.sentences(tags[labels], outputs.groups),
        predicted=metrics.sentences(tags[prediction.predicted], outputs.groups),
        confidence=metrics.sentences(prediction.confidence, outputs.groups),
        aggregate="product",
    )
    spans = find_entities(outputs, prediction.predicted)
    return Scored(
        confidence=entities.confidence,
        class_names=names,
        correct=entities.correct,
        sentence=spans.sentence,
        document=None if documents is None else documents[spans.first],
        n_units=n_units,
    )


def rated_rows(fitted: Fitted) -> tuple[FloatArray, BoolArray, str]:
    """Return score and correctness of the labeled rows that say most of new ones, and in words which these are."""
    if fitted.held_out.any():
        rows = fitted.validation.take(fitted.held_out)
        return *scored_answers(rows, fitted.calibrator), "held-out rows"
    rows, as_new = fitted.validation, fitted.calibrator.scores_as_new()
    if as_new is not None:
        right: BoolArray = rows.predicted == rows.require_labels("the scores of labeled rows")
        return as_new, right, "labeled rows, each scored as if it were new"
    return *scored_answers(rows, fitted.calibrator), "validation rows, on which scores were fitted"


def scored_answers(
    outputs: Outputs, calibrator: Calibrator, found: Found | None = None
) -> tuple[FloatArray, BoolArray]:
    """Return the confidence and correctness of what a user is given; see `score_answers`."""
    scored = score_answers(outputs, calibrator, found=found)
    assert scored.correct is not None
    return scored.confidence, scored.correct


def _text_answers(
    outputs: Outputs,
    calibrator: Calibrator,
    found: Found,
    *,
    decisions: Sequence[Decision],
    abstain_below: Sequence[float | None],
    top: int,
    top_k: int | None,
) -> list[Answer]:
    names = class_names(outputs)
    prediction = calibrator.predict(outputs, found=found)
    scored = Scored(
        confidence=prediction.confidence, class_names=names, probs=prediction.probs, predicted=prediction.predicted
    )
    decided = decide(scored, decisions, abstain_below)
    near = nearest(calibrator, found, prediction.predicted, names=names, top=top)
    likely = most_likely(prediction.probs, names, top_k)
    others = _alternatives(prediction, names) if calibrator.judges_given else [None] * len(outputs)
    answers = []
    for row, predicted in enumerate(prediction.predicted.tolist()):
        label, would_be = decided[row].about(names[predicted])
        labels = decided[row].labels
        if labels is not None and calibrator.judges_given:  # what is no label is in no set
            labels = tuple(label for label in labels if label in names[: _n_labels(names)])
        answers.append(
            Answer(
                label=label,
                score=float(prediction.confidence[row]),
                raw_score=float(prediction.raw_confidence[row]),
                abstained=decided[row].abstained,
                would_be=would_be,
                probabilities=likely[row],
                alternatives=others[row],
                set=labels,
                decisions=decided[row].fields,
                neighbors=near[row],
            )
        )
    return answers


def _alternatives(prediction: Prediction, names: Sequence[str]) -> Sequence[dict[str, float] | None]:
    """Return the likeliest labels beside each given answer, with their probabilities."""
    rest = prediction.probs.copy()
    rest[np.arange(len(rest)), prediction.predicted] = -1.0
    rest[:, _n_labels(names) :] = -1.0  # what is no label is no alternative
    return [
        {name: share for name, share in (shares or {}).items() if share >= 0}
        for shares in most_likely(rest, names, _OTHERS)
    ]


def _n_labels(names: Sequence[str]) -> int:
    """Return how many of the classes are labels: those before the one for all other answers."""
    return list(names).index(OTHER) if OTHER in names else len(names)


OfRow = TypeVar("OfRow", bound=Answer | Explanation)
OfEntity = TypeVar("OfEntity", Entity, EntityExplanation)
OfSentence = TypeVar("OfSentence", SentenceAnswer, SentenceExplanation)


def of_rows(records: Sequence[OfRow], outputs: Outputs, familiarity: Familiarity | None) -> list[OfRow]:
    """Return what is said of texts or pairs, with the p-values of their rows."""
    if familiarity is None:
        return list(records)
    p_values = familiarity.p_value(outputs)
    unfamiliar = familiarity.is_unfamiliar(p_values).tolist()
    return [
        replace(record, familiarity=p_value, unfamiliar=is_unfamiliar)
        for record, p_value, is_unfamiliar in zip(records, p_values.tolist(), unfamiliar, strict=True)
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


def of_entities(
    found: Sequence[EntityExplanation], outputs: Outputs, familiarity: Familiarity | None
) -> list[EntityExplanation]:
    """Return what is said of entities with their p-values; `start` and `end` of each are rows of `outputs`."""
    if familiarity is None or not found:
        return list(found)
    first, end = np.array([(entity.start, entity.end) for entity in found], dtype=np.int64).T
    known = _of_spans(familiarity, familiarity.score(outputs), first, end, ENTITIES)
    return [_known(entity, *both) for entity, both in zip(found, known, strict=True)]


def explain_outputs(
    examples: Sequence[Example],
    outputs: Outputs,
    calibrator: Calibrator,
    familiarity: Familiarity | None,
    *,
    top: int,
    adapted_to: str | None = None,
) -> list[Explanation] | list[SentenceExplanation]:
    """Return the reasons for the score of each example or word; one record per sentence where entities are scored.

    `adapted_to` names the domain whose scale the calibrator has, for the words.
    """
    if not len(outputs):
        return []
    if calibrator.reads_entities:
        check_positive(top, "top")
        sentences = explain_sentences(examples, calibrator.answer(outputs, top=top))
        sentences = [replace(one, adapted_to=adapted_to) for one in sentences]
        lengths = [len(example.parts) for example in examples]
        return AnswerList(of_sentences(sentences, outputs, familiarity, lengths))
    explained = [replace(one, adapted_to=adapted_to) for one in calibrator.explain(outputs, top=top)]
    if calibrator.judges_given and outputs.groups is None:
        explained = [
            replace(one, label=_said(example) or one.label) for one, example in zip(explained, examples, strict=True)
        ]
    return AnswerList(explained if outputs.groups is not None else of_rows(explained, outputs, familiarity))


def check_explains(calibrator: Calibrator, method: str) -> None:
    """Raise unless the calibrator of a method gives reasons."""
    if not calibrator.explains:
        raise InvalidInputError(
            f"explain needs the method knn-ue, knn-ue-no-label or knn-ue-entity, this pipeline was fitted with "
            f"{method!r}: fit with one of them"
        )


def measurable(familiarity: Familiarity | None, *sets: Outputs) -> Familiarity | None:
    """Return the familiarity where all sets have what it looks at: outputs made before may have no views."""
    return familiarity if familiarity is not None and all(map(familiarity.space_.measures, sets)) else None


def _known(entity: OfEntity, p_value: float, unfamiliar: bool) -> OfEntity:
    return replace(entity, familiarity=p_value, unfamiliar=unfamiliar)


def _of_spans(
    familiarity: Familiarity, scores: FloatArray, start: IntArray, end: IntArray, kind: str
) -> list[tuple[float, bool]]:
    if not len(start):
        return []
    p_values = familiarity.p_value_of(span_means(scores, start, end), kind)
    return list(zip(p_values.tolist(), familiarity.is_unfamiliar(p_values).tolist(), strict=True))


def input_of(row: Row) -> dict[str, Any]:
    """Return what an answer repeats of its row; the words of a tagged sentence that had words are in the answer itself.

    >>> from knn_ue.data import TextRow
    >>> input_of(TextRow("a fine film", "pos"))
    {'text': 'a fine film'}
    """
    if isinstance(row, TaggedRow):
        return {} if row.raw_text is None else {"text": row.raw_text}
    if isinstance(row, PairRow):
        return {"premise": row.premise, "hypothesis": row.hypothesis}
    return {"text": row.text}


def passed_on(row: Row, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer behind its input and the columns that the row had beside it.

    A column that is called like a field of answers, as a label may be, is renamed, and no other column is lost by it.

    >>> from knn_ue.data import TextRow
    >>> passed_on(TextRow("fine", extra={"id": 7, "label": "neg"}), {"label": "pos", "score": 0.9})
    {'text': 'fine', 'id': 7, 'input_label': 'neg', 'label': 'pos', 'score': 0.9}
    """
    inputs = input_of(row)
    taken = inputs.keys() | answer.keys()
    given = row.extra or {}
    extra: dict[str, Any] = {}
    for name, value in given.items():
        free = name
        while free in taken or (free != name and free in given):
            free = f"input_{free}"
        extra[free] = _plain(value)
    return inputs | extra | answer


def _plain(value: Any) -> Any:
    """Return a value of any table as JSON knows it: dates and decimals as text, what is no number as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def encoded(answer: dict[str, Any]) -> bytes:
    """Return an answer as JSON, without the line's end."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def answer_line(row: Row, answer: dict[str, Any]) -> bytes:
    """Return the line of the answer to one row."""
    return encoded(passed_on(row, answer)) + b"\n"


def abstains(answer: dict[str, Any]) -> bool:
    """Say whether the answer, or one of its entities, is an abstention."""
    return bool(answer.get("abstained")) or any(entity["abstained"] for entity in answer.get("entities", ()))
