"""Mahalanobis++: the distance to the nearest class mean, features of length 1. Mueller and Hein (2025)."""

from knn_ue.arrays import FloatArray
from knn_ue.calibrators import ClassStatistics
from knn_ue.detection.contract import Detector
from knn_ue.detection.nearest import unit_rows
from knn_ue.types import Outputs


class MahalanobisPlus(Detector):
    """Minus the Mahalanobis distance of the normalized features, with one covariance for all classes."""

    def _fit(self, train: Outputs, /) -> None:
        features, labels = train.require_features("MahalanobisPlus"), train.require_labels("MahalanobisPlus")
        self._statistics = ClassStatistics.estimate(unit_rows(features), labels)

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return -self._statistics.distance(unit_rows(outputs.require_features("MahalanobisPlus")))
