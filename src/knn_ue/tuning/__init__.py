"""index="auto": the cheapest index that keeps the calibration, chosen on the validation set."""

from knn_ue.tuning.choose import tune_index
from knn_ue.tuning.index_trials import Tolerance, Trial, Tuning

__all__ = ["Tolerance", "Trial", "Tuning", "tune_index"]
