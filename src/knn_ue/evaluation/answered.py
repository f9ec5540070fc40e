"""What each method answers on each set: every calibrator is asked once per set, the raw model stands beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from knn_ue.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_not_empty,
    float_vector,
    probability_matrix,
    read_only,
    softmax,
)
from knn_ue.calibrators import Calibrator
from knn_ue.entities import SentenceReading, is_tagged
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation.proximity import ProximitySpace
from knn_ue.evaluation.tables import RAW, TEST
from knn_ue.familiarity import Familiarity
from knn_ue.metrics.weights import checked_weights
from knn_ue.types import Outputs

_ONE = "calibrated"
_DIGITS = 14
_LEAST_ROUNDED = 1e-6
_ELSEWHERE = "out_of_domain"
_MOST_NEAR = 2000  # validation rows to be near to: in tagging there are many thousand words

SampleWeight = FloatArray | Mapping[str, FloatArray]  # of the test rows, or of each set by its name


@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredSet:
    """The rows of a set and the probabilities (n, classes) that each method gave them, the raw model's first.

    `readings` are those of the methods that have a score for each entity and each sentence; `familiarity` (n,) is
    higher the more a row is like the training data, None where that was not measured. `weights` (n,) are what each row
    counts, with a mean of 1 over the rows that count; None where each counts once. `proximity` (n,) is higher the
    nearer a row is to validation rows, None without features of both.
    """

    outputs: Outputs
    probs: Mapping[str, FloatArray]
    readings: Mapping[str, SentenceReading] = field(default_factory=dict)
    familiarity: FloatArray | None = None
    weights: FloatArray | None = None
    proximity: FloatArray | None = None

    @property
    def predicted(self) -> IntArray:
        """The answers (n,) of every method: the model's own, also where a method finds another class more probable."""
        return self.outputs.predicted

    @property
    def correct(self) -> BoolArray:
        """Whether each answer is right (n,); raises where there are no labels."""
        right: BoolArray = self.predicted == self.outputs.require_labels("whether answers are right")
        return right

    def confidence(self, method: str) -> FloatArray:
        """Return the probability (n,) that a method gives the model's answers, as `Calibrator.predict` does."""
        given = self.probs[method][np.arange(len(self.outputs)), self.predicted]
        return np.minimum(given, 1.0)  # rows may sum to a little more

    @property
    def counted(self) -> BoolArray:
        """Which rows count at all (n,)."""
        return np.ones(len(self.outputs), dtype=bool) if self.weights is None else self.weights > 0

    def mean(self, values: FloatArray | BoolArray, among: BoolArray | None = None) -> float:
        """Return the mean of `values` (n,) over the rows `among` (n,) these, or all, as much as each counts."""
        rows = self.counted if among is None else self.counted & among
        return float(np.average(values[rows], weights=None if self.weights is None else self.weights[rows]))


def answered_sets(
    calibrator: Calibrator | Mapping[str, Calibrator],
    test: Outputs,
    out_of_domain: Outputs | Mapping[str, Outputs] | None = None,
    familiarity: Familiarity | None = None,
    sample_weight: SampleWeight | None = None,
    validation: Outputs | None = None,
) -> dict[str, AnsweredSet]:
    """Ask each calibrator once about each set; "test" comes first, and the raw model first in each."""
    calibrators = _named_calibrators(calibrator)
    test.require_labels("evaluate")
    sets = {TEST: test} | _named_sets(out_of_domain, test)
    weights = _weights_of_sets(sample_weight, sets)
    near = _near_to(validation)
    answered = {}
    for name, outputs in sets.items():
        proximity = None if near is None or outputs.features is None else near.proximity(outputs)
        known = None if familiarity is None else -familiarity.score(outputs)
        given = {"familiarity": known, "weights": weights.get(name), "proximity": proximity}
        answered[name] = _answered(calibrators, outputs, given)
    return answered


def check_set_name(name: str) -> None:
    """Raise where an out-of-domain set cannot have this name."""
    if name == TEST or "/" in name:
        raise InvalidInputError(f"an out-of-domain set must not be named {name!r}: avoid {TEST!r} and slashes")


def mean_of_one(weights: FloatArray) -> FloatArray:
    """Return weights (n,), not all 0, scaled so that those of the rows that count have a mean of 1.

    Then only their ratios matter. Numbers that depend on how many rows there are take it to be that of those rows.

    >>> mean_of_one(np.array([0.0, 0.1, 0.3]))
    array([0. , 0.5, 1.5])
    """
    scaled: FloatArray = weights / weights[weights > 0].mean()
    return scaled


