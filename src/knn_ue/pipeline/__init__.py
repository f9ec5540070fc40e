"""Texts in, calibrated answers out: `UncertaintyPipeline` joins encoder, datastore and calibrator."""

from knn_ue.pipeline.core import UncertaintyPipeline
from knn_ue.pipeline.records import DriftQuantiles, Fitted

__all__ = ["DriftQuantiles", "Fitted", "UncertaintyPipeline"]
