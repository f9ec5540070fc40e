"""How unusual an input is among the training inputs: Mahalanobis distances in several views, put on one scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, check_not_empty, read_only
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs

_SHRINKAGE = 1e-3
_BLOCK = 4096  # rows at a time: float64 copies of all of them would cost several times the views
_PREFIX = "space."
_MOST = 1e15  # of a stored number: squares and sums of such stay finite


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSpace:
    """What is kept of the training inputs: nothing grows with their number.

    For each view its mean (k,), the whitening (k, k) of its covariance, and the `center` and `scale` (views,) of the
    training rows' own log distances. The covariance is shrunk by 0.1 % towards a multiple of the identity, so that
    constant columns and fewer rows than columns are no problem.
    """

    means: tuple[FloatArray, ...]
    whitenings: tuple[FloatArray, ...]
    center: FloatArray
    scale: FloatArray

    @classmethod
    def measure(cls, train: Outputs) -> "TrainingSpace":
        """Measure the training inputs; labels are not read."""
        check_not_empty(len(train), "the training Outputs given to Familiarity")
        return cls.measure_views(views_of(train))

    @classmethod
    def measure_views(cls, views: Sequence[FloatArray]) -> "TrainingSpace":
        """Measure the training inputs by their views, one (n, k) array each."""
        means, whitenings, center, scale = [], [], [], []
        for view in views:
            mean, whitening = _whiten(view)
            distances = _log_distance(view, mean, whitening)
            means.append(read_only(mean))
            whitenings.append(read_only(whitening))
            center.append(distances.mean())
            scale.append(distances.std() or 1.0)
        return cls(means=tuple(means), whitenings=tuple(whitenings), center=np.array(center), scale=np.array(scale))

    def score(self, outputs: Outputs) -> FloatArray:
        """Return how unusual each row (n,) is: the mean over views of its z-scored log distance."""
        views = views_of(outputs)
        widths = [view.shape[1] for view in views]
        expected = [len(mean) for mean in self.means]
        if widths != expected:
            raise InvalidInputError(
                f"familiarity was measured in {len(expected)} views of {_widths(expected)} columns, these Outputs have "
                f"{len(widths)} of {_widths(widths)}: use the same encoder with the same options"
            )
        total = np.zeros(len(outputs))
        for number, view in enumerate(views):
            distances = _log_distance(view, self.means[number], self.whitenings[number])
            total += (distances - self.center[number]) / self.scale[number]
        return total / len(views)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays to store; whitenings in float32, which is small beside what they are made of."""
        arrays = {f"{_PREFIX}center": self.center, f"{_PREFIX}scale": self.scale}
        for number, (mean, whitening) in enumerate(zip(self.means, self.whitenings, strict=True)):
            arrays |= {f"{_PREFIX}mean.{number}": mean, f"{_PREFIX}whitening.{number}": whitening}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "TrainingSpace":
        """Return what `to_arrays` gave; KeyError or ValueError where it is not that."""
        center, scale = (np.asarray(arrays[f"{_PREFIX}{name}"], dtype=np.float64) for name in ("center", "scale"))
        numbers = range(len(center))
        means, whitenings = (
            tuple(np.asarray(arrays[f"{_PREFIX}{name}.{number}"]) for number in numbers)
            for name in ("mean", "whitening")
        )
        square = all(
            mean.ndim == 1 and whitening.shape == (len(mean), len(mean))
            for mean, whitening in zip(means, whitenings, strict=True)
        )
        every = (center, scale, *means, *whitenings)
        if not square or scale.shape != center.shape or not len(center):
            raise ValueError("the views of its familiarity do not fit each other")
        if not all(x.dtype.kind == "f" and np.abs(x).max(initial=0) <= _MOST for x in every) or not (scale > 0).all():
            raise ValueError("its familiarity holds numbers that are not finite or too large, or a scale of 0")
        return cls(means=means, whitenings=whitenings, center=center, scale=scale)


def views_of(outputs: Outputs) -> Sequence[FloatArray]:
    """Return what familiarity looks at, one (n, k) array per view: `views`, else `layers`, else the features."""
    if outputs.views is not None:
        return [outputs.views[:, number] for number in range(outputs.views.shape[1])]
    if outputs.layers is not None:
        return list(outputs.layers)
    return [outputs.require_features("Familiarity")]


def _whiten(view: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean (k,) and the whitening (k, k) of the rows, both float32."""
    width = view.shape[1]
    mean = view.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((width, width))
    for start in range(0, len(view), _BLOCK):
        centered = view[start : start + _BLOCK].astype(np.float64) - mean
        covariance += centered.T @ centered
    covariance /= len(view)
    average = float(np.trace(covariance)) / width or 1.0
    shrunk = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * average * np.eye(width)
    whitening = np.linalg.inv(np.linalg.cholesky(shrunk))
    return mean.astype(np.float32), whitening.astype(np.float32)


def _log_distance(view: FloatArray, mean: FloatArray, whitening: FloatArray) -> FloatArray:
    """Return log(1 + Mahalanobis distance) of each row (n,): finite at the mean itself."""
    distances = np.empty(len(view))
    for start in range(0, len(view), _BLOCK):
        part = slice(start, start + _BLOCK)
        whitened = (view[part].astype(np.float64) - mean) @ whitening.T.astype(np.float64)
        distances[part] = np.log1p(np.linalg.norm(whitened, axis=1))
    return distances


def _widths(widths: Sequence[int]) -> str:
    return " and ".join(str(width) for width in sorted(set(widths))) or "no"
