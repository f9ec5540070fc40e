"""Scores of the logits alone: energy, Liu et al. (2020), and the largest logit, Hendrycks et al. (2022)."""

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.detection.contract import Detector
from knn_ue.types import Outputs


class Energy(Detector):
    """log sum_c exp(logit_c): minus the free energy at temperature 1.

    >>> float(Energy().fit(Outputs(logits=[[0.0, 0.0]])).score(Outputs(logits=[[0.0, 0.0]]))[0].round(4))
    0.6931
    """

    def _fit(self, _train: Outputs, /) -> None:
        """Need nothing of the training rows."""

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return log_sum_exp(outputs.logits)


class MaxLogit(Detector):
    """The largest logit of each row."""

    def _fit(self, _train: Outputs, /) -> None:
        """Need nothing of the training rows."""

    def _score(self, outputs: Outputs, /) -> FloatArray:
        largest: FloatArray = outputs.logits.max(axis=1).astype(np.float64)
        return largest


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """Return log sum exp of each row (n,)."""
    largest = logits.max(axis=1).astype(np.float64)
    total: FloatArray = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    return total
