"""Texts in, calibrated answers out: `UncertaintyPipeline` joins encoder, datastore and calibrator."""

from knn_ue.pipeline.fitted import DriftQuantiles, Fitted
from knn_ue.pipeline.pipeline import UncertaintyPipeline

__all__ = ["DriftQuantiles", "Fitted", "UncertaintyPipeline"]
