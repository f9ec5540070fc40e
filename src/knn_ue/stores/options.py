"""How to search: typed options beside a faiss factory string."""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import check_positive
from knn_ue.errors import InvalidInputError
from knn_ue.stores.factory import check_factory

_AUTO_EXACT_VALUES = 1 << 26
_LARGEST_SETTING = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """How to search: a faiss factory string and the settings that reach the index inside it.

    `factory="Flat"` is exact. `n_probe` lists of an IVF and `ef_search` candidates of an HNSW are visited;
    `refine_factor` times as many candidates as asked for are fetched before exact distances decide.
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
        check_factory(self.factory)
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
