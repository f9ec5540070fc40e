"""Every number of the tables: its name, how it is computed from answers, its unit and its direction."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import FloatArray, IntArray
from knn_ue.metrics.detection import ood_measure
from knn_ue.metrics.weights import Draws, ratio, value_of_each_draw
from knn_ue_lab.reproduce.answers import Answers

# How often each answer of a sample is drawn; None where the sample is taken as it is.
Drawn = Draws | None
# A measure: one number, or one per draw.
Number = float | FloatArray

# Tables have two digits after the point: a smaller difference is none, however sure a test is of it.
VISIBLE = 0.005


class _MeasureOfAnswers:
    """What both kinds of measures have: which way is better, and values for many draws of the texts."""

    higher_is_better: bool
    function: Any

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return "↑" if self.higher_is_better else "↓"

    def drawn(self, *sample: Any) -> FloatArray:
        """Return the measure of a sample for each draw (draws,), NaN where it is not defined.

        `sample` is the answers of one set or two, then for each set how often every answer is drawn, (answers, draws).
        """
        half = len(sample) // 2
        value = self.function(*sample[:half], *map(Draws, sample[half:]))
        by_draw: FloatArray = np.broadcast_to(value, sample[-1].shape[1:])
        return by_draw


@dataclass(frozen=True, kw_only=True)
class AnswerMeasure(_MeasureOfAnswers):
    """One number of a test set: `function` of answers gives a fraction, tables show it times `unit`.

    With `Draws` as a second argument the function gives one value per draw. `definition` says in words how it is
    computed where the published one and ours differ. Without a function, or where it is not `tested`, it is only shown:
    cells hold it, but no test is made of it, since a value for each draw would take hours. `has_floor` says that even a
    perfectly calibrated model has some of it.
    """

    title: str
    function: Callable[..., Any] | None = None
    unit: float = 100.0
    higher_is_better: bool = False
    definition: str = ""
    tested: bool = True
    has_floor: bool = False


@dataclass(frozen=True, kw_only=True)
class DetectionMeasure(_MeasureOfAnswers):
    """One number of in-domain answers beside answers elsewhere; shown in percent."""

    title: str
    field: str
    higher_is_better: bool = True
    unit: float = 100.0
    definition: str = ""
    tested: bool = True

    def function(
        self, inside: Answers, outside: Answers, inside_draws: Drawn = None, outside_draws: Drawn = None
    ) -> Any:
        """Return the number as a fraction, NaN where either has no answer (a set without entities)."""
        known, known_draws = _given(inside, inside_draws)
        others, other_draws = _given(outside, outside_draws)
        if not len(known.confidence) or not len(others.confidence):
            return math.nan
        confidence = {"id_confidence": known.confidence, "ood_confidence": others.confidence}
        if known_draws is None:
            return ood_measure(self.field, **confidence)
        weights = {"id_sample_weight": known_draws, "ood_sample_weight": other_draws}
        return value_of_each_draw(partial(ood_measure, self.field), **confidence, **weights)


def _given(answers: Answers, draws: Drawn) -> tuple[Answers, Drawn]:
    """Return the answers that were given, and how often each is drawn."""
    if answers.missed is None:
        return answers, draws
    rows = np.flatnonzero(~answers.missed)
    return answers.take(rows), None if draws is None else Draws(draws.counts[rows])


def _value(metric: Callable[..., float], draws: Drawn, **arrays: Any) -> Number:
    return metric(**arrays) if draws is None else value_of_each_draw(metric, sample_weight=draws, **arrays)


def _scored(metric: Callable[..., float], answers: Answers, draws: Drawn = None) -> Number:
    """Return a metric of confidence and correctness, NaN where there is no answer."""
    if not len(answers.confidence) or answers.correct is None:
        return math.nan
    return _value(metric, draws, confidence=answers.confidence, correct=answers.correct)


def _of_given(metric: Callable[..., float]) -> Callable[..., Number]:
    """Return the metric as one of the answers that were given."""
    return lambda answers, draws=None: _scored(metric, *_given(answers, draws))


def _mean(values: FloatArray, draws: Drawn) -> Number:
    """Return the mean of some values, NaN where there is none."""
    if not len(values):
        return math.nan
    return float(np.mean(values)) if draws is None else ratio(values @ draws.counts, draws.counts.sum(axis=0))


def _mean_of(rows: IntArray, values: FloatArray, draws: Drawn) -> Number:
    return _mean(values[rows], None if draws is None else Draws(draws.counts[rows]))


def _class_auroc(answers: Answers, draws: Drawn = None) -> Number:
    if answers.probs is None or answers.labels is None:
        return math.nan
    return _value(metrics.class_auroc, draws, probs=answers.probs, labels=answers.labels)


def _right(answers: Answers, draws: Drawn = None) -> Number:
    given, drawn = _given(answers, draws)
    return math.nan if given.correct is None else _mean(given.correct.astype(np.float64), drawn)


def _f1(answers: Answers, draws: Drawn = None) -> Number:
    if answers.missed is None or answers.correct is None:
        return math.nan
    return _value(metrics.entity_f1, draws, correct=answers.correct, missed=answers.missed)


def _confidence(answers: Answers, draws: Drawn = None, *, right: bool) -> Number:
    given, drawn = _given(answers, draws)
    return _mean_of(np.flatnonzero(given.correct == right), given.confidence, drawn)


def _human(answers: Answers, draws: Drawn = None) -> Number:
    if answers.human is None:
        return math.nan
    if draws is None:
        return math.nan if np.isnan(answers.human).all() else float(np.nanmean(answers.human))
    return _mean_of(np.flatnonzero(~np.isnan(answers.human)), answers.human, draws)


def _piece(answers: Answers, draws: Drawn = None) -> Number:
    given, drawn = _given(answers, draws)
    if given.proximity is None or given.correct is None or not len(given.proximity):
        return math.nan
    known = {"confidence": given.confidence, "correct": given.correct, "proximity": given.proximity}
    return _value(metrics.proximity_informed_calibration_error, drawn, **known)


MEASURES: Mapping[str, AnswerMeasure] = {
    "right": AnswerMeasure(title="right answers", function=_right, higher_is_better=True),
    "f1": AnswerMeasure(title="F1", function=_f1, higher_is_better=True),
    "ece": AnswerMeasure(title="ECE", function=_of_given(metrics.expected_calibration_error), has_floor=True),
    "mce": AnswerMeasure(title="MCE", function=_of_given(metrics.maximum_calibration_error), has_floor=True),
    "class_auroc": AnswerMeasure(
        title="AUROC",
        function=_class_auroc,
        higher_is_better=True,
        definition="published: how well probabilities tell the classes apart, not right answers from wrong ones",
    ),
    "auroc": AnswerMeasure(
        title="AUROC",
        function=_of_given(metrics.auroc),
        higher_is_better=True,
        definition="ours: the chance that a right answer has more confidence than a wrong one",
    ),
    "e_aurc_published": AnswerMeasure(
        title="E-AURC",
        function=partial(_scored, partial(metrics.e_aurc, convention="paper")),
        unit=1000.0,
        definition="published: errors divided by n + 1, ties by row order, missed entities as errors at confidence 0",
    ),
    "e_aurc": AnswerMeasure(
        title="E-AURC",
        function=_of_given(metrics.e_aurc),
        unit=1000.0,
        definition="ours: errors divided by n, ties averaged, answers that were given only",
    ),
    "brier": AnswerMeasure(
        title="Brier",
        function=_of_given(metrics.brier_top_label),
        definition="squared, of the predicted class",
    ),
    "smooth_ece": AnswerMeasure(
        title="smooth ECE", function=_of_given(metrics.smooth_calibration_error), tested=False, definition="no bins"
    ),
    "piece": AnswerMeasure(
        title="PIECE",
        function=_piece,
        tested=False,
        definition="the ECE of ten groups by proximity to validation rows, weighted by their size",
    ),
    "augrc": AnswerMeasure(
        title="AUGRC",
        function=_of_given(metrics.augrc),
        unit=1000.0,
        definition="the chance that an answer is wrong and given, averaged over thresholds",
    ),
    "brier_calibration": AnswerMeasure(
        title="Brier, calibration",
        function=_of_given(metrics.brier_calibration),
        tested=False,
        definition="what the best rising map of the confidence would take off; the rest is refinement",
    ),
    "brier_refinement": AnswerMeasure(
        title="Brier, refinement", function=_of_given(metrics.brier_refinement), tested=False
    ),
    "nll_calibration": AnswerMeasure(
        title="NLL, calibration",
        function=_of_given(metrics.nll_calibration),
        unit=1.0,
        tested=False,
        definition="of the log-loss of the answer being right, in nats; as for the Brier score",
    ),
    "nll_refinement": AnswerMeasure(
        title="NLL, refinement", function=_of_given(metrics.nll_refinement), unit=1.0, tested=False
    ),
    "risk_at_80": AnswerMeasure(
        title="risk at 80 % coverage", function=_of_given(metrics.risk_at_coverage), tested=False
    ),
    "coverage_at_5": AnswerMeasure(
        title="coverage at 5 % risk", function=_of_given(metrics.coverage_at_risk), higher_is_better=True, tested=False
    ),
    "confidence_right": AnswerMeasure(
        title="confidence, right", function=partial(_confidence, right=True), unit=1.0, higher_is_better=True
    ),
    "confidence_wrong": AnswerMeasure(title="confidence, wrong", function=partial(_confidence, right=False), unit=1.0),
    "human": AnswerMeasure(
        title="distance to human labels",
        function=_human,
        definition="mean total variation distance between the probabilities and the shares of human votes, "
        "of the classes the model knows",
    ),
}

# Of kNN-UE alone, and costs; times are told in the tables.
SHOWN: Mapping[str, AnswerMeasure] = {
    "weight_right": AnswerMeasure(title="W, right", unit=1.0, higher_is_better=True),
    "weight_wrong": AnswerMeasure(title="W, wrong", unit=1.0),
    "coverage": AnswerMeasure(title="coverage", higher_is_better=True),
    "seconds": AnswerMeasure(title="time", unit=1.0),
}

DETECTION: Mapping[str, DetectionMeasure] = {
    "fpr95": DetectionMeasure(title="FPR@95", field="fpr95", higher_is_better=False),
    "detection_auroc": DetectionMeasure(title="AUROC", field="auroc"),
    "aupr_in": DetectionMeasure(title="AUPR-In", field="aupr_in", definition="ours: in-domain rows are to be found"),
    "aupr_out": DetectionMeasure(
        title="AUPR-Out", field="aupr_out", definition="ours: out-of-domain rows are to be found"
    ),
    "aupr_in_published": DetectionMeasure(
        title="AUPR-In", field="aupr_out", definition="published: In and Out are swapped in the published code"
    ),
    "aupr_out_published": DetectionMeasure(
        title="AUPR-Out", field="aupr_in", definition="published: In and Out are swapped in the published code"
    ),
}

# Beside a published number stands the number by its definition, and ours in a second column.
OURS: Mapping[str, str] = {
    "class_auroc": "auroc",
    "e_aurc_published": "e_aurc",
    "aupr_in_published": "aupr_in",
    "aupr_out_published": "aupr_out",
}


def measure_of(name: str) -> AnswerMeasure | DetectionMeasure:
    """Return the measure of a name."""
    if name in DETECTION:
        return DETECTION[name]
    return MEASURES[name] if name in MEASURES else SHOWN[name]


def scores_of(answers: Answers) -> dict[str, float]:
    """Return every measure of the answers that is defined, as fractions."""
    found: dict[str, float] = {}
    if answers.correct is not None:
        found = {name: one.function(answers) for name, one in MEASURES.items() if one.function is not None}
    found["confidence"] = float(np.mean(answers.given().confidence)) if len(answers.given().confidence) else math.nan
    return {name: value for name, value in found.items() if not math.isnan(value)}


def detection_of(inside: Answers, outside: Answers) -> dict[str, float]:
    """Return how well confidence tells in-domain answers from others, as fractions."""
    found = {name: measure.function(inside, outside) for name, measure in DETECTION.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}
