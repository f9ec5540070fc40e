"""The same search on a GPU, where the user's faiss was built for one and the user asks for it."""

from threading import Lock
from typing import Any

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.stores.faiss_file import faiss_reason
from knn_ue.stores.faiss_index import FaissIndex
from knn_ue.stores.options import IndexOptions
from knn_ue.stores.segment import Index

_ROWS_AT_ONCE = 1 << 16
# A GPU sums in another order: some more candidates than asked for, whose distances are then computed directly.
_EXACT = IndexOptions(refine_factor=2)


class _Clone:
    """A copy of a faiss index on a GPU; its memory serves one search at a time."""

    def __init__(self, index: Any, resources: Any) -> None:
        self._index, self._resources, self._lock = index, resources, Lock()

    def search(self, queries: FloatArray, n_neighbors: int) -> tuple[FloatArray, IntArray]:
        with self._lock:
            distances, rows = self._index.search(queries, n_neighbors)
        return distances, rows


def on_gpu(index: Index, vectors: FloatArray | None, options: IndexOptions, number: int) -> Index:
    """Return `index` over `vectors` (n, d) with its candidates found by the GPU with this `number`."""
    import faiss

    n_gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    if not isinstance(number, int) or not 0 <= number < n_gpus:
        raise InvalidInputError(
            f"gpu {number!r} is not one of the {n_gpus} that faiss can use here: "
            "install a faiss that was built for your GPU (faiss-gpu), or search on the CPU"
        )
    inner = index.inner if isinstance(index, FaissIndex) else _flat(faiss, vectors)
    resources = faiss.StandardGpuResources()
    try:
        clone = faiss.index_cpu_to_gpu(resources, number, inner)
    except RuntimeError as error:
        raise InvalidInputError(
            f"faiss cannot put {options.factory!r} on a GPU ({faiss_reason(error)}): "
            'use "exact", or an IVF with Flat, SQ8 or PQ codes of 8 bits'
        ) from None
    return FaissIndex(
        inner if isinstance(index, FaissIndex) else clone,
        vectors,
        options if isinstance(index, FaissIndex) else _EXACT,
        searched=_Clone(clone, resources),
    )


def _flat(faiss: Any, vectors: FloatArray | None) -> Any:
    assert vectors is not None
    flat = faiss.IndexFlatL2(vectors.shape[1])
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        flat.add(vectors[start : start + _ROWS_AT_ONCE])
    return flat
