"""The density of training features: a RealNVP fitted to them, from numpy to numpy."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from knn_ue.arrays import FloatArray, check_not_empty, float_matrix
from knn_ue_lab.flows.real_nvp import RealNVP

_BLOCK_ROWS = 4096
_CONSTANT = 1e-6  # a column that varies less than this share of a typical one is constant up to rounding
_FARTHEST = 1e100  # deviations; what is farther is as far, and its square is finite


@dataclass(frozen=True, eq=False)
class FeatureDensity:
    """A `flow` over features that were standardized by `center` and `scale` (d,)."""

    center: FloatArray
    scale: FloatArray
    flow: RealNVP

    def log_prob(self, features: FloatArray) -> FloatArray:
        """Return the log-density (n,) of `features` (n, d) in nats, in float64 on the CPU: batches do not matter."""
        found = np.empty(len(features))
        with torch.inference_mode():
            for start in range(0, len(features), _BLOCK_ROWS):
                block = _standardize(features[start : start + _BLOCK_ROWS], self.center, self.scale)
                found[start : start + _BLOCK_ROWS] = self.flow.log_prob(torch.from_numpy(block)).numpy()
        return found - float(np.log(self.scale).sum())

    def to_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return everything as named arrays."""
        weights = {f"flow.{name}": value.numpy() for name, value in self.flow.state_dict().items()}
        return {"center": self.center, "scale": self.scale} | weights

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.float64]]) -> "FeatureDensity":
        """Return what `to_arrays` described; raise KeyError or ValueError where the arrays do not fit each other."""
        center, scale = np.array(arrays["center"]), np.array(arrays["scale"])
        weights = {name.removeprefix("flow."): a for name, a in arrays.items() if name.startswith("flow.")}
        if center.ndim != 1 or center.shape != scale.shape or not (scale > 0).all():
            raise ValueError("its center and scale do not fit each other")
        if not all(np.isfinite(array).all() for array in (center, scale, *weights.values())):
            raise ValueError("its flow is not finite")
        n_hidden = len(weights["layers.0.bias_in"])
        flow = RealNVP(len(center), len(weights) // 4, n_hidden, generator=torch.Generator()).double()
        expected = {name: tuple(value.shape) for name, value in flow.state_dict().items()}
        if expected != {name: array.shape for name, array in weights.items()}:
            raise ValueError("the weights of its flow do not fit each other")
        # Copied: a stored array is read-only memory, mapped from a file.
        flow.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
        return cls(center, scale, flow.requires_grad_(False))


def fit_real_nvp(
    features: FloatArray,
    *,
    seed: int,
    n_layers: int = 4,
    n_hidden: int = 16,
    learning_rate: float = 1e-4,
    batch_size: int = 128,
    patience: int = 5,
    max_epochs: int = 100,
    max_steps: int = 5000,
) -> FeatureDensity:
    """Fit a RealNVP to training `features` (n, d): AdamW, the best weights on a held-out tenth are kept.

    Training ends when `patience` epochs in a row were no better, after `max_epochs`, or with the epoch in which
    `max_steps` is reached: with hundreds of columns the likelihood rises for very long, so time is what limits it.
    The same seed gives the same flow, and the global random generators are neither read nor changed.
    """
    matrix = float_matrix(features, "features", dtype=np.float64)
    check_not_empty(len(matrix), "features")
    center, scale = _center_and_scale(matrix)
    rows = torch.from_numpy(_standardize(matrix, center, scale)).float()
    generator = torch.Generator().manual_seed(seed)
    held_out, train = _split(rows, generator)
    flow = RealNVP(rows.shape[1], n_layers, n_hidden, generator=generator)
    optimizer = torch.optim.AdamW(flow.parameters(), lr=learning_rate, fused=True)

    # The identity is where it starts, so the result is never a worse density of the held-out rows than a normal.
    best, best_weights = _mean_log_prob(flow, held_out), _copy(flow)
    since_best = 0
    for _ in range(min(max_epochs, -(-max_steps * batch_size // len(train)))):
        for batch in torch.randperm(len(train), generator=generator).split(batch_size):
            loss = -flow.log_prob(train[batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = _mean_log_prob(flow, held_out)
        since_best += 1
        if found > best:  # never true of a NaN
            best, best_weights, since_best = found, _copy(flow), 0
        if since_best >= patience:
            break
    flow.load_state_dict(best_weights)
    return FeatureDensity(center, scale, flow.double().requires_grad_(False))


def _center_and_scale(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    deviation = matrix.std(axis=0)
    typical = float(np.sqrt(np.mean(deviation**2))) or 1.0
    return matrix.mean(axis=0), np.where(deviation > _CONSTANT * typical, deviation, typical)


def _standardize(features: FloatArray, center: FloatArray, scale: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # what overflows is clipped
        standardized: FloatArray = np.clip((features.astype(np.float64) - center) / scale, -_FARTHEST, _FARTHEST)
    return standardized


def _split(rows: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a held-out tenth and the rest; a single row is both."""
    order = torch.randperm(len(rows), generator=generator)
    n_held_out = max(1, len(rows) // 10)
    return rows[order[:n_held_out]], rows[order[n_held_out:]] if len(rows) > 1 else rows


def _mean_log_prob(flow: RealNVP, rows: torch.Tensor) -> float:
    with torch.inference_mode():
        return float(torch.cat([flow.log_prob(block) for block in rows.split(_BLOCK_ROWS)]).double().mean())


def _copy(flow: RealNVP) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in flow.state_dict().items()}
