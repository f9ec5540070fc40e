"""index="auto": the cheapest index that keeps the calibration, chosen on the validation set."""

from knn_ue.tuning.choose import reindexed, tune_calibrator, tune_index
from knn_ue.tuning.index_trials import Tolerance, Trial, Tuning

__all__ = ["Tolerance", "Trial", "Tuning", "reindexed", "tune_calibrator", "tune_index"]
