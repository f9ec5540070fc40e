"""NUQ: the uncertainty of a kernel estimate of the labels around a row. Kotelevskii et al. (2022).

With K_i = exp(-d_i^2 / 2 h^2) over the nearest training rows, a Nadaraya-Watson estimate of the label distribution,
eta_c = (sum_i K_i [y_i = c] + a / classes) / (sum_i K_i + a), has the asymptotic variance
tau^2 = max_c eta_c (1 - eta_c) 2^(-D/2) / (sum_i K_i + a) for D feature columns. The total uncertainty is
U = 1 - max_c eta_c + 2 sqrt(2 / pi) tau. It ranks rows and is no probability: the map to a confidence is ours, stated
and fitted on validation as for the Mahalanobis distance, T = w0 + w1 (log U - the least log U of the validation rows).

The prior a = 0.001, even over classes, is ours: the authors' package has a = 1 (`log_pN=0.0`), spread by the class
frequencies, and earlier versions of it a = 0.00001 for each class. With many columns tau vanishes: with D = 384,
2^(-D/2) is 1.6e-58, so that U is 1 - max_c eta_c.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.calibrators.contract import STORE, Found, OneStoreScaling
from knn_ue.stores import NeighborStore
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import TemperatureMap, fit_temperature_map

_PRIOR = 1e-3  # a: ours, not the authors'
_BANDWIDTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # in units of the median neighbor distance


class NonparametricUncertainty(OneStoreScaling):
    """softmax(logits / T), T growing with the log of the NUQ total uncertainty.

    The bandwidth h is the one of nine multiples of the median neighbor distance whose eta has the lowest validation
    log-loss. `score` gives log U.
    """

    kind: ClassVar[str] = "nuq"

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside its store."""

        n_neighbors: int
        bandwidth_: Annotated[float, Interval(ge=1e-300, le=1e300)]
        least_: Annotated[float, Interval(ge=-1e300, le=1e300)]
        temperature_map_: TemperatureMap

    bandwidth_: float
    least_: float
    temperature_map_: TemperatureMap

    def __init__(self, store: NeighborStore, *, n_neighbors: int = 32) -> None:
        self.store = store
        self.n_neighbors = n_neighbors

    def score(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return the log of the total uncertainty (n,): larger is less certain."""
        self._check_ready(outputs)
        return self._score(outputs, self._neighbors(outputs, found)[STORE])

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        labels = validation.require_labels("NonparametricUncertainty.fit")
        near = found[STORE]
        finite = near.distances[np.isfinite(near.distances)]
        unit = float(np.median(finite)) if finite.size else 1.0
        widths = [step * (unit or 1.0) for step in _BANDWIDTHS]
        losses = [_log_loss(label_shares(near, width, validation.n_classes)[0], labels) for width in widths]
        self.bandwidth_ = widths[int(np.argmin(losses))]
        scores = self._score(validation, near)
        self.least_ = float(scores[np.isfinite(scores)].min(initial=0.0))
        self.temperature_map_ = fit_temperature_map(validation.logits, labels, self._above_least(scores))

    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray:
        return self.temperature_map_.weight(self._above_least(self._score(outputs, found[STORE])))

    def _score(self, outputs: Outputs, near: Neighbors) -> FloatArray:
        n_columns = outputs.require_features("NonparametricUncertainty").shape[1]
        shares, log_mass = label_shares(near, self.bandwidth_, outputs.n_classes)
        return log_uncertainty(shares, log_mass, n_columns)

    def _above_least(self, scores: FloatArray) -> FloatArray:
        above: FloatArray = np.maximum(scores - self.least_, 0.0)[:, None]
        return above

    def _check_restored(self) -> None:
        if len(self.temperature_map_.slopes) != 1:
            raise ValueError("it needs one slope")


def label_shares(near: Neighbors, bandwidth: float, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return eta (n, classes) and log(sum_i K_i + a) (n,); rows without neighbors have even shares."""
    with np.errstate(over="ignore"):
        kernel = np.exp(-0.5 * (near.distances / bandwidth) ** 2)
    mass = np.zeros((len(near), n_classes))
    rows = np.repeat(np.arange(len(near)), near.n_neighbors)
    present = (near.ids >= 0).ravel()
    np.add.at(mass, (rows[present], near.labels.ravel()[present]), kernel.ravel()[present])
    total = mass.sum(axis=1) + _PRIOR
    return (mass + _PRIOR / n_classes) / total[:, None], np.log(total)


def log_uncertainty(shares: FloatArray, log_mass: FloatArray, n_columns: int) -> FloatArray:
    """Return log(1 - max eta + 2 sqrt(2 / pi) tau) (n,)."""
    variance = (shares * (1.0 - shares)).max(axis=1)
    log_tau = 0.5 * (np.log(variance) - 0.5 * n_columns * np.log(2.0) - log_mass)
    aleatoric = np.log1p(-shares.max(axis=1))
    total: FloatArray = np.logaddexp(aleatoric, np.log(2 * np.sqrt(2 / np.pi)) + log_tau)
    return total


def _log_loss(shares: FloatArray, labels: IntArray) -> float:
    return float(-np.log(shares[np.arange(len(labels)), labels]).mean())
