"""Which indexes are worth trying over n vectors of d columns, and in which order."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from knn_ue.datastore import IndexOptions

_POINTS_PER_LIST = 39  # faiss's own advice for training; fewer lists where rows are few
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_PCA = (64, 128)
# (recompute, refine_factor): the index's own distances, or those of the vectors for so many candidates a neighbor
_MODES = ((False, 1), (True, 1), (True, 4), (True, 8))


@dataclass(frozen=True)
class Family:
    """One faiss index, built once, and the settings to try on it: for each mode, from the fastest on."""

    factory: str
    n_lists: int | None

    def modes(self) -> Iterator[list[IndexOptions]]:
        """Yield for each way to measure distances its settings, fastest first."""
        probes = [None] if self.n_lists is None else [probe for probe in _PROBES if probe <= self.n_lists]
        for recompute, refine_factor in _MODES:
            yield [
                IndexOptions(factory=self.factory, n_probe=probe, recompute=recompute, refine_factor=refine_factor)
                for probe in probes
            ]


def index_families(n_rows: int, n_columns: int) -> list[Family]:
    """Return the families for a store of this size, those that promise most first.

    Four-bit product codes scanned in registers, behind a PCA where there are columns to spare and behind inverted lists
    where there are rows to skip; and 8-bit scalar codes, which lose next to nothing. Graphs are left out: on two cores
    they take minutes to build.

    >>> [family.factory for family in index_families(69_465, 384)]
    ['PCA64,IVF256,PQ32x4fs', 'PCA128,IVF256,PQ64x4fs', 'IVF256,SQ8', 'PCA64,PQ32x4fs']
    """
    n_lists = max(1, min(2 ** round(math.log2(math.sqrt(max(1, n_rows)))), n_rows // _POINTS_PER_LIST))
    widths = [width for width in _PCA if 1.5 * width <= n_columns]
    codes = [(f"PCA{width},", f"PQ{width // 2}x4fs") for width in widths]
    if not codes and n_columns % 2 == 0:
        codes = [("", f"PQ{n_columns // 2}x4fs")]
    families = [Family(f"{before}IVF{n_lists},{code}", n_lists) for before, code in codes]
    families.append(Family(f"IVF{n_lists},SQ8", n_lists))
    return families + [Family(f"{before}{code}", None) for before, code in codes[:1]]
