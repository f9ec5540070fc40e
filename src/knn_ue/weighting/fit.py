"""How kNN-UE's parameters are found: the smallest validation log-loss, by a search over tau of convex problems.

With tau fixed the weight is a non-negative combination of columns (nearness, agreement, 1), and the log-loss is convex
in the weight. So the other parameters have one optimum for each tau, found by Newton steps, and only tau is searched:
on a grid first, then around its best local minima. L-BFGS-B with the analytic gradient finishes on all parameters at
once; with a smooth floor, where the loss is not convex, from several starts around the optimum without a floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.types import Neighbors
from knn_ue.weighting.formula import (
    FLOOR_WIDTH,
    Distance,
    Positivity,
    ScaledLogits,
    WeightParams,
    agreement,
    kernel_distance,
    kernel_means,
    smooth_floor,
)

# Below half the median distance the weight may explode to separate a few validation rows, and test rows pay for it
# (docs/gotcha_results.md measures that); far above it the distance term is a constant.
TAU_RANGE = (0.5, 1000.0)
_TAUS_PER_DECADE = 4
_GRID_VALUES = 50_000
_REFINED_MINIMA = 3
_TINY = 1e-10
_NEWTON_STEPS = 50


@dataclass(frozen=True, eq=False)
class WeightProblem:
    """The validation log-loss as a function of theta = (alpha, log tau, lam, c), c = lam * b (without labels: two).

    `distances` (n, K) are in units of their median and the weight acts on scaled logits, so that neither the scale of
    the features nor that of the logits matters.
    """

    logits: ScaledLogits
    distances: FloatArray
    agreement: FloatArray | None
    floor_width: float | None

    def columns(self, tau: float) -> FloatArray:
        """Return the columns (n, 1 or 3) whose combination is the weight at `tau`."""
        nearness: FloatArray = np.exp(-self.distances / tau).mean(axis=1)
        if self.agreement is None:
            return nearness[:, None]
        return np.column_stack([nearness, self.agreement, np.ones_like(nearness)])

    def loss_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean log-loss and its gradient with respect to `theta`."""
        nearness, slope_in_log_tau = kernel_means(self.distances * np.exp(-theta[1]))
        columns = [nearness, theta[0] * slope_in_log_tau]
        raw = theta[0] * nearness
        if self.agreement is not None:
            raw = raw + theta[2] * self.agreement + theta[3]
            columns += [self.agreement, np.ones_like(nearness)]
        weight, floor_slope = (raw, 1.0) if self.floor_width is None else smooth_floor(raw, self.floor_width)
        loss, slope, _ = self.logits.loss(weight)
        slope = slope * floor_slope
        return loss, np.array([slope @ column for column in columns])

    def every(self, step: int) -> "WeightProblem":
        """Return the problem on every `step`-th row."""
        shares = None if self.agreement is None else self.agreement[::step]
        return WeightProblem(self.logits.every(step), self.distances[::step], shares, self.floor_width)


def fit_weight(
    logits: FloatArray,
    labels: IntArray,
    neighbors: Neighbors,
    *,
    use_labels: bool,
    distance: Distance = "euclidean",
    positivity: Positivity = "bounded",
    tau_range: tuple[float, float] = TAU_RANGE,
) -> WeightParams:
    """Return the parameters with the smallest log-loss on n labeled rows and their neighbors.

    `tau_range` bounds tau in units of the median distance (of the median squared one, with `distance="squared"`).
    """
    distances = kernel_distance(neighbors.distances, distance)
    typical = distances[np.isfinite(distances) & (distances > 0)]
    unit = float(np.median(typical)) if typical.size else 1.0
    scaled = ScaledLogits.of(logits, labels)
    shares = agreement(neighbors, logits.argmax(axis=1)) if use_labels else None
    theta = _fit_bounded(WeightProblem(scaled, distances / unit, shares, None), tau_range)
    if positivity == "floor" and use_labels:
        problem = WeightProblem(scaled, distances / unit, shares, FLOOR_WIDTH * scaled.unit)
        starts = [theta + share * np.array([0.0, 0.0, 1.0, -1.0]) for share in (0.0, 0.3, 1.0, 2.0)]
        theta = _polish(problem, starts, tau_range)
    alpha, log_tau, lam, c = (*theta, 0.0, 0.0)[:4]
    lam = max(lam, _TINY) / scaled.unit if use_labels else 0.0
    return WeightParams(
        alpha=float(alpha / scaled.unit),
        tau=float(np.exp(log_tau) * unit),
        lam=float(lam),
        b=float(c / scaled.unit / lam) if use_labels else 0.0,
    )


