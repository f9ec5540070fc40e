"""Rows -> Outputs -> datastore -> Neighbors -> weight -> probabilities -> metrics -> report."""

from knn_ue import metrics
from knn_ue.calibrators import (
    DensityAwareCalibration,
    KnnUE,
    MahalanobisScaling,
    SoftmaxResponse,
    TemperatureScaling,
)
from knn_ue.datastore import Datastore, IndexOptions
from knn_ue.errors import InvalidInputError, KnnUeError, MissingExtraError, NotFittedError, StorageError
from knn_ue.methods import load_calibrator, make_calibrator
from knn_ue.report import Evaluation, evaluate
from knn_ue.types import Neighbors, Outputs, Prediction
from knn_ue.weighting import WeightParams

__all__ = [
    "Datastore",
    "DensityAwareCalibration",
    "Evaluation",
    "IndexOptions",
    "InvalidInputError",
    "KnnUE",
    "KnnUeError",
    "MahalanobisScaling",
    "MissingExtraError",
    "Neighbors",
    "NotFittedError",
    "Outputs",
    "Prediction",
    "SoftmaxResponse",
    "StorageError",
    "TemperatureScaling",
    "WeightParams",
    "evaluate",
    "load_calibrator",
    "make_calibrator",
    "metrics",
]
