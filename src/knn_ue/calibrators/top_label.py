"""Calibrators of the confidence in the predicted class: a temperature first, then a map from that to another one."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.types import Outputs
from knn_ue.weighting import Temperature, fit_temperature


class TopLabelCalibrator(Calibrator):
    """Gives the predicted class a new probability; the other classes share the rest in their old proportions.

    The map starts from softmax(logits / T), T fitted by the validation log-loss, so that it does not depend on the
    scale of the logits. The predicted class may end up with less than another one: it is still the answer.
    """

    keeps_prediction: ClassVar[bool] = False

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays."""

        temperature_: Temperature

    temperature_: float

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        labels = validation.require_labels(f"{type(self).__name__}.fit")
        self.temperature_ = fit_temperature(validation.logits, labels)
        self._fit_top(validation, self._confidence(validation), validation.predicted == labels)

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        probs = softmax(outputs.logits, np.full(len(outputs), 1.0 / self.temperature_))
        return with_top(probs, outputs.predicted, self._top(outputs, self._confidence(outputs)))

    def _confidence(self, outputs: Outputs) -> FloatArray:
        probs = softmax(outputs.logits, np.full(len(outputs), 1.0 / self.temperature_))
        confidence: FloatArray = probs[np.arange(len(outputs)), outputs.predicted]
        return confidence

    @abstractmethod
    def _fit_top(self, validation: Outputs, confidence: FloatArray, correct: BoolArray, /) -> None: ...

    @abstractmethod
    def _top(self, outputs: Outputs, confidence: FloatArray, /) -> FloatArray: ...


def with_top(probs: FloatArray, predicted: IntArray, top: FloatArray) -> FloatArray:
    """Return `probs` (n, classes) with the probability `top` (n,) of the predicted class, the rest in proportion.

    Where the others had nothing they share it evenly.

    >>> with_top(np.array([[0.5, 0.25, 0.25]]), np.array([0]), np.array([0.8]))
    array([[0.8, 0.1, 0.1]])
    """
    rows = np.arange(len(probs))
    others = probs.astype(np.float64)
    others[rows, predicted] = 0.0
    total = others.sum(axis=1, keepdims=True)
    even = np.full_like(others, 1.0 / (others.shape[1] - 1))
    even[rows, predicted] = 0.0
    shares = np.divide(others, total, out=even, where=total > 0)
    spread: FloatArray = shares * (1.0 - top)[:, None]
    spread[rows, predicted] = top
    return spread