def _fit_bounded(problem: WeightProblem, tau_range: tuple[float, float]) -> FloatArray:
    from scipy.optimize import minimize_scalar

    low, high = np.log(tau_range)
    grid = np.linspace(low, high, max(2, 1 + int(np.ceil((high - low) / np.log(10) * _TAUS_PER_DECADE))))
    step = problem.logits.shifted.size // _GRID_VALUES
    sample = problem.every(step) if step > 1 else problem
    found: list[_Optimum] = []
    for log_tau in grid[::-1]:  # from large taus, where the problem is tame, to small ones
        found.insert(0, _best_at(sample, log_tau, found[0] if found else None))
    losses = np.array([optimum.loss for optimum in found])
    bordered = np.r_[np.inf, losses, np.inf]
    minima = np.flatnonzero((bordered[1:-1] <= bordered[:-2]) & (bordered[1:-1] <= bordered[2:]))
    minima = minima[np.argsort(losses[minima])][:_REFINED_MINIMA]
    candidates = []
    for place in minima.tolist():
        near = found[place]
        around = (grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)])
        refined = minimize_scalar(
            lambda log_tau, near=near: _best_at(problem, log_tau, near).loss,
            bounds=around,
            method="bounded",
            options={"xatol": 1e-4},
        )
        # A bounded search never tries the ends themselves, and an end of the range may be the best of all.
        taus = (float(refined.x), *np.intersect1d(around, (low, high)))
        candidates += [_best_at(problem, log_tau, near) for log_tau in taus]
    return _polish(problem, [min(candidates, key=lambda candidate: candidate.loss).theta], tau_range)


@dataclass(frozen=True, eq=False)
class _Optimum:
    """The smallest loss at one tau, its theta, and what each column contributes to the mean weight."""

    loss: float
    theta: FloatArray
    shares: FloatArray


def _best_at(problem: WeightProblem, log_tau: float, near: _Optimum | None) -> _Optimum:
    """Solve the convex problem at a tau; `near` is the optimum of a tau nearby."""
    columns = problem.columns(float(np.exp(log_tau)))
    sizes = columns.mean(axis=0)
    sizes[sizes == 0] = 1.0
    start = np.full(len(sizes), 1.0 / len(sizes)) if near is None else near.shares
    loss, shares = _newton(problem.logits, columns / sizes, start)
    x = shares / sizes
    return _Optimum(loss, np.r_[x[0], log_tau, x[1:]], shares)


def _newton(logits: ScaledLogits, columns: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
    """Minimize the convex log-loss of the weight `columns @ x` over x >= 0: each step solves the quadratic model."""
    from scipy.optimize import nnls

    loss, slope, curvature = logits.loss(columns @ x, curvature=True)
    for _ in range(_NEWTON_STEPS):
        gradient = slope @ columns
        hessian = columns.T @ (curvature[:, None] * columns)
        hessian[np.diag_indices_from(hessian)] += 1e-12 * max(float(np.trace(hessian)), 1e-12)
        root = np.linalg.cholesky(hessian)
        step = nnls(root.T, np.linalg.solve(root, hessian @ x - gradient))[0] - x
        expected = float(gradient @ step)
        length = 1.0
        while expected < -1e-13 and length > 1e-9:
            candidate = np.maximum(x + length * step, 0.0)
            found = logits.loss(columns @ candidate, curvature=True)
            if found[0] <= loss + 1e-4 * length * expected:
                break
            length /= 4
        else:
            break  # no descent left
        x, (loss, slope, curvature) = candidate, found
    return loss, x


def _polish(problem: WeightProblem, starts: Sequence[FloatArray], tau_range: tuple[float, float]) -> FloatArray:
    """Return the best of the starts after L-BFGS-B on all parameters at once."""
    from scipy.optimize import minimize

    lowest_c = 0.0 if problem.floor_width is None else None
    results = []
    for start in starts:
        # alpha may be thousands where tau is small: in units of its own contribution to the weight it is near 1.
        size = np.ones(len(start))
        size[0] = 1.0 / max(float(problem.columns(float(np.exp(start[1])))[:, 0].mean()), _TINY)

        def objective(x: FloatArray, size: FloatArray = size) -> tuple[float, FloatArray]:
            loss, gradient = problem.loss_and_gradient(x * size)
            return loss, gradient * size

        bounds = [(0.0, None), tuple(np.log(tau_range)), (0.0, None), (lowest_c, None)][: len(start)]
        options = {"maxiter": 200, "ftol": 1e-14, "gtol": 1e-10, "maxcor": 20}
        found = minimize(objective, start / size, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        results.append((float(found.fun), found.x * size))
        results.append((problem.loss_and_gradient(start)[0], start))
    theta: FloatArray = min(results, key=lambda result: result[0])[1]
    return theta
