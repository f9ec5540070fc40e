"""faiss behind one class, in memory and in a file; its squared distances end here.

A file is read after its hash was verified, so no accident is in it. An enemy can recompute hashes, and a file of theirs
may end or hang the process, like any model file. It may not name another file, and rows that it names must exist.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.stores.exact import direct_distances, sorted_by_distance
from knn_ue.stores.options import Building, IndexOptions

_GROWTH = 4
_ADD_ROWS = 1 << 16
_SEARCH_VALUES = 1 << 22
_EXTRA = 8
_SAVED = {
    "IndexPreTransform",
    "IndexFlat",
    "IndexFlatL2",
    "IndexPQ",
    "IndexPQFastScan",
    "IndexScalarQuantizer",
    "IndexIVFFlat",
    "IndexIVFPQ",
    "IndexIVFPQFastScan",
    "IndexIVFScalarQuantizer",
    "IndexHNSWFlat",
    "IndexHNSWPQ",
    "IndexHNSWSQ",
}
# Where a pre-transform holds its index, an IVF its coarse quantizer, an HNSW its vectors.
_INSIDE = ("index", "quantizer", "storage")


def build_faiss(vectors: FloatArray, options: IndexOptions, how: Building) -> "FaissIndex":
    """Train and fill a faiss index; see `knn_ue.stores.segment.build_index`."""
    sample = _sample(vectors, how.train_rows, how.seed)
    way_out = "store more examples" if sample is vectors else "raise train_rows"
    inner = _untrained(options, vectors.shape[1])
    with _build_errors(options, len(sample), way_out="change its numbers"):
        quantizers = _prepare_training(inner)
    with _build_errors(options, len(sample), way_out=way_out):
        inner.train(sample)
    _drop_training_leftovers(inner)
    quantizers.clear()
    for start in range(0, len(vectors), _ADD_ROWS):
        block = vectors[start : start + _ADD_ROWS]
        _check_codes_hold(inner, block, options)
        with _build_errors(options, len(vectors), way_out="store fewer examples"):
            inner.add(block)
        if how.progress is not None:
            how.progress(inner.ntotal)
    if len(vectors):  # what can be built but not searched is refused here, and not by the first search
        with _build_errors(options, len(vectors), way_out="choose other codes"):
            inner.search(np.ascontiguousarray(vectors[:1]), 1)
    return FaissIndex(inner, vectors if how.keep_vectors else None, options)


def check_faiss(options: IndexOptions, n_columns: int) -> None:
    """Raise where a faiss index over `n_columns` could not be built or saved whatever its rows."""
    inner = _untrained(options, n_columns)
    _check_writable(inner)
    _apply_settings(inner, options)


def read_index(path: Path, shape: tuple[int, ...], vectors: FloatArray | None, options: IndexOptions) -> "FaissIndex":
    """Read the index of `shape` (rows, columns) from a file whose hash was verified."""
    import faiss

    strange = StorageError(f"{path} is not a faiss index written by knn-ue: do not trust this folder")
    if _names_another_file(path):
        raise strange
    try:
        inner: Any = faiss.read_index(str(path))
    except (RuntimeError, MemoryError) as error:
        raise StorageError(f"{path} is not a usable faiss index ({_reason(error)}): restore it from a backup") from None
    if inner is None or _kinds(inner) - _SAVED:
        raise strange
    if not inner.is_trained or (inner.ntotal, inner.d) != shape:
        raise StorageError(f"{path} indexes {inner.ntotal} rows of {inner.d}, not {shape}: it was replaced")
    return FaissIndex(inner, vectors, options)


def check_keeps_vectors(options: IndexOptions) -> None:
    """Raise unless an index with these `options` can do without the vectors."""
    if options.factory == "Flat" or options.recompute:
        raise InvalidInputError(
            "without vectors exact distances cannot be computed: use keep_vectors=True, or an index that does without, "
            'such as IndexOptions(factory="PCA64,PQ16", recompute=False)'
        )


class FaissIndex:
    """A faiss index proposes rows; their distances are computed from the vectors, or the index's own are kept."""

    def __init__(self, inner: Any, vectors: FloatArray | None, options: IndexOptions) -> None:
        self.inner = inner
        self.vectors = vectors
        self.refine_factor = options.refine_factor
        self.approximate = not options.recompute
        _apply_settings(inner, options)

    @property
    def n_columns(self) -> int:
        """Number of columns of the vectors as they are given."""
        return int(self.inner.d)

    def search(
        self, queries: FloatArray, n_neighbors: int, excluded: BoolArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """See `Index.search`; fetches more where excluded rows leave fewer than `n_neighbors`."""
        n_rows: int = self.inner.ntotal
        fetch = min(n_rows, n_neighbors * self.refine_factor)
        distances, rows, filled = self._search_once(queries, n_neighbors, fetch, excluded)
        if excluded is not None:
            # What faiss did not fill now it will not fill later.
            pending = np.flatnonzero(filled & (rows[:, -1] < 0))
            while len(pending) and fetch < n_rows:
                fetch = min(n_rows, fetch * _GROWTH)
                distances[pending], rows[pending], filled = self._search_once(
                    queries[pending], n_neighbors, fetch, excluded
                )
                pending = pending[filled & (rows[pending, -1] < 0)]
        return distances, rows

    def space(self, vectors: FloatArray) -> FloatArray:
        """See `Index.space`: what stands before the index (PCA, OPQ, ...) where its own distances are kept."""
        for transform in _transforms_of(self.inner) if self.approximate else []:
            vectors = transform.apply(vectors)
        return vectors

    def write(self, path: Path) -> None:
        """Write the faiss part to a file."""
        import faiss

        _check_writable(self.inner)
        try:
            with path.open("wb") as file:  # faiss's own files do not notice when the disk refuses the last bytes
                faiss.write_index(self.inner, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]
        except RuntimeError as error:
            raise OSError(_reason(error)) from None

    def _search_once(
        self, queries: FloatArray, n_neighbors: int, fetch: int, excluded: BoolArray | None
    ) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return distances, rows, and for which queries (n,) faiss found all it was asked to fetch."""
        step = max(1, _SEARCH_VALUES // max(1, fetch))
        if len(queries) > step:
            blocks = [queries[start : start + step] for start in range(0, len(queries), step)]
            parts = [self._search_once(block, n_neighbors, fetch, excluded) for block in blocks]
            distances, rows, filled = (np.concatenate(part) for part in zip(*parts, strict=True))
            return distances, rows, filled
        squared, found = self._propose(queries, fetch)
        filled = found[:, -1] >= 0 if fetch else np.zeros(len(queries), dtype=bool)
        if excluded is not None:
            found = np.where(excluded[found], -1, found)
        if self.approximate:
            distances, rows = _sorted_roots(squared, found, n_neighbors)
        else:
            assert self.vectors is not None
            found = _shortlist(self.vectors, queries, found, n_neighbors + _EXTRA)
            distances, rows = sorted_by_distance(direct_distances(self.vectors, queries, found), found, n_neighbors)
        if fetch < n_neighbors:
            padding = ((0, 0), (0, n_neighbors - fetch))
            distances, rows = (
                np.pad(distances, padding, constant_values=np.inf),
                np.pad(rows, padding, constant_values=-1),
            )
        return distances, rows, filled

    def _propose(self, queries: FloatArray, fetch: int) -> tuple[FloatArray, IntArray]:
        if not fetch or not len(queries):
            return np.empty((len(queries), fetch), dtype=np.float32), np.empty((len(queries), fetch), dtype=np.int64)
        squared: FloatArray
        found: IntArray
        try:
            squared, found = self.inner.search(queries, fetch)
        except (RuntimeError, MemoryError) as error:
            raise StorageError(f"faiss cannot search this index ({_reason(error)}): rebuild it") from None
        if found.max() >= self.inner.ntotal or found.min() < -1:
            raise StorageError(f"the index names rows that do not exist among {self.inner.ntotal}: rebuild it")
        return squared, found


def _shortlist(vectors: FloatArray, queries: FloatArray, rows: IntArray, n_kept: int) -> IntArray:
    """Return the `n_kept` of each query's `rows` (n, candidates) that lie nearest in float32, in no order.

    faiss compares them in place, which is ten times faster than to gather them; what is left is compared in float64.
    """
    if rows.shape[1] <= n_kept:
        return rows
    import faiss

    squared = np.full(rows.shape, np.inf, dtype=np.float32)
    rows = np.ascontiguousarray(rows)
    pointers = [faiss.swig_ptr(array) for array in (squared, queries, vectors, rows)]
    # It leaves alone what belongs to a row of -1.
    faiss.fvec_L2sqr_by_idx(*pointers, vectors.shape[1], *rows.shape)  # type: ignore[attr-defined]
    keys = _sort_keys(squared, rows)
    keys.partition(n_kept - 1, axis=1)
    return keys[:, :n_kept].view("<i4")[:, ::2].astype(np.int64)


def _sort_keys(squared: FloatArray, rows: IntArray) -> IntArray:
    """Return one integer for each float32 squared distance and its row, which orders by both; a row of -1 comes last.

    The bits of floats that are not negative rise with them. So a distance above its row makes one integer to sort,
    which is several times faster than sorting by two keys.
    """
    pairs = np.empty((*rows.shape, 2), dtype="<i4")
    pairs[..., 0] = rows
    # Rounding makes some of faiss's distances negative.
    np.maximum(squared.view(np.int32), 0, out=pairs[..., 1])
    missing = rows < 0
    if missing.any():
        pairs[missing, 1] = np.iinfo(np.int32).max
    keys: IntArray = pairs.view("<i8")[..., 0]
    return keys


def _sorted_roots(squared: FloatArray, rows: IntArray, n_neighbors: int) -> tuple[FloatArray, IntArray]:
    """Return the roots of float32 `squared` distances and their rows, sorted by both; (inf, -1) where missing."""
    if np.isnan(squared.min(initial=0.0)):
        raise StorageError("the index holds distances that are not numbers: rebuild it")
    keys = _sort_keys(squared, rows)
    keys.sort(axis=1)
    pairs = np.ascontiguousarray(keys[:, :n_neighbors]).view("<i4").reshape(len(keys), -1, 2)
    found = pairs[..., 0].astype(np.int64)
    distances = np.ascontiguousarray(pairs[..., 1]).view("<f4").astype(np.float64)
    distances[found < 0] = np.inf
    return np.sqrt(distances, out=distances), found


def _apply_settings(inner: Any, options: IndexOptions) -> None:
    """Set search options on the index inside a pre-transform, where `nprobe` on the outer one is silently ignored."""
    import faiss

    for value, name, faiss_name in (
        (options.n_probe, "n_probe", "nprobe"),
        (options.ef_search, "ef_search", "efSearch"),
    ):
        if value is None:
            continue
        try:
            faiss.ParameterSpace().set_index_parameter(inner, faiss_name, value)
        except RuntimeError:
            raise InvalidInputError(f"{name}={value} has no effect on {options.factory!r}: leave it out") from None


def _untrained(options: IndexOptions, n_columns: int) -> Any:
    import faiss

    try:
        return faiss.index_factory(n_columns, options.factory)
    except (RuntimeError, MemoryError) as error:
        raise InvalidInputError(
            f'index must be "exact", "auto" or a faiss factory string for {n_columns} columns, '
            f"got {options.factory!r} ({_reason(error)})"
        ) from None


@contextmanager
def _build_errors(options: IndexOptions, n_rows: int, *, way_out: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise InvalidInputError(
            f"faiss cannot build {options.factory!r} from {n_rows} rows ({_reason(error)}): "
            f'{way_out} or choose a smaller index, such as "exact"'
        ) from None


def _check_codes_hold(inner: Any, vectors: FloatArray, options: IndexOptions) -> None:
    """Raise where a code has a range of its own and the values leave it: they would become infinity, or anything."""
    import faiss

    ranges = {
        faiss.ScalarQuantizer.QT_fp16: (-65504.0, 65504.0),
        faiss.ScalarQuantizer.QT_8bit_direct: (0.0, 255.0),
        faiss.ScalarQuantizer.QT_8bit_direct_signed: (-128.0, 127.0),
    }
    for part in _parts_of(inner):
        if not hasattr(part, "sq") or part.sq.qtype not in ranges:
            continue
        for transform in _transforms_of(inner):
            vectors = transform.apply(vectors)
        low, high = float(vectors.min(initial=0.0)), float(vectors.max(initial=0.0))
        if getattr(part, "by_residual", False):  # differences from a list's center, which lies among the rows
            low, high = low - high, high - low
        least, most = ranges[part.sq.qtype]
        if not (least <= low and high <= most):
            raise InvalidInputError(
                f"{options.factory!r} holds values within {least:g} and {most:g}, these reach from {low:.6g} to "
                f'{high:.6g}: multiply all features by one constant, or choose another index, such as "SQ8"'
            )


def _sample(vectors: FloatArray, n_rows: int | None, seed: int) -> FloatArray:
    if n_rows is None or n_rows >= len(vectors):
        return vectors
    return vectors[np.sort(np.random.default_rng(seed).choice(len(vectors), n_rows, replace=False))]


def _transforms_of(inner: Any) -> list[Any]:
    """Return what stands before an index, each as its own class."""
    import faiss

    numbers = range(inner.chain.size() if hasattr(inner, "chain") else 0)
    return [faiss.downcast_VectorTransform(inner.chain.at(number)) for number in numbers]


def _drop_training_leftovers(inner: Any) -> None:
    """Drop the full matrix (d, d) that a PCA keeps beside the part of it that is applied, and OPQ's quantizer."""
    for transform in _transforms_of(inner):
        if hasattr(transform, "PCAMat"):
            transform.PCAMat.clear()
        if hasattr(transform, "niter_pq"):
            transform.pq = None


def _prepare_training(inner: Any) -> list[Any]:
    """Skip what faiss does for others: seconds of reordering each code book, and advice on stderr.

    Returns what has to live until the training is done.
    """
    for part in _parts_of(inner):
        if hasattr(part, "do_polysemous_training"):  # only serves a search mode that is not used here
            part.do_polysemous_training = False
        owners: list[Any] = [part, getattr(part, "pq", None)]
        for owner in owners:
            if hasattr(owner, "cp"):
                owner.cp.min_points_per_centroid = 1
    return [_quantizer_of(transform, inner) for transform in _transforms_of(inner) if hasattr(transform, "niter_pq")]


def _quantizer_of(transform: Any, inner: Any) -> Any:
    """Give an OPQ a quantizer with the index's own number of bits, and without advice on stderr."""
    import faiss

    bits = [part.pq.nbits for part in _parts_of(inner) if hasattr(part, "pq")]
    quantizer = faiss.ProductQuantizer(transform.d_out, transform.M, bits[0] if bits else 8)
    quantizer.cp.min_points_per_centroid = 1
    transform.pq = quantizer
    return quantizer


def _check_writable(inner: Any) -> None:
    strange = _kinds(inner) - _SAVED
    if strange:
        raise InvalidInputError(
            f"a faiss {strange.pop()} cannot be saved, because faiss does not read it back safely: "
            'choose "exact", or build from Flat, PQ, SQ, IVF and HNSW'
        )


def _kinds(inner: Any) -> set[str]:
    return {type(part).__name__ for part in _parts_of(inner)}


def _parts_of(inner: Any) -> list[Any]:
    """Return the index and those inside it, each as its own class."""
    import faiss

    part = faiss.downcast_index(inner)
    children = [getattr(part, name) for name in _INSIDE if getattr(part, name, None) is not None]
    return [part, *(deeper for child in children for deeper in _parts_of(child))]


def _reason(error: Exception) -> str:
    """Keep the last clause of faiss's message: the rest is a C++ function signature."""
    return re.sub(r"\s+", " ", str(error)).split(": ", 1)[-1].removeprefix("Error: ").strip()


def _names_another_file(path: Path) -> bool:
    """Say whether the index keeps its lists in a file of any name, which faiss would open: "ilod" and their number."""
    size = path.stat().st_size
    if not size:
        return False
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        found = [match.end() for match in re.finditer(b"ilod", content)]
        return any(int.from_bytes(content[place : place + 8], "little") <= size for place in found)
