"""Batch work on a Ray cluster: many files, many workers, every row once in the output (extra [ray])."""

from knn_ue.distributed.evaluating import evaluate_files
from knn_ue.distributed.predicting import PredictedFiles, predict_files
from knn_ue.distributed.storing import build_store

__all__ = ["PredictedFiles", "build_store", "evaluate_files", "predict_files"]
