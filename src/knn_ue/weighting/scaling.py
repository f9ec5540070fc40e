"""The log-loss of softmax(weight * logits) as a function of the weight, and the temperatures that minimize it.

The loss is convex in each weight. Temperature Scaling has one weight for all rows, DAC and Mahalanobis a weight
1 / (w0 + w . scores) for each.
"""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError

# softmax(w * logits) must stay distinguishable from uniform and from one-hot: typical logit gaps x weight.
_WEIGHT_RANGE = (1e-6, 1e6)
MIN_WEIGHT = 1e-12
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

    def __len__(self) -> int:
        return len(self.of_label)

    def every(self, step: int) -> "ScaledLogits":
        """Return every `step`-th row."""
        return ScaledLogits(self.shifted[::step], self.of_label[::step], self.unit)

    def loss(self, weight: FloatArray | float) -> tuple[float, FloatArray]:
        """Return the mean log-loss under `weight` (n,) and its derivative with respect to each weight (n,)."""
        loss, slope, _ = self._derivatives(weight, curvature=False)
        return loss, slope

    def loss_and_curvature(self, weight: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean log-loss and its first and second derivatives with respect to each weight (n,)."""
        return self._derivatives(weight, curvature=True)

    def _derivatives(self, weight: FloatArray | float, *, curvature: bool) -> tuple[float, FloatArray, FloatArray]:
        column = weight[:, None] if isinstance(weight, np.ndarray) else weight
        probs = np.exp(self.shifted * column)
        total = probs.sum(axis=1)
        loss = float(np.mean(np.log(total) - weight * self.of_label))
        mean = np.einsum("ij,ij->i", probs, self.shifted) / total
        second = np.empty(0)
        if curvature:
            second = (np.einsum("ij,ij,ij->i", probs, self.shifted, self.shifted) / total - mean**2) / len(self)
        return loss, (mean - self.of_label) / len(self), second


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
        loss, slope = scaled.loss(1.0 / t)
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
