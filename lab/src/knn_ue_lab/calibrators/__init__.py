"""Rivals that are fitted on the outputs of a trained model."""

from knn_ue_lab.calibrators.density_softmax import DensitySoftmax
from knn_ue_lab.calibrators.isotonic import IsotonicCalibration
from knn_ue_lab.calibrators.nuq import NonparametricUncertainty
from knn_ue_lab.calibrators.procal import ProximityCalibration
from knn_ue_lab.calibrators.sdm import SdmActivation
from knn_ue_lab.calibrators.structured_scaling import MatrixScaling, VectorScaling

__all__ = [
    "DensitySoftmax",
    "IsotonicCalibration",
    "MatrixScaling",
    "NonparametricUncertainty",
    "ProximityCalibration",
    "SdmActivation",
    "VectorScaling",
]
