"""Temperature Scaling: one temperature for all rows. Guo et al. (2017)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Found, LogitScaling
from knn_ue.types import Outputs
from knn_ue.weighting import Temperature, fit_temperature


class TemperatureScaling(LogitScaling):
    """softmax(logits / T) with the one positive `temperature_` that minimizes the validation log-loss.

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> round(TemperatureScaling().fit(validation).temperature_)
    3
    """

    kind: ClassVar[str] = "temperature"

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved."""

        temperature_: Temperature

    temperature_: float

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        self.temperature_ = fit_temperature(validation.logits, validation.require_labels("TemperatureScaling.fit"))

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return np.full(len(outputs), 1.0 / self.temperature_)
