"""kNN-UE's weight, its gradient and its fit: pure functions on arrays, in float64.

    W = alpha / K * sum_k exp(-d_k / tau)  +  lam * (S / K + b)          p = softmax(W * logits)

S of the K neighbors carry the predicted label. W must be positive for every possible input, or it would turn the
prediction over. "bounded" asks for lam * b >= 0, which is necessary and sufficient as distances are unbounded;
"floor" leaves b free and passes W through a smooth floor, 0.05 * log(1 + exp(W / 0.05)).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.scaling import MIN_WEIGHT, ScaledLogits
from knn_ue.types import Neighbors

Distance = Literal["euclidean", "squared"]
Positivity = Literal["bounded", "floor"]

_FLOOR_WIDTH = 0.05
_TAU_GRID = np.logspace(-2, 3, 11)  # in units of the median neighbor distance
_LOG_TAU_BOUNDS = (np.log(1e-4), np.log(1e6))
_TINY = 1e-10
_GRID_VALUES = 50_000
_POLISHED_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class WeightParams:
    """The paper's parameters; `lam` = 0 leaves the label term out."""

    alpha: float
    tau: float
    lam: float = 0.0
    b: float = 0.0

    def check(self, positivity: Positivity) -> None:
        """Raise unless the weight is positive for every input."""
        values = (self.alpha, self.tau, self.lam, self.b)
        if not np.isfinite(values).all() or self.tau <= 0 or self.alpha < 0 or self.lam < 0:
            raise InvalidInputError(f"alpha >= 0, tau > 0, lam >= 0 and a finite b are needed, got {self}")
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
    scaled = _compared(neighbors.distances, distance) / params.tau
    distance_term = params.alpha * np.exp(-scaled).mean(axis=1)
    label_term: FloatArray = np.zeros(len(neighbors))
    if params.lam > 0:
        label_term = params.lam * (agreement(neighbors, predicted) + params.b)
    raw = distance_term + label_term
    total = _FLOOR_WIDTH * np.logaddexp(0.0, raw / _FLOOR_WIDTH) if positivity == "floor" else raw
    # exp(-d / tau) underflows to 0 far away; a weight of exactly 0 would forget the prediction.
    return Weight(total=np.maximum(total, MIN_WEIGHT), distance_term=distance_term, label_term=label_term)


def agreement(neighbors: Neighbors, predicted: IntArray) -> FloatArray:
    """Return S / K (n,): the share of the K neighbors that carry the `predicted` label."""
    share: FloatArray = (neighbors.labels == predicted[:, None]).mean(axis=1)
    return share


