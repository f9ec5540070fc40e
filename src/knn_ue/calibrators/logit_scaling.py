"""One kind of calibrator: p = softmax(weight * logits) with a positive weight for each row."""

from abc import abstractmethod

from knn_ue.arrays import FloatArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.types import Outputs


class LogitScaling(Calibrator):
    """A calibrator that multiplies the logits of each row by one positive weight, and so keeps every prediction."""

    def weight(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return the positive weight (n,) that multiplies the logits of each row."""
        self._check_ready(outputs)
        return self._weight(outputs, self._neighbors(outputs, found))

    @abstractmethod
    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray: ...

    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray:
        return softmax(outputs.logits, self._weight(outputs, found))
