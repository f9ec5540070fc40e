"""A fitted calibrator and a few labeled rows of a new domain -> the same calibrator with scores that hold there."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from knn_ue.adapting import Adaptation, LabeledScores, adapt_units, rescale_scores
from knn_ue.arrays import FloatArray, IntArray
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.entities import SentenceReading, all_right, find_entities
from knn_ue.types import Outputs


def adapt_calibrator(
    calibrator: Calibrator,
    labeled: Outputs,
    *,
    sample_weight: FloatArray | None = None,
    familiarity: float | None = None,
    random_sample: bool = True,
    force: bool = False,
    seed: int = 0,
) -> tuple[Calibrator, Adaptation]:
    """Return the calibrator adapted to `labeled` outputs of a new domain, and a summary of what changes.

    The rows must be a random sample of the domain; `sample_weight` has one number per row, or per sentence in tagging,
    where the draw was uneven. `familiarity` is their mean p-value (`Familiarity.mean_p_value`). Predictions do not
    change. See `knn_ue.adapting.adapt_units` for when a scale is applied.

    >>> from knn_ue.calibrators import TemperatureScaling
    >>> from knn_ue.toy import two_blobs
    >>> _, validation, _ = two_blobs(overconfident_by=1.0, seed=0)
    >>> _, shifted, _ = two_blobs(overconfident_by=4.0, seed=1)
    >>> adapted, adaptation = adapt_calibrator(TemperatureScaling().fit(validation), shifted)
    >>> adaptation.applied, round(float(np.exp(adapted.log_scales["rows"])), 1)
    (True, 0.3)
    """
    scores = labeled_scores(calibrator, labeled, sample_weight=sample_weight)
    adaptation = adapt_units(scores, familiarity=familiarity, random_sample=random_sample, force=force, seed=seed)
    return calibrator.with_log_scales(adaptation.log_scales), adaptation


def labeled_scores(
    calibrator: Calibrator,
    labeled: Outputs,
    *,
    sample_weight: FloatArray | None = None,
    found: Found | None = None,
) -> dict[str, LabeledScores]:
    """Return what the calibrator says, without any domain, of labeled "rows", "entities" and "sentences".

    Copies of one text count as labels, but as one row: what is said of one is known of the others.
    """
    general = calibrator.with_log_scales({})
    labels = labeled.require_labels("adapting to a domain")
    groups = np.arange(len(labeled))
    if labeled.groups is not None:
        groups = np.unique(labeled.groups, return_inverse=True)[1]
    n_rows = int(groups.max()) + 1
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if found is None:
        found = general.search(labeled)
    probs = general.predict_proba(labeled, found=found)
    copies = _copies(labeled, groups, n_rows)
    rows = LabeledScores.of_probs(probs, labels, weights=weights[groups], groups=copies[groups])
    units = {"rows": replace(rows, predicted=labeled.predicted)}
    if general.reads_entities:
        reading = general.read(labeled, found=found)
        gold, sentence = find_entities(labeled, labels), reading.spans.sentence
        units["entities"] = LabeledScores.of_scores(
            reading.scores, reading.spans.same_in(gold), weights=weights[sentence], groups=copies[sentence]
        )
        units["sentences"] = LabeledScores.of_scores(
            reading.sentence_scores, all_right(reading.spans, gold), weights=weights, groups=copies
        )
    return units


def _copies(labeled: Outputs, groups: IntArray, n_rows: int) -> IntArray:
    """Return for each row (n_rows,), in tagging each sentence, the number of the first row with the same text."""
    if labeled.texts is None:
        return np.arange(n_rows)
    said: list[list[str]] = [[] for _ in range(n_rows)]
    for row, text in zip(groups.tolist(), labeled.texts, strict=True):
        said[row].append(text)
    first: dict[tuple[str, ...], int] = {}
    return np.array([first.setdefault(tuple(texts), row) for row, texts in enumerate(said)], dtype=np.int64)


def rescaled_reading(reading: SentenceReading, log_scales: Mapping[str, float]) -> SentenceReading:
    """Return the scores of entities and sentences in a domain; a sentence is never surer than any part of it."""
    scores = rescale_scores(reading.scores, log_scales.get("entities", 0.0))
    whole = rescale_scores(reading.sentence_scores, log_scales.get("sentences", 0.0))
    least = np.minimum(whole, reading.none_missed)
    np.minimum.at(least, reading.spans.sentence, scores)
    return replace(reading, scores=scores, sentence_scores=least)
