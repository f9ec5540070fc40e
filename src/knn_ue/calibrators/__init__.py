"""Outputs -> probabilities; the model stays as it is."""

from knn_ue.calibrators.adapted import adapt_calibrator, labeled_scores
from knn_ue.calibrators.contract import (
    Calibrator,
    Found,
    LogitScaling,
    Stores,
    TaggedAnswer,
    take_found,
)
from knn_ue.calibrators.density_aware import DensityAwareCalibration
from knn_ue.calibrators.entity_scores import EntityScores
from knn_ue.calibrators.knn import KnnUE
from knn_ue.calibrators.knn_entity import KnnUEEntity
from knn_ue.calibrators.mahalanobis import ClassStatistics, MahalanobisScaling
from knn_ue.calibrators.softmax import SoftmaxResponse
from knn_ue.calibrators.span_verdict import SpanVerdict
from knn_ue.calibrators.temperature import TemperatureScaling
from knn_ue.calibrators.verdict import Verdict
from knn_ue.calibrators.verified import Verified, VerifiedInDomain
from knn_ue.calibrators.verified_entities import VerifiedEntities

__all__ = [
    "Calibrator",
    "ClassStatistics",
    "DensityAwareCalibration",
    "EntityScores",
    "Found",
    "KnnUE",
    "KnnUEEntity",
    "LogitScaling",
    "MahalanobisScaling",
    "SoftmaxResponse",
    "SpanVerdict",
    "Stores",
    "TaggedAnswer",
    "TemperatureScaling",
    "Verdict",
    "Verified",
    "VerifiedEntities",
    "VerifiedInDomain",
    "adapt_calibrator",
    "labeled_scores",
    "take_found",
]
