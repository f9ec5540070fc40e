"""How much inputs are like the training data: measured while rows are encoded, and said in answers.

Rows go through the encoder a window at a time. Views are several times as wide as features, so nobody keeps them: of
the training rows a random sample is kept until the training space is measured, of the validation rows only their
scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from knn_ue.answers import (
    Answer,
    AnswerList,
    Entity,
    EntityExplanation,
    Explanation,
    SentenceAnswer,
    SentenceExplanation,
)
from knn_ue.arrays import FloatArray, IntArray, check_positive
from knn_ue.calibrators.contract import Calibrator
from knn_ue.encoding.contract import Encoder
from knn_ue.encoding.inputs import Example, windows
from knn_ue.errors import InvalidInputError
from knn_ue.familiarity import ENTITIES, SENTENCES, Familiarity, TrainingSpace, span_means
from knn_ue.pipeline.entity_answers import explain_sentences
from knn_ue.tasks import TASKS
from knn_ue.types import LAYER, Outputs, Step, join_columns

MAX_MEASURED = 5000  # training rows that the training space is measured on


class SampledViews:
    """Keeps the views of about `MAX_MEASURED` of `n_rows` training rows, each with the same probability."""

    def __init__(self, n_rows: int, *, seed: int) -> None:
        self._share = min(1.0, MAX_MEASURED / max(1, n_rows))
        self._random = np.random.default_rng(seed)
        self._parts: list[FloatArray] = []

    def look(self, outputs: Outputs) -> None:
        """Sample the rows of one window."""
        if outputs.views is not None:
            self._parts.append(outputs.views[self._random.random(len(outputs)) < self._share])

    def space(self) -> TrainingSpace | None:
        """Return what was measured, None where the encoder has no views or there were no rows."""
        if not sum(map(len, self._parts)):
            return None
        views = np.concatenate(self._parts)
        self._parts.clear()
        return TrainingSpace.measure_views([views[:, number] for number in range(views.shape[1])])


class ScoredViews:
    """Scores validation rows against a training space, and makes the familiarity of them."""

    def __init__(self, space: TrainingSpace | None) -> None:
        self._space = space
        self._parts: list[FloatArray] = []

    def look(self, outputs: Outputs) -> None:
        """Score the rows of one window."""
        if self._space is not None and outputs.views is not None:
            self._parts.append(self._space.score(outputs))

    def familiarity(self, validation: Outputs, false_alarm_rate: float) -> Familiarity | None:
        """Return the fitted familiarity; None where any row had no views."""
        scores = np.concatenate(self._parts) if self._parts else np.zeros(0)
        if self._space is None or not len(scores) or len(scores) != len(validation):
            return None
        return Familiarity(self._space, false_alarm_rate=false_alarm_rate).fit_scores(scores, validation)


def has_views(encoder: Encoder) -> bool:
    """Say whether the outputs of the encoder have views, without which there is no familiarity."""
    return encoder.encode([]).views is not None


def encode_looking(
    encoder: Encoder, examples: Sequence[Example] | Outputs, look: Callable[[Outputs], None], progress: Step | None
) -> Outputs:
    """Encode examples without their views; `look` sees each window with them. Without views it is one call.

    `Outputs`, which were encoded before, are looked at as one window.
    """
    if isinstance(examples, Outputs):
        look(examples)
        return replace(examples, views=None)
    if not has_views(encoder) or not examples:
        return replace(encoder.encode(examples, progress=progress), views=None)
    columns: dict[str, list[Any]] = {}
    done = 0
    for window in windows(examples, batch_size=encoder.options.batch_size):
        outputs = encoder.encode(window, progress=progress and _shifted(progress, done, len(examples)))
        look(outputs)
        for name, values in _columns(outputs).items():
            columns.setdefault(name, []).append(values)
        done += len(window)
    groups = None
    if TASKS[encoder.task].is_tagging:
        groups = np.repeat(np.arange(len(examples)), [len(example.parts) for example in examples])
    return join_columns(columns, groups=groups, class_names=outputs.class_names)


def _columns(outputs: Outputs) -> dict[str, Any]:
    names = ("logits", "features", "labels", "decoded", "words", "pairs" if outputs.pairs is not None else "texts")
    columns = {name: getattr(outputs, name) for name in names}
    columns |= {f"{LAYER}{number}": layer for number, layer in enumerate(outputs.layers or ())}
    return {name: values for name, values in columns.items() if values is not None}


def _shifted(progress: Step, done: int, total: int) -> Step:
    return lambda more, _total: progress(done + more, total)


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
    examples: Sequence[Example], outputs: Outputs, calibrator: Calibrator, familiarity: Familiarity | None, *, top: int
) -> list[Explanation] | list[SentenceExplanation]:
    """Return the reasons for the score of each example or word; one record per sentence where entities are scored."""
    if not len(outputs):
        return []
    if calibrator.reads_entities:
        check_positive(top, "top")
        sentences = explain_sentences(examples, calibrator.answer(outputs, top=top))
        lengths = [len(example.parts) for example in examples]
        return AnswerList(of_sentences(sentences, outputs, familiarity, lengths))
    explained = calibrator.explain(outputs, top=top)
    return AnswerList(explained if outputs.groups is not None else of_rows(explained, outputs, familiarity))


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
    p_values = familiarity.p_value_of(span_means(scores, start, end), kind)
    return list(zip(p_values.tolist(), familiarity.is_unfamiliar(p_values).tolist(), strict=True))
