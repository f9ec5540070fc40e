"""How to search: typed options, the faiss factory strings in them, and how features are normalized before."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, check_choice, check_not_empty, check_positive, float_matrix
from knn_ue.errors import InvalidInputError
from knn_ue.folder.tensors import stored_array
from knn_ue.stores.exact import row_squared_norms

# faiss believes every number: a 0, or HNSW1, ends the process, and one of many digits takes all memory.
_IMPOSSIBLE = re.compile(r"(?<!\d)0|HNSW1(?!\d)|\d{8}|(?<![\dF])\d{6}")
_AUTO_EXACT_VALUES = 1 << 26
_LARGEST_SETTING = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """How to search: a faiss factory string and the settings that reach the index inside it.

    `factory="Flat"` is exact. `n_probe` lists of an IVF and `ef_search` candidates of an HNSW are visited;
    `refine_factor` candidates per neighbor are fetched before exact distances decide.
    A trailing ",RFlat" is understood as `refine_factor` (4 unless given): our own vectors refine, without a copy.
    With `recompute=False` the index's own approximate distances are kept and the vectors are not looked at: the
    fastest search, whose distances are those of the reduced and quantized vectors (`Neighbors.approximate`).

    >>> IndexOptions(factory="IVF64,SQ8,RFlat").refine_factor
    4
    """

    factory: str = "Flat"
    n_probe: int | None = None
    ef_search: int | None = None
    refine_factor: int = 1
    recompute: bool = True

    def __str__(self) -> str:
        settings = {"n_probe": self.n_probe, "ef_search": self.ef_search}
        words = [self.factory] + [f"{name} {value}" for name, value in settings.items() if value is not None]
        if self.factory == "Flat":
            return "the exact search"
        return ", ".join([*words, f"refine {self.refine_factor}" if self.recompute else "its own distances"])

    def __post_init__(self) -> None:
        for name in ("n_probe", "ef_search", "refine_factor"):
            value = getattr(self, name)
            if value is not None:
                check_positive(value, name)
                if value > _LARGEST_SETTING:
                    raise InvalidInputError(f"{name} must be at most {_LARGEST_SETTING}, got {value}")
                object.__setattr__(self, name, int(value))  # neither faiss nor JSON takes numpy's
        if not isinstance(self.factory, str) or not self.factory:
            raise InvalidInputError(
                f'factory must be a faiss factory string such as "IVF256,SQ8", got {str(self.factory)[:60]!r}'
            )
        if _IMPOSSIBLE.search(self.factory):
            raise InvalidInputError(
                "numbers in factory must be at least 1, and 2 after HNSW, and below 100,000, or 10 million after IVF, "
                f"got {self.factory[:200]!r}"
            )
        if self.factory.endswith(",RFlat"):
            object.__setattr__(self, "factory", self.factory.removesuffix(",RFlat"))
            if self.refine_factor == 1:
                object.__setattr__(self, "refine_factor", 4)
        if not isinstance(self.recompute, bool):
            raise InvalidInputError(f"recompute must be True or False, got {self.recompute!r}")
        if self.refine_factor > 1 and not self.recompute:
            raise InvalidInputError(
                f"refine_factor={self.refine_factor} refines by exact distances, which recompute=False does without: "
                "leave one of them out"
            )


@dataclass(frozen=True, kw_only=True)
class Building:
    """How an index is built: trained on `train_rows` rows drawn by `seed`, or all; `progress` gets the rows it holds.

    Without `keep_vectors` only what it made of them is kept.
    """

    keep_vectors: bool = True
    train_rows: int | None = None
    seed: int = 0
    progress: Callable[[int], None] | None = None


def index_options(index: "str | IndexOptions", n_rows: int, n_columns: int) -> IndexOptions:
    """Turn "exact", "auto", a faiss factory string or `IndexOptions` into `IndexOptions`.

    "auto" is exact up to 2**26 stored values (rows x columns: 174,762 rows of 384), beyond that
    "IVF{4 sqrt(rows)},SQ8" that probes a sixteenth of the lists and refines 4 candidates for each neighbor.

    >>> index_options("auto", 7_000, 384)
    IndexOptions(factory='Flat', n_probe=None, ef_search=None, refine_factor=1, recompute=True)
    >>> index_options("auto", 392_702, 768)
    IndexOptions(factory='IVF2506,SQ8', n_probe=156, ef_search=None, refine_factor=4, recompute=True)
    """
    if isinstance(index, IndexOptions):
        return index
    if index == "exact":
        return IndexOptions()
    if index == "auto":
        if n_rows * n_columns <= _AUTO_EXACT_VALUES:
            return IndexOptions()
        n_lists = int(4 * np.sqrt(n_rows))
        return IndexOptions(factory=f"IVF{n_lists},SQ8", n_probe=max(1, n_lists // 16), refine_factor=4)
    return IndexOptions(factory=index)


# Up to so many stored values (rows x columns) an exact search costs a few percent of MiniLM's forward pass, and there
# is nothing to choose. A sentence asks for several of its words where a text asks once, so its limit is lower.
SMALL_VALUES = 1 << 24
SMALL_VALUES_FOR_WORDS = 1 << 22


def is_small(n_values: int, *, of_words: bool) -> bool:
    """Say whether a store of so many values is searched exactly at next to no cost beside the model.

    >>> is_small(7_396 * 768, of_words=False), is_small(69_273 * 384, of_words=True)
    (True, False)
    """
    return n_values <= (SMALL_VALUES_FOR_WORDS if of_words else SMALL_VALUES)


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
    def none(cls) -> "Normalization":
        """Return the map that leaves features as they are."""
        return cls("none", np.empty(0), np.empty(0))

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

    def of(self, features: object, n_columns: int) -> FloatArray:
        """Return `features` (n, n_columns) as they are compared, after checking them."""
        matrix = float_matrix(features, "features", dtype=np.float32)
        if matrix.shape[1] != n_columns:
            raise InvalidInputError(
                f"features must have the store's {n_columns} columns, got {matrix.shape[1]}: use the same encoder"
            )
        return self(matrix)

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
        """Return the normalization stored in `arrays`; ValueError if it is not valid."""
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
