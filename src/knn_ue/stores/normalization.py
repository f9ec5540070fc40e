"""What happens to features before they are compared: nothing, unit length, or unit variance."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, check_choice, check_not_empty
from knn_ue.errors import InvalidInputError
from knn_ue.storage.tensors import stored_array
from knn_ue.stores.exact import row_squared_norms

Normalize = Literal["none", "l2", "standardize"]
_ROWS = 1 << 14
# Beyond this, float32 squared distances overflow to infinity or vanish, and faiss would order rows by chance.
_SQUARED_NORM_RANGE = (1e-30, 1e37)


@dataclass(frozen=True, eq=False)
class Normalization:
    """A map of features learned on the stored ones and applied to every query.

    "l2" gives every row length one (a zero row stays zero); "standardize" gives every column mean zero and variance
    one (a constant column becomes zero).
    """

    kind: Normalize
    mean: FloatArray
    scale: FloatArray

    @classmethod
    def learn(cls, features: FloatArray, kind: Normalize) -> "Normalization":
        """Learn from stored `features` (n, d)."""
        check_choice(kind, "normalize", get_args(Normalize))
        if kind != "standardize":
            return cls(kind, np.empty(0), np.empty(0))
        check_not_empty(len(features), 'features for normalize="standardize"')
        mean = features.mean(axis=0, dtype=np.float64)
        scale = np.sqrt(sum(((block - mean) ** 2).sum(axis=0) for block in _blocks(features)) / len(features))
        constant = scale <= 1e-7 * np.abs(mean)  # what float32 rounding alone leaves of a constant column
        return cls(kind, mean, np.where(constant | (scale == 0), np.inf, scale))

    def __call__(self, features: FloatArray) -> FloatArray:
        """Return float32 `features` as they are compared; without normalization the very same array."""
        if self.kind == "none":
            return features
        result = np.empty(features.shape, dtype=np.float32)
        for start in range(0, len(features), _ROWS):
            block = features[start : start + _ROWS].astype(np.float64)
            if self.kind == "l2":
                length = np.linalg.norm(block, axis=1, keepdims=True)
                block /= np.where(length == 0, 1.0, length)
            else:
                block = (block - self.mean) / self.scale
            with np.errstate(over="ignore"):  # too large for float32: the caller's range check says so
                result[start : start + _ROWS] = block
        return result

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store."""
        return {"normalize_mean": self.mean, "normalize_scale": self.scale}

    @classmethod
    def from_arrays(cls, kind: Any, arrays: dict[str, npt.NDArray[Any]], n_columns: int) -> "Normalization":
        """Return the normalization stored in `arrays`; ValueError where it is not as we write it."""
        mean, scale = (stored_array(arrays, f"normalize_{name}", np.float64, 1) for name in ("mean", "scale"))
        expected = n_columns if kind == "standardize" else 0
        usable = np.isfinite(mean).all() and (scale > 0).all()
        if kind not in get_args(Normalize) or not len(mean) == len(scale) == expected or not usable:
            raise ValueError(f"its normalization {kind!r} does not fit {n_columns} columns")
        return cls(kind, mean, scale)


def check_range(vectors: FloatArray, *, all_of_them: bool = False) -> None:
    """Refuse lengths that float32 distances cannot tell apart; short vectors only if no others are among them."""
    low, high = _SQUARED_NORM_RANGE
    if not all_of_them:
        # Most queries pass by their largest value alone; norms cost as much as the rest of a quick search.
        value = max(float(vectors.max(initial=0.0)), -float(vectors.min(initial=0.0)))
        if vectors.shape[1] * value**2 <= high:
            return
    largest = float(row_squared_norms(vectors).max(initial=0.0))
    if not largest <= high or (all_of_them and 0 < largest < low):
        raise InvalidInputError(
            f"features must have lengths between {low**0.5:.0e} and {high**0.5:.0e} for float32 distances, "
            f"the longest has {largest**0.5:.3g}: multiply all features by one constant"
        )


def _blocks(features: FloatArray) -> list[FloatArray]:
    return [features[start : start + _ROWS] for start in range(0, len(features), _ROWS)]
