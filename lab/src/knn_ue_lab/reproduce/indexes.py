"""The indexes of the paper's efficiency tables, as data; benchmarks and the reproduction share them."""

from collections.abc import Mapping, Sequence
from typing import Any

from knn_ue.stores import IndexOptions

IndexTable = Sequence[tuple[str, IndexOptions]]


def paper_indexes(n_columns: int) -> Mapping[str, IndexTable]:
    """Return the rows of each table, a name and an index, as far as features of `n_columns` allow them.

    PQ has 32 centroids (5 bits) as the paper says; "approximate" distances are the index's own, "recomputed" ones come
    from the vectors. n_probe reaches the IVF behind a PCA: in the published code faiss ignored it there, which is the
    row "n_probe 1, as published". "refined" is ours: exact distances for what an index finds.

    >>> [name for name, _ in paper_indexes(384)["pca"]]
    ['PCA 64', 'PCA 128', 'PCA 256']
    """
    parts = [n for n in (16, 32, 64) if n_columns % n == 0]
    widths = [width for width in (64, 128, 256) if width < n_columns]
    tables: dict[str, list[tuple[str, IndexOptions]]] = {
        "pq": [(f"PQ {n}", _approximate(f"PQ{n}x5")) for n in parts],
        "ivf": [(f"PQ 32 + IVF, n_probe {n}", _approximate("IVF100,PQ32x5", n_probe=n)) for n in (8, 16, 32, 64)],
        "ivf-flat": [(f"IVF, n_probe {n}", _approximate("IVF100,Flat", n_probe=n)) for n in (1, 8, 16, 32, 64)],
        "pca": [(f"PCA {n}", _approximate(f"PCA{n},Flat")) for n in widths],
        "combined": [
            ("PQ 32", _approximate("PQ32x5")),
            ("PQ 32 + IVF, n_probe 32", _approximate("IVF100,PQ32x5", n_probe=32)),
            ("PQ 32 + IVF + PCA 128, n_probe 32", _approximate("PCA128,IVF100,PQ32x5", n_probe=32)),
            ("the same with n_probe 1, as published", _approximate("PCA128,IVF100,PQ32x5", n_probe=1)),
        ],
        "recomputed": [
            ("approximate distances", _approximate("PCA128,IVF100,PQ32x5", n_probe=32)),
            ("recomputed distances", IndexOptions(factory="PCA128,IVF100,PQ32x5", n_probe=32)),
        ],
        "refined": [
            ("PQ 32", IndexOptions(factory="PQ32x5")),
            ("PQ 32 + IVF, n_probe 32", IndexOptions(factory="IVF100,PQ32x5", n_probe=32)),
            ("PQ 32 + IVF + PCA 128, n_probe 32", IndexOptions(factory="PCA128,IVF100,PQ32x5", n_probe=32)),
            (
                "PCA 128 + IVF 512 + PQ 64x4fs, refine 8",
                IndexOptions(factory="PCA128,IVF512,PQ64x4fs", n_probe=32, refine_factor=8),
            ),
        ],
    }
    if 32 not in parts or 128 not in widths:
        tables = {name: tables[name] for name in ("pq", "ivf-flat", "pca")}
    return tables


def _approximate(factory: str, **options: Any) -> IndexOptions:
    return IndexOptions(factory=factory, recompute=False, **options)
