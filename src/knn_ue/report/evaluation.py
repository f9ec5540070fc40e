"""`evaluate`: asks every calibrator for its probabilities once a set, and takes all metrics of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from knn_ue.arrays import FloatArray, check_not_empty, check_positive, softmax
from knn_ue.calibrators import Calibrator
from knn_ue.entities import SentenceReading, is_tagged
from knn_ue.errors import InvalidInputError
from knn_ue.report.measures import (
    Measures,
    detection_measures,
    entity_measures,
    has_entities,
    row_measures,
    sentence_measures,
)
from knn_ue.report.record import RAW, TEST, Evaluation, EvaluationOptions, Table
from knn_ue.types import Outputs

_ONE = "calibrated"
_ELSEWHERE = "out_of_domain"


@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredSet:
    """The rows of a set and the probabilities (n, classes) that each method gave them, the raw model's first.

    `readings` are those of the methods that have a score for each entity and each sentence.
    """

    outputs: Outputs
    probs: Mapping[str, FloatArray]
    readings: Mapping[str, SentenceReading] = field(default_factory=dict)


def evaluate(
    calibrator: Calibrator | Mapping[str, Calibrator],
    test: Outputs,
    *,
    out_of_domain: Outputs | Mapping[str, Outputs] | None = None,
    n_bins: int = 10,
    n_bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Return every metric of one fitted calibrator ("calibrated"), or of several by name, beside the "raw" softmax.

    `test` needs labels. Each out-of-domain set gives the same metrics, if it has labels, and how well confidence tells
    its rows from the test rows. With `groups` and IOB2 `class_names`, entities are scored too: see `entity_measures`;
    and whole sentences, where a calibrator has a score for them.
    `n_bootstrap` draws give percentile intervals, over whole sentences where there are `groups`, else over rows.

    >>> from knn_ue.calibrators import TemperatureScaling
    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> evaluation = evaluate(TemperatureScaling().fit(validation), test)
    >>> evaluation["calibrated"]["ece"] < evaluation["raw"]["ece"]
    True
    """
    options = EvaluationOptions(n_bins=n_bins, n_bootstrap=n_bootstrap, level=level, seed=seed)
    check_draws(n_bootstrap)
    return evaluate_sets(answered_sets(calibrator, test, out_of_domain), options)


def check_draws(n_bootstrap: int) -> None:
    """Raise unless `n_bootstrap` is a number of draws, or 0 for none."""
    if n_bootstrap != 0:
        check_positive(n_bootstrap, "n_bootstrap")


def answered_sets(
    calibrator: Calibrator | Mapping[str, Calibrator],
    test: Outputs,
    out_of_domain: Outputs | Mapping[str, Outputs] | None = None,
) -> dict[str, AnsweredSet]:
    """Ask each calibrator once about each set; "test" comes first, and the raw model first in each."""
    calibrators = _named_calibrators(calibrator)
    test.require_labels("evaluate")
    sets = {TEST: test} | _named_sets(out_of_domain, test)
    return {name: _answered(calibrators, outputs) for name, outputs in sets.items()}


def evaluate_sets(sets: Mapping[str, AnsweredSet], options: EvaluationOptions) -> Evaluation:
    """Return every metric of sets that `answered_sets` made."""
    test, inside = sets[TEST].outputs, sets[TEST].probs
    tables = _tables_of_set(TEST, sets[TEST], options)
    for name, answered in sets.items():
        if name == TEST:
            continue
        outputs, outside = answered.outputs, answered.probs
        tables |= _tables_of_set(name, answered, options)
        caption = f"{name}: its {len(outputs)} rows told from the {len(test)} of {TEST} by their lower confidence"
        measures = {x: detection_measures(test, outputs, (inside[x], outside[x])) for x in inside}
        tables[f"{name}/detection"] = _table(caption, len(test) + len(outputs), measures, options)
    return Evaluation(n=len(test), n_classes=test.n_classes, options=options, tables=tables)


