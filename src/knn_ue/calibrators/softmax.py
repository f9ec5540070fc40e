"""Softmax Response: the model's own probabilities, the baseline of every comparison. Hendrycks and Gimpel (2017)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Found, LogitScaling, SavedState, Stores
from knn_ue.storage import FolderContent
from knn_ue.storage.schema import read_plain
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True)
class _StoredOptions:
    """Nothing."""


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

    def _state(self) -> SavedState:
        return SavedState(options={})

    @classmethod
    def _from_stored(cls, stored: FolderContent, _stores: Stores, /) -> Self:
        read_plain(_StoredOptions, stored.options)
        return cls()
