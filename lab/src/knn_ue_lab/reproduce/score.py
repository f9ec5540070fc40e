"""One cell: a method fitted and scored on the test sets of a setup, with one seed."""

import time
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import FloatArray, IntArray, softmax
from knn_ue.calibrators import Calibrator
from knn_ue.demo.cache import key_of
from knn_ue.stores import tunable
from knn_ue.types import Outputs, Prediction
from knn_ue_lab.reproduce.answers import Answers, answers_of
from knn_ue_lab.reproduce.cells import REVISION, Arrays, CellName, Content
from knn_ue_lab.reproduce.entity_platt import EntityPlatt
from knn_ue_lab.reproduce.kept_answers import pack, unpack
from knn_ue_lab.reproduce.measures import detection_of, scores_of
from knn_ue_lab.reproduce.proximity import row_proximity, with_proximity
from knn_ue_lab.reproduce.shared_search import SharedSearch
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import ENTITY_PLATT, EXACT, PASSES, MethodVariant

_QUERIES = 2048  # of each set: enough to tell how much an index finds


def score_name(runner: TaskRunner, variant: MethodVariant, seed: int) -> CellName:
    """Return the name of the cell: its key holds the model's key, the rows and the method."""
    model = runner.model_name(runner.training_of(variant), seed)
    caps = runner.scale.passes_rows if variant.method == PASSES else None
    key = key_of(REVISION, model.key, runner.data.scores_key, variant.options(), runner.encoding_of(variant), caps)
    return CellName(runner.setup.name, f"{variant}.seed{seed}", key)


def score_cell(runner: TaskRunner, variant: MethodVariant, seed: int) -> Content:
    """Fit the method, score it on its test sets, keep scores and answers, and return the scores."""
    name = score_name(runner, variant, seed)
    began = time.perf_counter()
    with runner.fixed_threads():
        calibrator = fitted(runner, variant, seed, shared=True)
        platt = None
        if variant.method == ENTITY_PLATT:
            platt = EntityPlatt.fit(runner.outputs(variant, seed, "fitting"))
        fit_seconds = time.perf_counter() - began
        content: Content = {"kind": "scores", "method": variant.method, "seed": seed, "options": variant.options()}
        content["training"] = runner.training_of(variant).name
        content["sets"] = {}
        inside: Answers | None = None
        kept: dict[str, Arrays] = {}
        for part, rows in runner.sets_of(variant).items():
            outputs = runner.outputs(variant, seed, part)
            weight, prediction = said(calibrator, outputs, entity_words=runner.scale.entity_words)
            factors = entity_scores_of(calibrator, outputs) if platt is None else platt.factors(outputs)
            answers = answers_of(outputs, prediction, rows, factors)
            answers = with_proximity(answers, outputs, prediction, rows, row_proximity(runner, variant, seed, part))
            measured: dict[str, Any] = {"n": len(set(answers.group.tolist())), "n_answers": len(answers.given().group)}
            measured |= scores_of(answers)
            if calibrator.explains and weight is not None:
                measured |= weights(outputs, weight, prediction.confidence)
            if inside is not None and rows.role in ("out", "outside"):
                measured |= detection_of(inside, answers)
            content["sets"][part] = measured
            kept[part] = pack(answers)
            inside = inside or answers
        if variant.index != EXACT:
            content["coverage"] = coverage(runner, variant, seed, calibrator)
    runner.store.write_answers(name, kept)
    content["fit_seconds"] = fit_seconds
    content["seconds"] = time.perf_counter() - began
    return runner.store.write(name, content)


