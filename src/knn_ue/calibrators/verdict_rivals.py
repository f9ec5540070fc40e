"""What the verifier is compared with, always: plain scores of given answers, learned from the same labeled rows."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from knn_ue.arrays import FloatArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.calibrators.top_label import with_top
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs

SHOWN = {
    "constant": "constant",
    "platt": "own score",
    "direct": "regression",
    "crossed": "regression per answer",
}
"""The rivals of `knn_ue.verifying.rivals`, and what tables call them."""


class Compared:
    """The scores (n,) of the verifier and its rivals by name; the rows that were asked about last are remembered."""

    def __init__(self, compare: Callable[[Outputs], Mapping[str, FloatArray]]) -> None:
        self._compare = compare
        self._last: tuple[Outputs, Mapping[str, FloatArray]] | None = None

    def __call__(self, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the scores of the answers in `outputs`."""
        if self._last is None or self._last[0] is not outputs:
            self._last = outputs, self._compare(outputs)
        return self._last[1]


class Rival(Calibrator):
    """One of them, as a calibrator: it was fitted with the verifier, and is not saved."""

    kind: ClassVar[str] = "rival"
    keeps_prediction: ClassVar[bool] = False

    def __init__(self, name: str, compared: Compared) -> None:
        self.rival = name
        self._compared = compared

    def _is_fitted(self) -> bool:
        return True

    def _fit(self, _validation: Outputs, _found: Found, /) -> None:
        raise InvalidInputError(f"{SHOWN[self.rival]} is fitted with the verifier: fit that")

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return with_top(softmax(outputs.logits), outputs.predicted, self._compared(outputs)[self.rival])
