"""kNN-UE's weight and its gradient, and the log-loss under any weight: pure functions on arrays, in float64.

    W = alpha / K * sum_k exp(-d_k / tau)  +  lam * (S / K + b)          p = softmax(W * logits)

S of the K neighbors carry the predicted label. W must be positive for every possible input, or it would flip the
prediction. "bounded" asks for lam * b >= 0, which is necessary and sufficient as distances are unbounded;
"floor" leaves b free and passes W through a smooth floor, 0.05 * log(1 + exp(W / 0.05)).

The second half is the log-loss of softmax(weight * logits), convex in each weight, and the temperatures that minimize
it: Temperature Scaling has one weight for all rows, DAC and Mahalanobis a weight 1 / (w0 + w . scores) for each.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.types import Neighbors

Distance = Literal["euclidean", "squared"]
Positivity = Literal["bounded", "floor"]

FLOOR_WIDTH = 0.05
MIN_WEIGHT = 1e-12
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


# softmax(w * logits) must stay distinguishable from uniform and from one-hot: typical logit gaps x weight.
_WEIGHT_RANGE = (1e-6, 1e6)
# One over it is finite, so that it never makes a NaN of a logit.
_TEMPERATURE_RANGE = (1e-300, 1e300)


@dataclass(frozen=True, eq=False)
class ScaledLogits:
    """Logits of n labeled rows, shifted so that each row's maximum is 0 and scaled to a typical size of 1."""

    shifted: FloatArray
    of_label: FloatArray
    unit: float

    @classmethod
    def of(cls, logits: FloatArray, labels: IntArray) -> "ScaledLogits":
        """Prepare `logits` (n, classes) once; a weight w on them is a weight w / unit on the scaled ones."""
        shifted = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
        unit = float(np.sqrt(np.mean(shifted**2))) or 1.0
        shifted /= unit
        return cls(shifted, shifted[np.arange(len(labels)), labels], unit)

    def every(self, step: int) -> "ScaledLogits":
        """Return every `step`-th row."""
        return ScaledLogits(self.shifted[::step], self.of_label[::step], self.unit)

    def loss(self, weight: FloatArray | float, *, curvature: bool = False) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean log-loss under `weight` (n,) and its derivative with respect to each weight (n,).

        The second derivative comes third; without `curvature` it is empty.
        """
        column = weight[:, None] if isinstance(weight, np.ndarray) else weight
        probs = np.exp(self.shifted * column)
        total = probs.sum(axis=1)
        loss = float(np.mean(np.log(total) - weight * self.of_label))
        mean = np.einsum("ij,ij->i", probs, self.shifted) / total
        n_rows, second = len(self.of_label), np.empty(0)
        if curvature:
            second = (np.einsum("ij,ij,ij->i", probs, self.shifted, self.shifted) / total - mean**2) / n_rows
        return loss, (mean - self.of_label) / n_rows, second


def fit_temperature(logits: FloatArray, labels: IntArray) -> float:
    """Return the positive temperature T that minimizes the log-loss of softmax(logits / T). Guo et al. (2017)."""
    from scipy.optimize import minimize_scalar

    scaled = ScaledLogits.of(logits, labels)
    low, high = np.log(_WEIGHT_RANGE)
    found = minimize_scalar(
        lambda log_weight: scaled.loss(float(np.exp(log_weight)))[0],
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    weights = (float(np.exp(found.x)), scaled.unit)  # scaled.unit is T = 1: never worse than the model itself
    return scaled.unit / min(weights, key=lambda weight: scaled.loss(weight)[0])


@dataclass(frozen=True, kw_only=True)
class TemperatureMap:
    """A temperature that grows with scores: T = `intercept` + scores . `slopes`, all non-negative."""

    intercept: float
    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        check_temperature(self.intercept, "intercept")
        if not all(0 <= slope <= _TEMPERATURE_RANGE[1] for slope in self.slopes):
            raise InvalidInputError(f"slopes must be between 0 and {_TEMPERATURE_RANGE[1]:.0e}, got {self.slopes}")

    def weight(self, scores: FloatArray) -> FloatArray:
        """Return 1 / T (n,) for `scores` (n, m), always positive; an infinite score means an infinite T."""
        # A slope of zero ignores its score, even an infinite one.
        with np.errstate(over="ignore"):  # an infinite temperature is a stated answer
            terms = np.where(np.asarray(self.slopes) > 0, scores, 0.0) * np.asarray(self.slopes)
            weight: FloatArray = np.maximum(1.0 / (self.intercept + terms.sum(axis=1)), MIN_WEIGHT)
        return weight


Temperature = Annotated[float, Interval(ge=_TEMPERATURE_RANGE[0], le=_TEMPERATURE_RANGE[1])]


def check_temperature(value: float, name: str = "temperature") -> None:
    """Raise unless softmax(logits / `value`) can be computed."""
    low, high = _TEMPERATURE_RANGE
    if not low <= value <= high:
        raise InvalidInputError(f"{name} must lie within {low:.0e} and {high:.0e}, got {value}: refit")


def fit_temperature_map(logits: FloatArray, labels: IntArray, scores: FloatArray) -> TemperatureMap:
    """Return the map from `scores` (n, m), none negative, to a temperature that minimizes the log-loss.

    Starts from Temperature Scaling, so it is never worse on these rows. Rows with an infinite score are left out.
    """
    from scipy.optimize import minimize

    temperature = fit_temperature(logits, labels)
    usable = np.isfinite(scores).all(axis=1)
    if not usable.any():
        return TemperatureMap(intercept=temperature, slopes=(0.0,) * scores.shape[1])
    scaled, scores = ScaledLogits.of(logits[usable], labels[usable]), scores[usable]
    units = np.array([np.median(column[column > 0]) if (column > 0).any() else 1.0 for column in scores.T])
    design = np.column_stack([np.ones(len(scores)), scores / units])

    def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
        t = design @ parameters
        loss, slope, _ = scaled.loss(1.0 / t)
        return loss, -(slope / t**2) @ design

    start = temperature / scaled.unit
    n_scores = scores.shape[1]
    starts = [np.r_[start, np.zeros(n_scores)]]
    starts += [np.r_[start * (1 - share), np.full(n_scores, start * share / n_scores)] for share in (0.3, 0.9)]
    starts += [np.r_[start / 2, start / 2 * np.eye(n_scores)[i]] for i in range(n_scores) if n_scores > 1]
    bounds = [(1e-6 * start, None)] + [(0.0, None)] * n_scores
    options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
    found = [minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x for x in starts]
    best = min([*found, starts[0]], key=lambda parameters: objective(parameters)[0]) * scaled.unit
    return TemperatureMap(intercept=float(best[0]), slopes=tuple((best[1:] / units).tolist()))