@dataclass(frozen=True, eq=False)
class WeightProblem:
    """The validation log-loss as a function of theta = (alpha, log tau, lam, c), c = lam * b, in natural units.

    `distances` (n, K) are in units of their median and the weight is one on scaled logits, so that neither the scale
    of the features nor that of the logits matters to the optimiser.
    """

    logits: ScaledLogits
    distances: FloatArray
    agreement: FloatArray | None
    floor_width: float | None

    def loss_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean log-loss and its gradient with respect to `theta`."""
        alpha, log_tau = theta[:2]
        scaled = self.distances * np.exp(-log_tau)
        kernel = np.exp(-scaled)
        nearness = kernel.mean(axis=1)
        columns = [nearness, alpha * _mean_product(kernel, scaled)]
        raw = alpha * nearness
        if self.agreement is not None:
            raw = raw + theta[2] * self.agreement + theta[3]
            columns += [self.agreement, np.ones_like(nearness)]
        loss, slope = self.logits.loss(self._floored(raw))
        slope = slope * self._floor_slope(raw)
        return loss, np.array([slope @ column for column in columns])

    def at_tau(self, tau: float) -> FloatArray:
        """Return the columns whose non-negative combination is the weight when tau is fixed: a convex problem."""
        nearness: FloatArray = np.exp(-self.distances / tau).mean(axis=1)
        if self.agreement is None:
            return nearness[:, None]
        return np.column_stack([nearness, self.agreement, np.ones_like(nearness)])

    def every(self, step: int) -> "WeightProblem":
        """Return the problem on every `step`-th row."""
        shares = None if self.agreement is None else self.agreement[::step]
        return WeightProblem(self.logits.every(step), self.distances[::step], shares, self.floor_width)

    def _floored(self, raw: FloatArray) -> FloatArray:
        if self.floor_width is None:
            return raw
        floored: FloatArray = self.floor_width * np.logaddexp(0.0, raw / self.floor_width)
        return floored

    def _floor_slope(self, raw: FloatArray) -> FloatArray | float:
        if self.floor_width is None:
            return 1.0
        from scipy.special import expit

        slope: FloatArray = expit(raw / self.floor_width)
        return slope


def fit_weight(
    logits: FloatArray,
    labels: IntArray,
    neighbors: Neighbors,
    *,
    use_labels: bool,
    distance: Distance = "euclidean",
    positivity: Positivity = "bounded",
) -> WeightParams:
    """Return the parameters that minimise the log-loss on n labelled rows and their neighbors.

    For a fixed tau the problem is convex, so tau alone needs a search: a grid over five decades around the median
    distance on a subsample, then L-BFGS-B on everything from the best three.
    """
    compared = _compared(neighbors.distances, distance)
    typical = compared[np.isfinite(compared) & (compared > 0)]
    unit = float(np.median(typical)) if typical.size else 1.0
    scaled = ScaledLogits.of(logits, labels)
    shares = agreement(neighbors, logits.argmax(axis=1)) if use_labels else None
    bounded = WeightProblem(scaled, compared / unit, shares, None)
    theta = _fit_bounded(bounded)
    if positivity == "floor" and use_labels:
        problem = WeightProblem(scaled, compared / unit, shares, _FLOOR_WIDTH * scaled.unit)
        starts = [theta] + [np.r_[theta[:2], theta[2] + share, theta[3] - share] for share in (0.5, 1.0, 2.0)]
        theta = _polish(problem, starts)
    alpha, log_tau, lam, c = (*theta, 0.0, 0.0)[:4]
    lam = max(lam, _TINY) / scaled.unit if use_labels else 0.0
    return WeightParams(
        alpha=float(alpha / scaled.unit),
        tau=float(np.exp(log_tau) * unit),
        lam=float(lam),
        b=float(c / scaled.unit / lam) if use_labels else 0.0,
    )


def _fit_bounded(problem: WeightProblem) -> FloatArray:
    from scipy.optimize import minimize

    sample = problem.every(max(1, problem.logits.shifted.size // _GRID_VALUES))
    found: list[tuple[float, FloatArray]] = []
    for tau in _TAU_GRID:
        columns = sample.at_tau(float(tau))

        def objective(x: FloatArray, columns: FloatArray = columns) -> tuple[float, FloatArray]:
            loss, slope = sample.logits.loss(columns @ x)
            return loss, slope @ columns

        start = np.full(columns.shape[1], 1.0 / columns.shape[1])
        best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start))
        found.append((float(best.fun), np.r_[best.x[0], np.log(tau), best.x[1:]]))
    found.sort(key=lambda pair: pair[0])
    return _polish(problem, [theta for _, theta in found[:_POLISHED_STARTS]])


def _polish(problem: WeightProblem, starts: list[FloatArray]) -> FloatArray:
    from scipy.optimize import minimize

    lowest_c = 0.0 if problem.floor_width is None else None
    bounds = [(_TINY, None), _LOG_TAU_BOUNDS, (_TINY, None), (lowest_c, None)][: len(starts[0])]
    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20}
    results = [
        minimize(problem.loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for start in starts
    ]
    best = min(results, key=lambda result: float(result.fun))
    theta: FloatArray = best.x
    return theta


def _mean_product(kernel: FloatArray, scaled: FloatArray) -> FloatArray:
    # At an infinite distance exp(-x) * x is 0, not nan.
    product: FloatArray = np.multiply(kernel, scaled, where=kernel > 0, out=np.zeros_like(kernel)).mean(axis=1)
    return product


def _compared(distances: FloatArray, distance: Distance) -> FloatArray:
    return distances**2 if distance == "squared" else distances
