"""Which indexes are worth trying over n vectors of d columns, and in which order."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from knn_ue.stores import IndexOptions

_POINTS_PER_LIST = 39  # faiss's own advice for training; fewer lists where rows are few
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_PCA = (64, 32, 128)
# (width of the PCA, codes of four bits)
_CODES = ((64, 64), (64, 32), (128, 64))
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

    8-bit scalar codes, which lose next to nothing, and four-bit product codes, which are scanned in registers; behind
    a PCA where there are columns to spare and behind inverted lists where there are rows to skip. A PCA is followed by
    a rotation (PCAR): else the first codes would have to hold nearly all of the variance. Graphs are left out: they
    find more, but codes take a fraction of their time (benchmarks/peers.py shows both).

    >>> for family in index_families(69_465, 384): print(family.factory)
    PCAR64,IVF256,SQ8
    PCAR32,IVF256,SQ8
    PCAR128,IVF256,SQ8
    PCAR64,IVF256,PQ64x4fs
    PCAR64,IVF256,PQ32x4fs
    PCAR128,IVF256,PQ64x4fs
    IVF256,SQ8
    PCAR64,PQ32x4fs
    """
    n_lists = max(1, min(2 ** round(math.log2(math.sqrt(max(1, n_rows)))), n_rows // _POINTS_PER_LIST))
    lists = f"IVF{n_lists}"
    widths = [width for width in _PCA if 1.5 * width <= n_columns]
    factories = [f"PCAR{width},{lists},SQ8" for width in widths]
    factories += [f"PCAR{width},{lists},PQ{n_codes}x4fs" for width, n_codes in _CODES if width in widths]
    if not widths and n_columns % 2 == 0:
        factories.append(f"{lists},PQ{n_columns // 2}x4fs")
    factories.append(f"{lists},SQ8")
    families = [Family(factory, n_lists) for factory in factories]
    width = 64 if 64 in widths else max(widths, default=n_columns)
    if width % 2 == 0:
        families.append(Family(f"{f'PCAR{width},' if widths else ''}PQ{width // 2}x4fs", None))
    return families
