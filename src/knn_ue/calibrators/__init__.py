"""Outputs -> probabilities; the model stays as it is."""

from knn_ue.calibrators.base import LogitScaling
from knn_ue.calibrators.density_aware import DensityAwareCalibration
from knn_ue.calibrators.density_softmax import DensitySoftmax
from knn_ue.calibrators.knn import KnnUE
from knn_ue.calibrators.knn_entity import KnnUEEntity
from knn_ue.calibrators.mahalanobis import ClassStatistics, MahalanobisScaling
from knn_ue.calibrators.softmax import SoftmaxResponse
from knn_ue.calibrators.temperature import TemperatureScaling

__all__ = [
    "ClassStatistics",
    "DensityAwareCalibration",
    "DensitySoftmax",
    "KnnUE",
    "KnnUEEntity",
    "LogitScaling",
    "MahalanobisScaling",
    "SoftmaxResponse",
    "TemperatureScaling",
]
