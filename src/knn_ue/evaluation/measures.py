"""Which metrics are taken of which rows: of each example, of entities, and of in-domain against out-of-domain rows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.entities import all_right, find_entities
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation.answered import AnsweredSet
from knn_ue.evaluation.tables import EvaluationOptions
from knn_ue.metrics import EntityScores, Interval
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """A metric and the arrays it reads, of m rows each; `groups` (m,) are drawn together in a bootstrap."""

    metric: Callable[..., float]
    arrays: Mapping[str, npt.NDArray[Any]]
    groups: IntArray | None

    def value(self) -> float:
        """Return the metric of all rows, NaN where there is none."""
        return float(self.metric(**self.arrays)) if len(self) else math.nan

    def interval(self, options: EvaluationOptions) -> Interval:
        """Return the bootstrap interval of the metric, NaN where there is no row."""
        if not len(self):
            return Interval(low=math.nan, high=math.nan, estimate=math.nan)
        return metrics.bootstrap_interval(
            lambda *drawn: float(self.metric(**dict(zip(self.arrays, drawn, strict=True)))),
            *self.arrays.values(),
            n_bootstrap=options.n_bootstrap,
            level=options.level,
            seed=options.seed,
            groups=self.groups,
        )

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))


Measures = dict[str, Measure]


def row_measures(answered: AnsweredSet, method: str, options: EvaluationOptions) -> Measures:
    """Return the metrics of labeled rows: of all their probabilities, and of the confidence in the model's answers."""
    outputs, correct = answered.outputs, answered.correct
    all_classes = {"probs": answered.probs[method], "labels": outputs.require_labels("row_measures")}
    full = partial(Measure, arrays=all_classes, groups=outputs.groups)
    top = partial(
        Measure, arrays={"confidence": answered.confidence(method), "correct": correct}, groups=outputs.groups
    )
    return {
        "accuracy": Measure(metric=_share, arrays={"correct": correct}, groups=outputs.groups),
        "nll": full(metric=metrics.negative_log_likelihood),
        "brier_multiclass": full(metric=metrics.brier_multiclass),
        "class_wise_ece": full(metric=partial(metrics.class_wise_calibration_error, n_bins=options.n_bins)),
        **_answer_measures(top, top, options),
    }


def _answer_measures(
    given: Callable[..., Measure], ranked: Callable[..., Measure], options: EvaluationOptions
) -> Measures:
    """Return the metrics of answers with a confidence: calibration of those `given`, ranking of those `ranked`."""
    n_bins = options.n_bins
    return {
        "ece": given(metric=partial(metrics.expected_calibration_error, n_bins=n_bins)),
        "mce": given(metric=partial(metrics.maximum_calibration_error, n_bins=n_bins)),
        "adaptive_ece": given(metric=partial(metrics.adaptive_calibration_error, n_bins=n_bins)),
        "debiased_ece": given(metric=partial(metrics.debiased_calibration_error, n_bins=n_bins)),
        "smooth_ece": given(metric=metrics.smooth_calibration_error),
        "brier_top_label": given(metric=metrics.brier_top_label),
        "brier_calibration": given(metric=metrics.brier_calibration),
        "brier_refinement": given(metric=metrics.brier_refinement),
        "nll_top_label": given(metric=metrics.nll_top_label),
        "nll_calibration": given(metric=metrics.nll_calibration),
        "nll_refinement": given(metric=metrics.nll_refinement),
        "auroc": ranked(metric=metrics.auroc),
        "aurc": ranked(metric=metrics.aurc),
        "e_aurc": ranked(metric=metrics.e_aurc),
        "augrc": ranked(metric=metrics.augrc),
        "risk_at_80": ranked(metric=partial(metrics.risk_at_coverage, coverage=0.8)),
        "coverage_at_5": ranked(metric=partial(metrics.coverage_at_risk, risk=0.05)),
    }


def has_entities(outputs: Outputs) -> bool:
    """Say whether the rows are words of sentences, and the classes IOB2 tags."""
    if outputs.class_names is None or outputs.groups is None or outputs.labels is None:
        return False
    return metrics.mark_entities(outputs.class_names)


