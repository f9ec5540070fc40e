"""Isotonic regression of the top label. Zadrozny and Elkan (2002)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators.contract import SavedState, Stores
from knn_ue.calibrators.top_label import TopLabelCalibrator
from knn_ue.storage import FolderContent
from knn_ue.storage.schema import ArrayRule, Within, check_arrays, read_plain
from knn_ue.types import Outputs
from knn_ue.weighting import check_temperature


@dataclass(frozen=True, kw_only=True)
class _StoredOptions:
    """What a folder holds of it, beside the steps."""

    temperature: float

    def __post_init__(self) -> None:
        check_temperature(self.temperature)


_SHARE = Within(0.0, 1.0)
_STORED_ARRAYS = {
    "knots": ArrayRule(dtype=np.float64, shape=("knots",), within=_SHARE, rising=True),
    "values": ArrayRule(dtype=np.float64, shape=("knots",), within=_SHARE, rising=True),
}


class IsotonicCalibration(TopLabelCalibrator):
    """The rising function of the confidence that is nearest to the validation rows, right 1 and wrong 0.

    Pool-adjacent-violators on n rows sorted by confidence; between the `knots_` values are interpolated, outside they
    stay. No value is nearer to 0 or 1 than 1 / (n + 2), so that no answer is ever impossible.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> probs = IsotonicCalibration().fit(validation).predict_proba(test)
    """

    kind: ClassVar[str] = "isotonic"

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

    def _state(self) -> SavedState:
        return SavedState(
            options={"temperature": self.temperature_}, arrays={"knots": self.knots_, "values": self.values_}
        )

    @classmethod
    def _from_stored(cls, stored: FolderContent, _stores: Stores, /) -> Self:
        calibrator = cls()
        calibrator.temperature_ = read_plain(_StoredOptions, stored.options).temperature
        check_arrays(stored.arrays, _STORED_ARRAYS)
        calibrator.knots_, calibrator.values_ = stored.arrays["knots"], stored.arrays["values"]
        if not len(calibrator.knots_):
            raise ValueError("it has no knots")
        return calibrator
