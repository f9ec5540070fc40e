"""Mahalanobis: a temperature that grows with the distance to the nearest class mean. Lee et al. (2018).

The distance itself ranks examples; it is no probability. `score` gives it as it is. The map to a confidence is stated
and fitted on validation: softmax(logits / T) with T = w0 + w1 * distance, w0 and w1 >= 0, by the log-loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_not_empty, float_matrix, label_vector
from knn_ue.calibrators.contract import Found, LogitScaling
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule
from knn_ue.types import Outputs
from knn_ue.weighting import TemperatureMap, fit_temperature_map

_SHRINKAGE = 1e-3
_LARGEST = 1e100  # products of a feature, a whitening and their sums stay finite


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Means (classes present, d) of training features, and the whitening (d, d) of their shared covariance.

    The covariance is shrunk by 0.1 % towards a multiple of the identity, so that constant columns and fewer rows than
    columns are no problem. All in float64.
    """

    means: FloatArray
    whitening: FloatArray

    @classmethod
    def estimate(cls, features: object, labels: object) -> "ClassStatistics":
        """Estimate from labeled training features (n, d)."""
        matrix = float_matrix(features, "features", dtype=np.float64)
        check_not_empty(len(matrix), "features")
        classes = label_vector(labels, "labels", length=len(matrix))
        present, positions = np.unique(classes, return_inverse=True)
        means = np.stack([matrix[classes == label].mean(axis=0) for label in present])
        centered = matrix - means[positions]
        covariance = centered.T @ centered / len(matrix)
        average = float(np.trace(covariance)) / len(covariance) or 1.0
        shrunk = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * average * np.eye(len(covariance))
        return cls(means, np.linalg.inv(np.linalg.cholesky(shrunk)))

    def distance(self, features: FloatArray) -> FloatArray:
        """Return the Mahalanobis distance (n,) to the nearest class mean, computed from differences."""
        whitened_means = self.means @ self.whitening.T
        nearest = np.full(len(features), np.inf)
        whitened = features.astype(np.float64) @ self.whitening.T
        for mean in whitened_means:
            nearest = np.minimum(nearest, np.linalg.norm(whitened - mean, axis=1))
        return nearest


class MahalanobisScaling(LogitScaling):
    """softmax(logits / T), T = w0 + w1 * the Mahalanobis distance to the nearest class mean of the training set.

    `from_training` measures the means. The distance is that of Lee et al. (2018).
    """

    kind: ClassVar[str] = "mahalanobis"

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays."""

        temperature_map_: TemperatureMap

    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "statistics.means": ArrayRule(dtype=np.float64, shape=("classes", "columns"), least=-_LARGEST, most=_LARGEST),
        "statistics.whitening": ArrayRule(
            dtype=np.float64, shape=("columns", "columns"), least=-_LARGEST, most=_LARGEST
        ),
    }

    statistics: ClassStatistics
    temperature_map_: TemperatureMap

    def __init__(self, statistics: ClassStatistics) -> None:
        self.statistics = statistics

    @classmethod
    def from_training(cls, train: Outputs) -> Self:
        """Estimate the statistics from labeled training outputs."""
        purpose = "MahalanobisScaling.from_training"
        return cls(ClassStatistics.estimate(train.require_features(purpose), train.require_labels(purpose)))

    def score(self, outputs: Outputs) -> FloatArray:
        """Return the Mahalanobis distance (n,) to the nearest class mean: larger is less certain."""
        features = outputs.require_features("MahalanobisScaling")
        if features.shape[1] != self.statistics.means.shape[1]:
            raise InvalidInputError(
                f"features must have {self.statistics.means.shape[1]} columns, got {features.shape[1]}: "
                "use the same encoder"
            )
        return self.statistics.distance(features)

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        labels: IntArray = validation.require_labels("MahalanobisScaling.fit")
        self.temperature_map_ = fit_temperature_map(validation.logits, labels, self.score(validation)[:, None])

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return self.temperature_map_.weight(self.score(outputs)[:, None])

    def _check_restored(self) -> None:
        if len(self.temperature_map_.slopes) != 1:
            raise ValueError("it needs one slope")
