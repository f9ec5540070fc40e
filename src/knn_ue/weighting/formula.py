"""kNN-UE's weight and its gradient: pure functions on arrays, in float64.

    W = alpha / K * sum_k exp(-d_k / tau)  +  lam * (S / K + b)          p = softmax(W * logits)

S of the K neighbors carry the predicted label. W must be positive for every possible input, or it would flip the
prediction. "bounded" asks for lam * b >= 0, which is necessary and sufficient as distances are unbounded;
"floor" leaves b free and passes W through a smooth floor, 0.05 * log(1 + exp(W / 0.05)).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.types import Neighbors
from knn_ue.weighting.scaling import MIN_WEIGHT

Distance = Literal["euclidean", "squared"]
Positivity = Literal["bounded", "floor"]

FLOOR_WIDTH = 0.05
_LARGEST_PARAM = 1e150  # products of two of them are still finite


@dataclass(frozen=True, kw_only=True)
class WeightParams:
    """The parameters of kNN-UE's weight: W = alpha / K * sum_k exp(-d_k / tau) + lam * (S / K + b).

    d_k are the distances to the K neighbors, S of which have the predicted label. `alpha` is how much closeness
    counts, `tau` the distance at which it fades, `lam` how much agreement counts (0: the label term is left out).
    """

    alpha: float
    tau: float
    lam: float = 0.0
    b: float = 0.0

    def check(self, positivity: Positivity) -> None:
        """Raise unless the weight is positive for every input."""
        values = (self.alpha, self.tau, self.lam, self.b)
        if not np.isfinite(values).all() or self.tau <= 0 or self.alpha < 0 or self.lam < 0:
            raise InvalidInputError(f"alpha >= 0, tau > 0, lam >= 0 and a finite b are needed, got {self}")
        if max(map(abs, values)) > _LARGEST_PARAM or self.tau < 1 / _LARGEST_PARAM:
            raise InvalidInputError(
                f"alpha, tau, lam and b must be at most {_LARGEST_PARAM:.0e}, and tau at least "
                f"{1 / _LARGEST_PARAM:.0e}, got {self}"
            )
        if positivity == "bounded" and self.lam * self.b < 0:
            raise InvalidInputError(
                f"b must be at least 0, got {self.b}: a negative weight would change predictions; "
                'raise b or use positivity="floor"'
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Weight:
    """The weight of n rows and the two terms it is the sum of (before the floor, if there is one)."""

    total: FloatArray
    distance_term: FloatArray
    label_term: FloatArray

    def times(self, scale: float) -> "Weight":
        """Return the weight and its terms, scaled."""
        return Weight(
            total=scale * self.total, distance_term=scale * self.distance_term, label_term=scale * self.label_term
        )


def knn_weight(
    neighbors: Neighbors,
    predicted: IntArray,
    params: WeightParams,
    *,
    distance: Distance = "euclidean",
    positivity: Positivity = "bounded",
) -> Weight:
    """Return the weight of each query given its neighbors and `predicted` (n,) class. Hashimoto et al. (2025), eq. 5.

    A missing neighbor is infinitely far and disagrees; the sums are divided by K all the same.
    """
    scaled = kernel_distance(neighbors.distances, distance) / params.tau
    distance_term = params.alpha * np.exp(-scaled).mean(axis=1)
    label_term: FloatArray = np.zeros(len(neighbors))
    if params.lam > 0:
        label_term = params.lam * (agreement(neighbors, predicted) + params.b)
    total = positive_total(distance_term + label_term, positivity)
    return Weight(total=total, distance_term=distance_term, label_term=label_term)


def positive_total(raw: FloatArray, positivity: Positivity) -> FloatArray:
    """Return the weight (n,) whose two terms add up to `raw`: never 0, never below."""
    total = smooth_floor(raw, FLOOR_WIDTH)[0] if positivity == "floor" else raw
    # exp(-d / tau) underflows to 0 far away; a weight of exactly 0 would forget the prediction.
    return np.maximum(total, MIN_WEIGHT)


def knn_weight_gradient(
    neighbors: Neighbors,
    predicted: IntArray,
    params: WeightParams,
    *,
    distance: Distance = "euclidean",
    positivity: Positivity = "bounded",
) -> FloatArray:
    """Return the derivatives (n, 4) of the weight with respect to alpha, tau, lam and b."""
    scaled = kernel_distance(neighbors.distances, distance) / params.tau
    nearness, slope_in_log_tau = kernel_means(scaled)
    columns = [nearness, params.alpha * slope_in_log_tau / params.tau]
    shares = agreement(neighbors, predicted)
    columns += [shares + params.b, np.full(len(shares), params.lam)]
    gradient = np.column_stack(columns)
    if positivity == "floor":
        raw = params.alpha * nearness + params.lam * (shares + params.b)
        gradient *= smooth_floor(raw, FLOOR_WIDTH)[1][:, None]
    return gradient


def agreement(neighbors: Neighbors, predicted: IntArray) -> FloatArray:
    """Return S / K (n,): the share of the K neighbors that carry the `predicted` label."""
    share: FloatArray = (neighbors.labels == predicted[:, None]).mean(axis=1)
    return share


def kernel_means(scaled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means over neighbors of exp(-x) and of its derivative x exp(-x) in log tau, x = d / tau (n, K)."""
    kernel = np.exp(-scaled)
    # At an infinite distance x * exp(-x) is 0, not nan.
    product = np.multiply(kernel, scaled, where=kernel > 0, out=np.zeros_like(kernel))
    return kernel.mean(axis=1), product.mean(axis=1)


def smooth_floor(raw: FloatArray, width: float) -> tuple[FloatArray, FloatArray]:
    """Return the smooth floor width * log(1 + exp(raw / width)), positive everywhere, and its derivative."""
    ratio = raw / width
    value = width * np.logaddexp(0.0, ratio)
    return value, np.exp(-np.logaddexp(0.0, -ratio))


def kernel_distance(distances: FloatArray, distance: Distance) -> FloatArray:
    """Return the distances as the kernel sees them."""
    return distances**2 if distance == "squared" else distances