def entity_measures(answered: AnsweredSet, method: str, options: EvaluationOptions) -> Measures:
    """Return the metrics of the entities in tagged sentences, those that the model predicts.

    An entity's confidence is the one of the method's reading, or without it the product over its words. Calibration
    errors, Brier score and NLL are of the predicted entities; for the ranking each missed one is an error at
    confidence 0.
    """
    outputs, reading = answered.outputs, answered.readings.get(method)
    assert outputs.groups is not None and outputs.labels is not None and outputs.class_names is not None
    names = np.array(outputs.class_names)
    gold = metrics.sentences(names[outputs.labels], outputs.groups)
    predicted = metrics.sentences(names[answered.predicted], outputs.groups)
    confidence = metrics.sentences(answered.confidence(method), outputs.groups)
    scores = metrics.score_entities(gold=gold, predicted=predicted, confidence=confidence, aggregate="product")
    if reading is not None:
        if len(reading.scores) != len(scores.confidence):
            raise InvalidInputError(
                f"read() must score each predicted entity: it gave {len(reading.scores)} scores for "
                f"{len(scores.confidence)} entities"
            )
        scores = replace(scores, confidence=reading.scores)
    sentence = _sentence_of_each(scores, gold, predicted) if options.n_bootstrap else None
    given = partial(
        Measure,
        arrays={"confidence": scores.confidence, "correct": scores.correct},
        groups=None if sentence is None else sentence[: len(scores.confidence)],
    )
    every_confidence, every_correct = scores.ranked()
    ranked = partial(Measure, arrays={"confidence": every_confidence, "correct": every_correct}, groups=sentence)
    return {
        "f1": Measure(metric=_f1, arrays={"correct": every_correct}, groups=sentence),
        **_answer_measures(given, ranked, options),
    }


def sentence_measures(answered: AnsweredSet, method: str, options: EvaluationOptions) -> Measures:
    """Return the metrics of whole sentences, right where the predicted entities are exactly the gold ones.

    A sentence's confidence is the one of the method's reading, or without it the product over all its words.
    """
    outputs, reading = answered.outputs, answered.readings.get(method)
    predicted = find_entities(outputs, answered.predicted)
    correct = all_right(predicted, find_entities(outputs, outputs.require_labels("sentence_measures")))
    confidence = np.multiply.reduceat(answered.confidence(method), predicted.starts)
    if reading is not None:
        confidence = reading.sentence_scores
    measure = partial(Measure, arrays={"confidence": confidence, "correct": correct}, groups=None)
    return {
        "accuracy": Measure(metric=_share, arrays={"correct": correct}, groups=None),
        **_answer_measures(measure, measure, options),
    }


def detection_measures(inside: Outputs, outside: Outputs, scores: tuple[FloatArray, FloatArray]) -> Measures:
    """Return how well `scores` (n,) and (m,), higher in domain, separate `inside` from `outside` rows.

    A bootstrap draws from both together, so the share of outside rows varies a little.
    """
    confidence = np.concatenate(scores)
    is_inside = np.arange(len(confidence)) < len(inside)
    groups = None
    if inside.groups is not None or outside.groups is not None:
        numbers = [np.arange(len(x)) if x.groups is None else x.groups for x in (inside, outside)]
        groups = np.concatenate([numbers[0], numbers[1] + numbers[0].max() + 1])
    measure = partial(Measure, arrays={"confidence": confidence, "is_inside": is_inside}, groups=groups)
    return {name: measure(metric=partial(_detection, name=name)) for name in ("fpr95", "auroc", "aupr_in", "aupr_out")}


def _detection(
    *, confidence: FloatArray, is_inside: BoolArray, name: Literal["fpr95", "auroc", "aupr_in", "aupr_out"]
) -> float:
    if is_inside.all() or not is_inside.any():
        return math.nan
    found = metrics.ood_detection(id_confidence=confidence[is_inside], ood_confidence=confidence[~is_inside])
    return float(getattr(found, name))


def _share(*, correct: BoolArray) -> float:
    return float(correct.mean())


def _f1(*, correct: BoolArray) -> float:
    """F1 of predicted and missed entities together: the gold ones are the correct and the missed."""
    return float(2 * correct.sum() / (len(correct) + correct.sum()))


def _sentence_of_each(scores: EntityScores, gold: list[Any], predicted: list[Any]) -> IntArray:
    """Return the number of the sentence of each predicted entity, then of each missed one."""
    numbers = np.arange(len(gold))
    n_predicted, n_gold = (
        np.array([len(metrics.extract_entities(tags)) for tags in side]) for side in (predicted, gold)
    )
    found = np.repeat(numbers, n_predicted)
    n_correct = np.bincount(found[scores.correct], minlength=len(gold))
    return np.concatenate([found, np.repeat(numbers, n_gold - n_correct)])
