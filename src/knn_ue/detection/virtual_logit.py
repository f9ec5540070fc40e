"""ViM: energy less a virtual logit, the part of a feature that training features do not have. Wang et al. (2022).

With o the center and N the directions of least variance of the training features, r(x) = |N (x - o)| is what the
principal subspace leaves over. The score is log sum exp(logits) - a r(x); a makes a r as large on average over the
training rows as their largest logit. The authors take o from the weights of the classifier's last layer, which
`Outputs` do not hold; here it is the mean of the training features. Half of the columns are principal.
"""

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.detection.contract import Detector
from knn_ue.detection.logit_scores import log_sum_exp
from knn_ue.types import Outputs


class VirtualLogit(Detector):
    """The ViM score; a row outside the training features' subspace has a low one."""

    def _fit(self, train: Outputs, /) -> None:
        features = train.require_features("VirtualLogit").astype(np.float64)
        self._center = features.mean(axis=0)
        covariance = np.cov(features - self._center, rowvar=False, bias=True).reshape(features.shape[1], -1)
        _, directions = np.linalg.eigh(covariance)  # variances rise
        self._rest = directions[:, : features.shape[1] - features.shape[1] // 2]
        residual = float(self._residual(train).mean())
        largest = float(np.abs(train.logits.max(axis=1)).mean())
        self._factor = largest / residual if residual > 0 else 0.0

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return log_sum_exp(outputs.logits) - self._factor * self._residual(outputs)

    def _residual(self, outputs: Outputs) -> FloatArray:
        centered = outputs.require_features("VirtualLogit") - self._center
        length: FloatArray = np.linalg.norm(centered @ self._rest, axis=1)
        return length
