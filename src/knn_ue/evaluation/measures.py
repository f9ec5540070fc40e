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
from knn_ue.evaluation.answered import AnsweredSet, mean_of_one
from knn_ue.evaluation.tables import EvaluationOptions
from knn_ue.familiarity import span_means
from knn_ue.metrics import EntityScores, Interval
from knn_ue.metrics.detection import ood_measure
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """A metric and the arrays it reads, of m rows each; `groups` (m,) are drawn together in a bootstrap.

    `weights` (m,) are what each row counts, whatever their unit; a draw takes a row together with its weight.
    """

    metric: Callable[..., float]
    arrays: Mapping[str, npt.NDArray[Any]]
    groups: IntArray | None
    weights: FloatArray | None = None

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays in order, the weights last."""
        return (*self.arrays.values(), *(() if self.weights is None else (self.weights,)))

    def value(self) -> float:
        """Return the metric of all rows, NaN where there is none."""
        return self.of(*self.columns)

    def of(self, *columns: npt.NDArray[Any]) -> float:
        """Return the metric of drawn rows, given as `columns`; NaN where no row counts."""
        given = dict(zip(self.arrays, columns, strict=False))
        if self.weights is None:
            return float(self.metric(**given)) if len(columns[0]) else math.nan
        weights = columns[-1]
        return float(self.metric(**given, sample_weight=mean_of_one(weights))) if weights.any() else math.nan

    def interval(self, options: EvaluationOptions) -> Interval:
        """Return the bootstrap interval of the metric, NaN where there is no row."""
        if not len(self):
            return Interval(low=math.nan, high=math.nan, estimate=math.nan)
        return metrics.bootstrap_interval(
            self.of,
            *self.columns,
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
    drawn: dict[str, Any] = {"groups": outputs.groups, "weights": answered.weights}
    full = partial(Measure, arrays=all_classes, **drawn)
    given = {"confidence": answered.confidence(method), "correct": correct}
    top, near = partial(Measure, arrays=given, **drawn), _near(given, answered.proximity, drawn)
    return {
        "accuracy": Measure(metric=_share, arrays={"correct": correct}, **drawn),
        "nll": full(metric=metrics.negative_log_likelihood),
        "brier_multiclass": full(metric=metrics.brier_multiclass),
        "class_wise_ece": full(metric=partial(metrics.class_wise_calibration_error, n_bins=options.n_bins)),
        **_answer_measures(top, top, options, near),
    }


def _answer_measures(
    given: Callable[..., Measure],
    ranked: Callable[..., Measure],
    options: EvaluationOptions,
    near: Callable[..., Measure] | None = None,
) -> Measures:
    """Return the metrics of answers with a confidence: calibration of those `given`, ranking of those `ranked`.

    `near` are those given, with their proximity to validation rows.
    """
    n_bins = options.n_bins
    piece = partial(metrics.proximity_informed_calibration_error, n_bins=n_bins)
    return {
        "ece": given(metric=partial(metrics.expected_calibration_error, n_bins=n_bins)),
        "mce": given(metric=partial(metrics.maximum_calibration_error, n_bins=n_bins)),
        "adaptive_ece": given(metric=partial(metrics.adaptive_calibration_error, n_bins=n_bins)),
        "debiased_ece": given(metric=partial(metrics.debiased_calibration_error, n_bins=n_bins)),
        "smooth_ece": given(metric=metrics.smooth_calibration_error),
        **({} if near is None else {"piece": near(metric=piece)}),
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


def _near(
    given: Mapping[str, npt.NDArray[Any]], proximity: FloatArray | None, drawn: Mapping[str, Any]
) -> Callable[..., Measure] | None:
    return None if proximity is None else partial(Measure, arrays={**given, "proximity": proximity}, **drawn)


def has_entities(outputs: Outputs) -> bool:
    """Say whether the rows are words of sentences, and the classes IOB2 tags."""
    if outputs.class_names is None or outputs.groups is None or outputs.labels is None:
        return False
    return metrics.mark_entities(outputs.class_names)


def entity_measures(answered: AnsweredSet, method: str, options: EvaluationOptions) -> Measures:
    """Return the metrics of the entities in tagged sentences, those that the model predicts.

    An entity's confidence is the one of the method's reading, or without it the product over its words. Calibration
    errors, Brier score and NLL are of the predicted entities; for the ranking each missed one is an error at
    confidence 0. An entity is as near to validation rows as its words are on average.
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
    n_predicted, drawn = len(scores.confidence), dict[str, Any](groups=None)
    if options.n_bootstrap or answered.weights is not None:
        sentence = _sentence_of_each(scores, gold, predicted)
        drawn = {"groups": sentence, "weights": _of_sentences(answered, sentence)}
    first: dict[str, Any] = {name: None if values is None else values[:n_predicted] for name, values in drawn.items()}
    proximity, arrays = answered.proximity, {"confidence": scores.confidence, "correct": scores.correct}
    if proximity is not None:
        spans = find_entities(outputs, answered.predicted)
        proximity = span_means(proximity, spans.first, spans.last + 1)
    given, near = partial(Measure, arrays=arrays, **first), _near(arrays, proximity, first)
    every_confidence, every_correct = scores.ranked()
    ranked = partial(Measure, arrays={"confidence": every_confidence, "correct": every_correct}, **drawn)
    found = {"correct": every_correct, "missed": np.arange(len(every_correct)) >= n_predicted}
    return {
        "f1": Measure(metric=metrics.entity_f1, arrays=found, **drawn),
        **_answer_measures(given, ranked, options, near),
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
    drawn: dict[str, Any] = {"groups": None, "weights": _of_sentences(answered, np.arange(len(correct)))}
    measure = partial(Measure, arrays={"confidence": confidence, "correct": correct}, **drawn)
    return {
        "accuracy": Measure(metric=_share, arrays={"correct": correct}, **drawn),
        **_answer_measures(measure, measure, options),
    }


def detection_measures(inside: AnsweredSet, outside: AnsweredSet, scores: tuple[FloatArray, FloatArray]) -> Measures:
    """Return how well `scores` (n,) and (m,), higher in domain, separate `inside` from `outside` rows.

    A bootstrap draws from both together, so the share of outside rows varies a little.
    """
    confidence = np.concatenate(scores)
    is_inside = np.arange(len(confidence)) < len(inside.outputs)
    groups, weights, sides = None, None, (inside, outside)
    if any(x.outputs.groups is not None for x in sides):
        numbers = [np.arange(len(x.outputs)) if x.outputs.groups is None else x.outputs.groups for x in sides]
        groups = np.concatenate([numbers[0], numbers[1] + numbers[0].max() + 1])
    if any(x.weights is not None for x in sides):
        weights = np.concatenate([np.ones(len(x.outputs)) if x.weights is None else x.weights for x in sides])
    arrays = {"confidence": confidence, "is_inside": is_inside}
    measure = partial(Measure, arrays=arrays, groups=groups, weights=weights)
    return {name: measure(metric=partial(_detection, name=name)) for name in ("fpr95", "auroc", "aupr_in", "aupr_out")}


def _detection(
    *,
    confidence: FloatArray,
    is_inside: BoolArray,
    name: Literal["fpr95", "auroc", "aupr_in", "aupr_out"],
    sample_weight: FloatArray | None = None,
) -> float:
    weights = {}
    if sample_weight is not None:
        counted = sample_weight > 0
        confidence, is_inside, sample_weight = confidence[counted], is_inside[counted], sample_weight[counted]
        weights = {"id_sample_weight": sample_weight[is_inside], "ood_sample_weight": sample_weight[~is_inside]}
    if is_inside.all() or not is_inside.any():
        return math.nan
    return ood_measure(name, id_confidence=confidence[is_inside], ood_confidence=confidence[~is_inside], **weights)


def _share(*, correct: BoolArray, sample_weight: FloatArray | None = None) -> float:
    return float(np.average(correct, weights=sample_weight))


def _of_sentences(answered: AnsweredSet, sentence: IntArray) -> FloatArray | None:
    """Return what each sentence counts whose number, from 0 on, is in `sentence` (m,)."""
    if answered.weights is None:
        return None
    assert answered.outputs.groups is not None
    of_each: FloatArray = answered.weights[np.flatnonzero(np.diff(answered.outputs.groups, prepend=-1))]
    return of_each[sentence]


def _sentence_of_each(scores: EntityScores, gold: list[Any], predicted: list[Any]) -> IntArray:
    """Return the number of the sentence of each predicted entity, then of each missed one."""
    numbers = np.arange(len(gold))
    n_predicted, n_gold = (
        np.array([len(metrics.extract_entities(tags)) for tags in side]) for side in (predicted, gold)
    )
    found = np.repeat(numbers, n_predicted)
    n_correct = np.bincount(found[scores.correct], minlength=len(gold))
    return np.concatenate([found, np.repeat(numbers, n_gold - n_correct)])
