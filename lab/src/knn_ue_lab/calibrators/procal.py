"""ProCal: confidence and proximity, weighed by Bayes' rule. Xiong et al. (2023), the density-ratio variant.

Proximity is the mean of exp(-squared distance / d) over the 10 nearest validation rows, features standardized. With
kernel densities f of (confidence, proximity) among right and among wrong validation answers,
p = f(right) P(right) / (f(right) P(right) + f(wrong) P(wrong)).
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators.top_label import TopLabelCalibrator
from knn_ue.evaluation.proximity import ProximitySpace
from knn_ue.folder import ArrayRule
from knn_ue.types import Outputs

_BLOCK = 512  # rows at a time: (rows, validation rows) matrices stay small
_LEAST_WIDTH = 1e-3
_LARGEST = 1e15  # of a feature and its deviation


class ProximityCalibration(TopLabelCalibrator):
    """p(right | confidence, proximity) from two kernel densities with Gaussian product kernels.

    Bandwidths are 1.06 s n^(-1/6) for each of the two coordinates (normal reference rule), at least 0.001. Where fewer
    than two validation answers are right, or wrong, the tempered confidence stays as it is.
    """

    kind: ClassVar[str] = "procal"
    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "space_.center": ArrayRule(dtype=np.float64, shape=("columns",), least=-_LARGEST, most=_LARGEST),
        "space_.scale": ArrayRule(dtype=np.float64, shape=("columns",), least=1 / _LARGEST, most=_LARGEST),
        "space_.standardized": ArrayRule(dtype=np.float32, shape=("rows", "columns"), least=-_LARGEST, most=_LARGEST),
        "points_": ArrayRule(dtype=np.float64, shape=("rows", 2), least=0, most=1),
        "correct_": ArrayRule(dtype=np.bool_, shape=("rows",)),
    }

    space_: ProximitySpace
    points_: FloatArray
    correct_: BoolArray

    def proximity(self, outputs: Outputs) -> FloatArray:
        """Return how near each row (n,) is to the validation rows; see `ProximitySpace`."""
        return self.space_.proximity(outputs)

    def _fit_top(self, validation: Outputs, confidence: FloatArray, correct: BoolArray, /) -> None:
        validation.require_features("ProximityCalibration")
        self.space_ = ProximitySpace.measure(validation)
        self.points_ = np.column_stack([confidence, self.space_.proximity_to_others()])
        self.correct_ = np.asarray(correct, dtype=np.bool_)

    def _top(self, outputs: Outputs, confidence: FloatArray, /) -> FloatArray:
        n_right = int(self.correct_.sum())
        n_wrong = len(self.correct_) - n_right
        if min(n_right, n_wrong) < 2:
            return confidence
        queries = np.column_stack([confidence, self.proximity(outputs)])
        right = n_right * kernel_density(self.points_[self.correct_], queries)
        wrong = n_wrong * kernel_density(self.points_[~self.correct_], queries)
        margin = 1.0 / (len(self.correct_) + 2)
        both = right + wrong
        # Where both densities vanish the rows say nothing: the confidence stays.
        top = np.divide(right, both, out=confidence.astype(np.float64), where=both > 0)
        return np.clip(top, margin, 1 - margin)

    def _check_restored(self) -> None:
        if not len(self.points_):
            raise ValueError("it has no validation rows")


def kernel_density(points: FloatArray, queries: FloatArray) -> FloatArray:
    """Return the density (m,) of `points` (n, d) at `queries` (m, d): Gaussian product kernels, normal reference."""
    n_points, n_columns = points.shape
    widths = np.maximum(1.06 * points.std(axis=0) * n_points ** (-1.0 / (4 + n_columns)), _LEAST_WIDTH)
    scaled, asked = points / widths, queries / widths
    density = np.empty(len(queries))
    for start in range(0, len(queries), _BLOCK):
        gaps = asked[start : start + _BLOCK, None, :] - scaled[None, :, :]
        density[start : start + _BLOCK] = np.exp(-0.5 * (gaps**2).sum(axis=2)).mean(axis=1)
    result: FloatArray = density / (np.prod(widths) * (2 * np.pi) ** (n_columns / 2))
    return result
