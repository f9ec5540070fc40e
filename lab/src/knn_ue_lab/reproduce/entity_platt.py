"""The simple rival of entity scores: Platt scaling of whole entities. Platt (1999).

score = sigmoid(slope * log-odds of p + intercept), p the product of the softmax confidences of the entity's words. It
is fitted, as `knn-ue-entity` is, on whether the predicted entities of validation sentences are right, and reads nothing
else. It is a method of these experiments only.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, softmax
from knn_ue.entities import Spans, find_entities
from knn_ue.familiarity import span_means
from knn_ue.types import Outputs

_LEAST = 1e-12


@dataclass(frozen=True)
class EntityPlatt:
    """What was fitted."""

    slope: float
    intercept: float

    @classmethod
    def fit(cls, validation: Outputs) -> Self:
        """Learn from labeled sentences how often entities of a confidence are right."""
        predicted = find_entities(validation, validation.predicted)
        gold = find_entities(validation, validation.require_labels("Platt scaling of entities"))
        return cls(*fit_platt(log_odds(product_confidence(validation, predicted)), predicted.same_in(gold)))

    def factors(self, outputs: Outputs) -> FloatArray:
        """Return factors (n,) of the words whose product over an entity is its score."""
        spans = find_entities(outputs, outputs.predicted)
        odds = self.slope * log_odds(product_confidence(outputs, spans)) + self.intercept
        factors = np.ones(len(outputs))
        factors[spans.first] = 1.0 / (1.0 + np.exp(-odds))
        return factors


def product_confidence(outputs: Outputs, spans: Spans) -> FloatArray:
    """Return the product (m,) of the softmax confidences of the words of each entity."""
    confidence = softmax(outputs.logits)[np.arange(len(outputs)), outputs.predicted]
    lengths = spans.last + 1 - spans.first
    product: FloatArray = np.exp(span_means(np.log(confidence), spans.first, spans.last + 1) * lengths)
    return product


def log_odds(confidence: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)), finite also at 0 and 1."""
    clipped = np.clip(confidence, _LEAST, 1 - _LEAST)
    odds: FloatArray = np.log(clipped) - np.log1p(-clipped)
    return odds


def fit_platt(odds: FloatArray, right: BoolArray) -> tuple[float, float]:
    """Return slope and intercept of the least log-loss, with Platt's targets, which are never quite 0 or 1.

    >>> slope, intercept = fit_platt(np.array([-1.0, -1.0, 1.0, 1.0]), np.array([False, False, True, True]))
    >>> round(slope, 3), abs(intercept) < 1e-6  # targets 1/4 and 3/4: the log-odds of 3/4 at 1
    (1.099, True)
    """
    from scipy.optimize import minimize

    if not len(odds):
        return 1.0, 0.0
    n_right = int(right.sum())
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        z = x[0] * odds + x[1]
        loss = np.logaddexp(0.0, z) - targets * z
        slope = 1.0 / (1.0 + np.exp(-z)) - targets
        return float(loss.sum()), np.array([slope @ odds, slope.sum()])

    found = minimize(objective, np.array([1.0, 0.0]), jac=True, method="BFGS").x
    return float(found[0]), float(found[1])