def said(
    calibrator: Calibrator, outputs: Outputs, *, entity_words: bool = False
) -> tuple[FloatArray | None, Prediction]:
    """Return the weight of each row where the method has one, and what it says of all rows.

    With `entity_words` a method that searches, the longest work of all in tagging, is asked only of words that the
    model tags as part of an entity. No score reads what it says of others, and they keep the softmax. A method that
    reads whole entities does so by itself.
    """
    alone = calibrator.searches and not calibrator.reads_entities
    if not (entity_words and alone and outputs.groups is not None):
        found = calibrator.search(outputs)  # once, for the weight and the probabilities
        return calibrator.weight(outputs, found=found), calibrator.predict(outputs, found=found)
    rows = entity_words_of(outputs)
    probs = softmax(outputs.logits)
    raw = probs[np.arange(len(outputs)), outputs.predicted]
    if len(rows):
        probs[rows] = calibrator.predict_proba(outputs.take(rows))
    confidence = probs[np.arange(len(outputs)), outputs.predicted]
    return None, Prediction(predicted=outputs.predicted, confidence=confidence, raw_confidence=raw, probs=probs)


def entity_words_of(outputs: Outputs) -> IntArray:
    """Return the rows of words that the model tags as part of an entity."""
    return np.flatnonzero(np.array(outputs.class_names)[outputs.predicted] != "O")


def read_answers(runner: TaskRunner, variant: MethodVariant, seed: int, part: str) -> Answers | None:
    """Return the kept answers of a measured cell, None where they are not here."""
    arrays = runner.store.read_answers(score_name(runner, variant, seed), part)
    return None if arrays is None else unpack(arrays)


def fitted(runner: TaskRunner, variant: MethodVariant, seed: int, *, shared: bool = False) -> Calibrator:
    """Return the calibrator of the method, fitted on the rows that did not stop the training.

    With `shared` its exact searches are those of all methods, found once: not for what is timed. The vectors of frozen
    layers, which dac searches, are the same for all seeds.
    """
    # The softmax of several passes learns nothing: one pass is enough to fit it.
    seen = MethodVariant(method="softmax") if variant.method == PASSES else variant
    fitting = runner.outputs(seen, seed, "fitting")
    method = variant.registered
    calibrator = from_training(runner, variant, seed) if method.reads_training else method.make(fitting, variant.search)
    if shared and variant.index == EXACT and calibrator.searches:
        stores = calibrator.stores.items()
        calibrator = calibrator.with_stores(
            {name: SharedSearch(tunable(store), runner.store, runner.setup.name) for name, store in stores}
        )
    return calibrator.fit(fitting)


def from_training(runner: TaskRunner, variant: MethodVariant, seed: int) -> Calibrator:
    """Return the calibrator of a method with what it keeps of the training rows, its index built, not fitted."""
    return variant.registered.make(runner.outputs(variant, seed, "train"), variant.search)


def entity_scores_of(calibrator: Calibrator, outputs: Outputs) -> FloatArray | None:
    """Return factors (n,) of the words whose product over an entity is its score, where the method has its own."""
    if not calibrator.reads_entities:
        return None
    reading = calibrator.read(outputs)
    factors = np.ones(len(outputs))
    factors[reading.spans.first] = reading.scores
    return factors


def weights(outputs: Outputs, weight: FloatArray, confidence: FloatArray) -> dict[str, float]:
    """Return the mean weight and confidence of right and of wrong answers (words in tagging)."""
    if outputs.labels is None:
        return {}
    right = outputs.predicted == outputs.labels
    found = {}
    for word, rows in (("right", right), ("wrong", ~right)):
        if rows.any():
            found[f"weight_{word}"] = float(weight[rows].mean())
            found[f"confidence_{word}"] = float(confidence[rows].mean())
    return found


def coverage(runner: TaskRunner, variant: MethodVariant, seed: int, calibrator: Calibrator) -> dict[str, float]:
    """Return the share of the exact neighbors that the index of a method finds, by test set."""
    (indexed,) = calibrator.stores.values()
    exact = tunable(indexed).reindexed(EXACT)
    found = {}
    for part in runner.sets_of(variant):
        queries = runner.outputs(variant, seed, part).require_features("coverage")[:_QUERIES]
        ids = [store.search(queries, variant.n_neighbors).ids for store in (exact, indexed)]
        found[part] = metrics.neighbor_coverage(exact_ids=ids[0], found_ids=ids[1])
    return found