def _answered(
    calibrators: Mapping[str, Calibrator], outputs: Outputs, given: Mapping[str, FloatArray | None]
) -> AnsweredSet:
    raw, readings = softmax(outputs.logits), {}
    if outputs.decoded is not None:
        # A model may state the same confidence each time: what differs by the order of a sum alone is no ranking.
        raw = np.where(raw > _LEAST_ROUNDED, np.round(raw, _DIGITS), raw)
    probs = {RAW: raw}
    for name, calibrator in calibrators.items():
        if calibrator.reads_entities and is_tagged(outputs):
            found = calibrator.search(outputs)  # once, for words and entities
            found_probs = calibrator.predict_proba(outputs, found=found)
            readings[name] = calibrator.read(outputs, found=found)
        else:
            found_probs = calibrator.predict_proba(outputs)
        probs[name] = probability_matrix(found_probs, f"the probabilities of {name}")
        if probs[name].shape != outputs.logits.shape:
            raise InvalidInputError(
                f"{name} gave probabilities of shape {probs[name].shape} for logits of shape {outputs.logits.shape}: "
                "it must give one row per example and one column per class"
            )
    return AnsweredSet(outputs=outputs, probs=probs, readings=readings, **given)


def _near_to(validation: Outputs | None) -> ProximitySpace | None:
    """Return what rows are near to; None without features."""
    if validation is None or validation.features is None or not len(validation):
        return None
    spread = np.linspace(0, len(validation) - 1, min(len(validation), _MOST_NEAR)).astype(np.int64)
    return ProximitySpace.measure(validation.take(spread))


def _named_calibrators(calibrator: Calibrator | Mapping[str, Calibrator]) -> dict[str, Calibrator]:
    named = dict(calibrator) if isinstance(calibrator, Mapping) else {_ONE: calibrator}
    if not named:
        raise InvalidInputError("evaluate needs at least one calibrator, got an empty mapping: pass {name: calibrator}")
    if RAW in named:
        raise InvalidInputError(f"a calibrator must not be named {RAW!r}: the model itself is; choose another name")
    for name, found in named.items():
        if not all(hasattr(found, needed) for needed in ("predict_proba", "reads_entities", "explains")):
            raise InvalidInputError(
                f"{name} must be a fitted calibrator, got a {type(found).__name__}: call evaluate(calibrator, test), "
                "with a subclass of Calibrator for a method of your own"
            )
    return named


def _named_sets(out_of_domain: Outputs | Mapping[str, Outputs] | None, test: Outputs) -> dict[str, Outputs]:
    if out_of_domain is None:
        return {}
    sets = {_ELSEWHERE: out_of_domain} if isinstance(out_of_domain, Outputs) else dict(out_of_domain)
    for name, outputs in sets.items():
        check_set_name(name)
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


def _weights_of_sets(given: SampleWeight | None, sets: Mapping[str, Outputs]) -> dict[str, FloatArray]:
    named = given if isinstance(given, Mapping) else {} if given is None else {TEST: given}
    unknown = next((name for name in named if name not in sets), None)
    if unknown is not None:
        raise InvalidInputError(
            f"sample_weight names the set {unknown!r}, which is not evaluated: choose among {', '.join(sets)}"
        )
    return {name: _weights_of_rows(weights, sets[name], name) for name, weights in named.items()}


def _weights_of_rows(given: object, outputs: Outputs, name: str) -> FloatArray:
    """Return what each row counts (n,): in tagging all words of a sentence count alike."""
    called = "sample_weight" if name == TEST else f"sample_weight of {name!r}"
    weights = float_vector(given, called)
    if outputs.groups is not None:
        starts = np.flatnonzero(np.diff(outputs.groups, prepend=-1))
        n_words = np.diff(starts, append=len(outputs))
        if len(weights) == len(starts):
            weights = np.repeat(weights, n_words)
        elif len(weights) != len(outputs):
            raise InvalidInputError(
                f"{called} has {len(weights)} numbers for {len(starts)} sentences with {len(outputs)} words: "
                "pass one per sentence"
            )
        uneven = np.flatnonzero(weights != np.repeat(weights[starts], n_words))
        if len(uneven) and is_tagged(outputs):
            sentence = int(np.searchsorted(starts, uneven[0], side="right")) - 1
            raise InvalidInputError(
                f"{called} must be the same for all words of a sentence, sentence {sentence} has "
                f"{weights[starts[sentence]]:.6g} and {weights[uneven[0]]:.6g}: pass one number per sentence"
            )
    checked = checked_weights(weights, len(outputs), called)
    assert checked is not None
    scaled: FloatArray = read_only(mean_of_one(checked.values[:, 0]))
    return scaled
