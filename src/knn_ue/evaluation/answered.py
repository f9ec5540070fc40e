"""What each method answers on each set: every calibrator is asked once per set, the raw model stands beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_not_empty, probability_matrix, softmax
from knn_ue.calibrators.contract import Calibrator
from knn_ue.entities import SentenceReading, is_tagged
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation.tables import RAW, TEST
from knn_ue.familiarity import Familiarity
from knn_ue.types import Outputs

_ONE = "calibrated"
_ELSEWHERE = "out_of_domain"


@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredSet:
    """The rows of a set and the probabilities (n, classes) that each method gave them, the raw model's first.

    `readings` are those of the methods that have a score for each entity and each sentence; `familiarity` (n,) is
    higher the more a row is like the training data, None where that was not measured.
    """

    outputs: Outputs
    probs: Mapping[str, FloatArray]
    readings: Mapping[str, SentenceReading] = field(default_factory=dict)
    familiarity: FloatArray | None = None

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


def answered_sets(
    calibrator: Calibrator | Mapping[str, Calibrator],
    test: Outputs,
    out_of_domain: Outputs | Mapping[str, Outputs] | None = None,
    familiarity: Familiarity | None = None,
) -> dict[str, AnsweredSet]:
    """Ask each calibrator once about each set; "test" comes first, and the raw model first in each."""
    calibrators = _named_calibrators(calibrator)
    test.require_labels("evaluate")
    sets = {TEST: test} | _named_sets(out_of_domain, test)
    return {name: _answered(calibrators, outputs, familiarity) for name, outputs in sets.items()}


def _answered(calibrators: Mapping[str, Calibrator], outputs: Outputs, familiarity: Familiarity | None) -> AnsweredSet:
    probs, readings = {RAW: softmax(outputs.logits)}, {}
    for name, calibrator in calibrators.items():
        if calibrator.reads_entities and is_tagged(outputs):
            found = calibrator.search(outputs)  # once, for words and entities
            given = calibrator.predict_proba(outputs, found=found)
            readings[name] = calibrator.read(outputs, found=found)
        else:
            given = calibrator.predict_proba(outputs)
        probs[name] = probability_matrix(given, f"the probabilities of {name}")
        if probs[name].shape != outputs.logits.shape:
            raise InvalidInputError(
                f"{name} gave probabilities of shape {probs[name].shape} for logits of shape {outputs.logits.shape}: "
                "it must give one row per example and one column per class"
            )
    known = None if familiarity is None else -familiarity.score(outputs)
    return AnsweredSet(outputs=outputs, probs=probs, readings=readings, familiarity=known)


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
