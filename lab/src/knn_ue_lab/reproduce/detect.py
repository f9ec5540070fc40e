"""One cell of a detector: how well its score tells in-domain rows of a setup from others, with one seed."""

import time

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.entities import TagSet, find_entities
from knn_ue.familiarity import span_means
from knn_ue.types import Outputs
from knn_ue_lab.detection import DETECTORS, Detector
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.cells import Arrays, Content
from knn_ue_lab.reproduce.kept_answers import pack
from knn_ue_lab.reproduce.measures import detection_of
from knn_ue_lab.reproduce.score import entity_words_of, score_name
from knn_ue_lab.reproduce.task_data import SetRows
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import MethodVariant


def detection_cell(runner: TaskRunner, variant: MethodVariant, seed: int) -> Content:
    """Fit the detector on the training outputs, score all test sets, keep scores and answers, and return the scores."""
    name = score_name(runner, variant, seed)
    began = time.perf_counter()
    content: Content = {"kind": "scores", "method": variant.method, "seed": seed, "options": variant.options()}
    content |= {"training": runner.training_of(variant).name, "sets": {}}
    inside: Answers | None = None
    kept: dict[str, Arrays] = {}
    with runner.fixed_threads():
        detector = DETECTORS[variant.method]().fit(runner.outputs(variant, seed, "train"))
        for part, rows in runner.sets_of(variant).items():
            outputs = runner.outputs(variant, seed, part)
            answers = detection_answers(
                outputs, word_scores(detector, outputs, entity_words=runner.scale.entity_words), rows
            )
            measured: dict[str, float] = {"n": len(set(answers.group.tolist())), "n_answers": len(answers.group)}
            if inside is not None and rows.role in ("out", "outside"):
                measured |= detection_of(inside, answers)
            content["sets"][part] = measured
            kept[part] = pack(answers)
            inside = inside or answers
    runner.store.write_answers(name, kept)
    content["seconds"] = time.perf_counter() - began
    return runner.store.write(name, content)


def word_scores(detector: Detector, outputs: Outputs, *, entity_words: bool) -> FloatArray:
    """Return the score of each row; with `entity_words` in tagging only of words that are read, of entities."""
    if not (entity_words and outputs.groups is not None):
        return detector.score(outputs)
    rows = entity_words_of(outputs)
    scores = np.zeros(len(outputs))
    if len(rows):
        scores[rows] = detector.score(outputs.take(rows))
    return scores


def detection_answers(outputs: Outputs, scores: FloatArray, rows: SetRows) -> Answers:
    """Return the score of each text, or of each predicted entity: the mean over its words.

    Entities of a type that the set does not annotate are left out, as they are where confidence detects.
    """
    if outputs.groups is None:
        return Answers(confidence=scores, group=np.arange(len(outputs)))
    assert outputs.class_names is not None
    spans = find_entities(outputs, outputs.predicted)
    names = np.array(TagSet.of(outputs.class_names).names)
    kept = ~np.isin(names[spans.kind], sorted(rows.ignored)) if len(spans) else np.zeros(0, dtype=bool)
    means = span_means(scores, spans.first, spans.last + 1)
    return Answers(confidence=means[kept], group=outputs.groups[spans.first][kept])
