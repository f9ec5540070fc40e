"""`evaluate`: every metric of every method on every set."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from knn_ue.arrays import check_positive
from knn_ue.calibrators.contract import Calibrator
from knn_ue.evaluation.answered import AnsweredSet, SampleWeight, answered_sets
from knn_ue.evaluation.measures import (
    Measures,
    detection_measures,
    entity_measures,
    has_entities,
    row_measures,
    sentence_measures,
)
from knn_ue.evaluation.tables import FAMILIARITY, TEST, Evaluation, EvaluationOptions, Table
from knn_ue.familiarity import Familiarity
from knn_ue.types import Outputs


def evaluate(
    calibrator: Calibrator | Mapping[str, Calibrator],
    test: Outputs,
    *,
    out_of_domain: Outputs | Mapping[str, Outputs] | None = None,
    n_bins: int = 10,
    n_bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
    familiarity: Familiarity | None = None,
    sample_weight: SampleWeight | None = None,
    validation: Outputs | None = None,
) -> Evaluation:
    """Return every metric of one fitted calibrator ("calibrated"), or of several by name, beside the "raw" softmax.

    `test` needs labels. Each out-of-domain set gives the same metrics, if it has labels, and how well confidence
    separates its rows from the test rows; beside it how well `familiarity` does, if given. With `groups` and IOB2
    `class_names`, entities are scored too (see `entity_measures`), and whole sentences, where a calibrator has a score
    for them. Answers are the model's own, also where a calibrator finds another class more probable; their confidence
    is the probability of that class, as `Calibrator.predict` gives it. NLL and Brier score are of all classes.
    `n_bootstrap` draws (200 are usual) give percentile intervals, over whole sentences where there are `groups`, else
    over rows.

    `sample_weight` says how much each row counts, in every number and interval: one number per row of `test`, per
    sentence where there are `groups`; or a mapping of them by the name of the set, "test" and the out-of-domain ones,
    where the rows of a set that is left out count once. Only ratios matter, and 0 leaves a row out. A draw takes a row
    together with its weight.

    With the outputs of `validation` rows, and features of both, PIECE is reported: ECE that errors of rows near to
    validation rows and of rows far from them cannot cancel in. At most 2,000 of them are read, evenly spread.

    >>> from knn_ue.calibrators import TemperatureScaling
    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> evaluation = evaluate(TemperatureScaling().fit(validation), test)
    >>> evaluation["calibrated"]["ece"] < evaluation["raw"]["ece"]
    True
    """
    options = EvaluationOptions(n_bins=n_bins, n_bootstrap=n_bootstrap, level=level, seed=seed)
    check_draws(n_bootstrap)
    sets = answered_sets(calibrator, test, out_of_domain, familiarity, sample_weight, validation)
    evaluation = evaluate_sets(sets, options)
    return replace(evaluation, notes=whether_it_pays(calibrator, evaluation))


def whether_it_pays(calibrator: Calibrator | Mapping[str, Calibrator], evaluation: Evaluation) -> tuple[str, ...]:
    """Say of each method that judges given answers whether it ranks them better than its best plain rival."""
    named = calibrator if isinstance(calibrator, Mapping) else {}
    notes = []
    for name, judge in named.items():
        rivals = [rival for rival in judge.rivals() if rival in named]
        if rivals:
            areas = {each: 1000 * evaluation[each]["e_aurc"] for each in (*rivals, name)}
            best = min(rivals, key=areas.__getitem__)
            numbers = f"E-AURC ×1000 {areas[name]:.0f}, the best plain rival, {best}, {areas[best]:.0f}"
            pays = "pays" if areas[name] < areas[best] else "does not pay here"
            notes.append(f"the verifier {pays}: {numbers}, on {evaluation.n} rows")
    return tuple(notes)


def check_draws(n_bootstrap: int) -> None:
    """Raise unless `n_bootstrap` is a number of draws, or 0 for none."""
    if n_bootstrap != 0:
        check_positive(n_bootstrap, "n_bootstrap")


def evaluate_sets(sets: Mapping[str, AnsweredSet], options: EvaluationOptions) -> Evaluation:
    """Return every metric of sets that `answered_sets` made."""
    inside = sets[TEST]
    test, known = inside.outputs, inside.familiarity
    tables = _tables_of_set(TEST, sets[TEST], options)
    for name, answered in sets.items():
        if name == TEST:
            continue
        tables |= _tables_of_set(name, answered, options)
        measures = {
            x: detection_measures(inside, answered, (inside.confidence(x), answered.confidence(x)))
            for x in inside.probs
        }
        by = "lower confidence"
        if known is not None and answered.familiarity is not None:
            measures[FAMILIARITY] = detection_measures(inside, answered, (known, answered.familiarity))
            by = "lower confidence, and by familiarity"
        n_rows = len(answered.outputs)
        caption = f"{name}: OOD detection by {by}, {n_rows} rows against the {len(test)} of {TEST}"
        tables[f"{name}/detection"] = _table(caption, len(test) + n_rows, measures, options)
    return Evaluation(n=len(test), n_classes=test.n_classes, options=options, tables=tables)


def _tables_of_set(name: str, answered: AnsweredSet, options: EvaluationOptions) -> dict[str, Table]:
    outputs, methods = answered.outputs, list(answered.probs)
    if outputs.labels is None:
        return {}
    measures = {method: row_measures(answered, method, options) for method in methods}
    tables = {name: _table(f"{name}: {len(outputs)} rows", len(outputs), measures, options)}
    if outputs.groups is not None and has_entities(outputs):
        n_sentences = len(np.unique(outputs.groups))
        measures = {method: entity_measures(answered, method, options) for method in methods}
        caption = f"{name}: entities in {n_sentences} sentences"
        tables[f"{name}/entities"] = _table(caption, n_sentences, measures, options)
        if answered.readings:
            measures = {method: sentence_measures(answered, method, options) for method in methods}
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
    weighted = any(x.weights is not None for found in measures.values() for x in found.values())
    caption += ", weighted" if weighted else ""
    return Table(caption=caption, n=n, scores=scores, intervals=intervals, weighted=weighted)