def _tables_of_set(name: str, answered: AnsweredSet, options: EvaluationOptions) -> dict[str, Table]:
    outputs, probs, readings = answered.outputs, answered.probs, answered.readings
    if outputs.labels is None:
        return {}
    measures = {method: row_measures(outputs, p, options) for method, p in probs.items()}
    tables = {name: _table(f"{name}: {len(outputs)} rows", len(outputs), measures, options)}
    if outputs.groups is not None and has_entities(outputs):
        n_sentences = len(np.unique(outputs.groups))
        measures = {method: entity_measures(outputs, p, options, readings.get(method)) for method, p in probs.items()}
        caption = f"{name}: entities in {n_sentences} sentences"
        tables[f"{name}/entities"] = _table(caption, n_sentences, measures, options)
        if readings:
            measures = {
                method: sentence_measures(outputs, p, options, readings.get(method)) for method, p in probs.items()
            }
            caption = f"{name}: {n_sentences} sentences, right if all entities are and none is missed"
            tables[f"{name}/sentences"] = _table(caption, n_sentences, measures, options)
    return tables


def _table(caption: str, n: int, measures: Mapping[str, Measures], options: EvaluationOptions) -> Table:
    scores = {method: {name: x.value() for name, x in found.items()} for method, found in measures.items()}
    intervals = {}
    if options.n_bootstrap:
        intervals = {
            method: {name: x.interval(options) for name, x in found.items()} for method, found in measures.items()
        }
    return Table(caption=caption, n=n, scores=scores, intervals=intervals)


def _answered(calibrators: Mapping[str, Calibrator], outputs: Outputs) -> AnsweredSet:
    probs, readings = {RAW: softmax(outputs.logits)}, {}
    for name, calibrator in calibrators.items():
        if calibrator.reads_entities and is_tagged(outputs):
            answer = calibrator.answer(outputs, top=0)
            probs[name], readings[name] = answer.prediction.probs, answer.reading
            continue
        probs[name] = calibrator.predict_proba(outputs)
        if probs[name].shape != outputs.logits.shape:
            raise InvalidInputError(
                f"{name} gave probabilities of shape {probs[name].shape} for logits of shape {outputs.logits.shape}: "
                "it must give one row an example and one column a class"
            )
    return AnsweredSet(outputs=outputs, probs=probs, readings=readings)


def _named_calibrators(calibrator: Calibrator | Mapping[str, Calibrator]) -> dict[str, Calibrator]:
    named = dict(calibrator) if isinstance(calibrator, Mapping) else {_ONE: calibrator}
    if not named:
        raise InvalidInputError("evaluate needs at least one calibrator, got an empty mapping: pass {name: calibrator}")
    if RAW in named:
        raise InvalidInputError(f"a calibrator must not be named {RAW!r}: the model itself is; choose another name")
    for name, found in named.items():
        if not hasattr(found, "predict_proba"):
            raise InvalidInputError(
                f"{name} must be a fitted calibrator, got a {type(found).__name__}: call evaluate(calibrator, test)"
            )
    return named


def _named_sets(out_of_domain: Outputs | Mapping[str, Outputs] | None, test: Outputs) -> dict[str, Outputs]:
    if out_of_domain is None:
        return {}
    sets = {_ELSEWHERE: out_of_domain} if isinstance(out_of_domain, Outputs) else dict(out_of_domain)
    for name, outputs in sets.items():
        if name == TEST or "/" in name:
            raise InvalidInputError(f"an out-of-domain set must not be named {name!r}: avoid {TEST!r} and slashes")
        check_not_empty(len(outputs), f"the out-of-domain set {name!r}")
        if outputs.n_classes != test.n_classes:
            raise InvalidInputError(
                f"{name!r} has {outputs.n_classes} classes but {TEST} has {test.n_classes}: use outputs of one model"
            )
        if None not in (names := (outputs.class_names, test.class_names)) and names[0] != names[1]:
            raise InvalidInputError(
                f"{name!r} has the classes {names[0]} but {TEST} has {names[1]}: number the classes alike"
            )
    return sets
