"""Temperature Scaling: one temperature for all rows. Guo et al. (2017)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Found, LogitScaling, SavedState, Stores
from knn_ue.storage import FolderContent
from knn_ue.storage.schema import read_plain
from knn_ue.types import Outputs
from knn_ue.weighting import check_temperature, fit_temperature


@dataclass(frozen=True, kw_only=True)
class _StoredOptions:
    """What a folder holds of it."""

    temperature: float

    def __post_init__(self) -> None:
        check_temperature(self.temperature)


class TemperatureScaling(LogitScaling):
    """softmax(logits / T) with the one positive `temperature_` that minimizes the validation log-loss.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> round(TemperatureScaling().fit(validation).temperature_)
    3
    """

    kind: ClassVar[str] = "temperature"

    temperature_: float

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        self.temperature_ = fit_temperature(validation.logits, validation.require_labels("TemperatureScaling.fit"))

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return np.full(len(outputs), 1.0 / self.temperature_)

    def _state(self) -> SavedState:
        return SavedState(options={"temperature": self.temperature_})

    @classmethod
    def _from_stored(cls, stored: FolderContent, _stores: Stores, /) -> Self:
        calibrator = cls()
        calibrator.temperature_ = read_plain(_StoredOptions, stored.options).temperature
        return calibrator
