"""Isotonic regression of the top label. Zadrozny and Elkan (2002)."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators.top_label import TopLabelCalibrator
from knn_ue.folder import ArrayRule
from knn_ue.types import Outputs


class IsotonicCalibration(TopLabelCalibrator):
    """The rising function of the confidence that is nearest to the validation rows, right 1 and wrong 0.

    Pool-adjacent-violators on n rows sorted by confidence; between the `knots_` values are interpolated, outside they
    stay. No value is nearer to 0 or 1 than 1 / (n + 2), so that no answer is ever impossible.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> probs = IsotonicCalibration().fit(validation).predict_proba(test)
    """

    kind: ClassVar[str] = "isotonic"
    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "knots_": ArrayRule(dtype=np.float64, shape=("knots",), least=0, most=1, rising=True),
        "values_": ArrayRule(dtype=np.float64, shape=("knots",), least=0, most=1, rising=True),
    }

    knots_: FloatArray
    values_: FloatArray

    def _fit_top(self, _validation: Outputs, confidence: FloatArray, correct: BoolArray, /) -> None:
        from scipy.optimize import isotonic_regression

        knots, position, counts = np.unique(confidence, return_inverse=True, return_counts=True)
        shares = np.bincount(position, weights=correct.astype(np.float64)) / counts
        margin = 1.0 / (len(confidence) + 2)
        self.knots_ = knots
        self.values_ = np.clip(isotonic_regression(shares, weights=counts.astype(np.float64)).x, margin, 1 - margin)

    def _top(self, _outputs: Outputs, confidence: FloatArray, /) -> FloatArray:
        top: FloatArray = np.interp(confidence, self.knots_, self.values_)
        return top

    def _check_restored(self) -> None:
        if not len(self.knots_):
            raise ValueError("it has no knots")
