"""Our familiarity as a detector: how usual a row is among the training rows, in several layers (see `familiarity`)."""

from knn_ue.arrays import FloatArray
from knn_ue.detection.contract import Detector
from knn_ue.familiarity import TrainingSpace
from knn_ue.types import Outputs


class FamiliarityDetector(Detector):
    """Minus the familiarity score, which is high for unusual rows."""

    def _fit(self, train: Outputs, /) -> None:
        self._space = TrainingSpace.measure(train)

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return -self._space.score(outputs)
