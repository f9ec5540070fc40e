"""Softmax Response: the model's own probabilities, the baseline of every comparison. Hendrycks and Gimpel (2017)."""

from typing import ClassVar

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Found, LogitScaling
from knn_ue.types import Outputs


class SoftmaxResponse(LogitScaling):
    """The softmax of the logits. Nothing is learned, but `fit` is required, as for every method.

    >>> outputs = Outputs(logits=[[0.0, 0.0]], labels=[0])
    >>> SoftmaxResponse().fit(outputs).predict_proba(outputs)
    array([[0.5, 0.5]])
    """

    kind: ClassVar[str] = "softmax"

    def _fit(self, _validation: Outputs, _found: Found, /) -> None:
        """Nothing to learn."""

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return np.ones(len(outputs))
