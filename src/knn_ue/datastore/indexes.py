"""faiss behind one `build_index`; faiss's squared and approximate distances end here."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_positive
from knn_ue.datastore.exact import ExactIndex, direct_distances, sorted_by_distance
from knn_ue.datastore.faissfile import faiss_reason, parts_of, read_faiss, write_faiss
from knn_ue.errors import InvalidInputError, StorageError

_GROWTH = 4
_ADD_ROWS = 1 << 16
_SEARCH_VALUES = 1 << 22
_AUTO_EXACT_VALUES = 1 << 26
_LARGEST_SETTING = 2**31 - 1
# faiss ends the process on "HNSW0" and "RR0".
_NUMBERED = re.compile(r"([A-Za-z]+)([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """How to search: a faiss factory string and the settings that reach the index inside it.

    `factory="Flat"` is exact. `n_probe` lists of an IVF and `ef_search` candidates of an HNSW are visited;
    `refine_factor` times as many candidates as asked for are fetched before exact distances decide.
    A trailing ",RFlat" is understood as `refine_factor` (4 unless given): our own vectors refine, without a copy.

    >>> IndexOptions(factory="IVF64,SQ8,RFlat").refine_factor
    4
    """

    factory: str = "Flat"
    n_probe: int | None = None
    ef_search: int | None = None
    refine_factor: int = 1

    def __post_init__(self) -> None:
        for name in ("n_probe", "ef_search", "refine_factor"):
            value = getattr(self, name)
            if value is not None:
                check_positive(value, name)
                if value > _LARGEST_SETTING:
                    raise InvalidInputError(f"{name} must be at most {_LARGEST_SETTING}, got {value}")
        if not isinstance(self.factory, str) or not self.factory:
            raise InvalidInputError(
                f'factory must be a faiss factory string such as "IVF256,SQ8", got {self.factory!r}'
            )
        if any(int(number) < (2 if "NS" in name else 1) for name, number in _NUMBERED.findall(self.factory)):
            raise InvalidInputError(f"numbers in factory must be at least 1, and 2 after HNSW, got {self.factory!r}")
        if self.factory.endswith(",RFlat"):
            object.__setattr__(self, "factory", self.factory.removesuffix(",RFlat"))
            if self.refine_factor == 1:
                object.__setattr__(self, "refine_factor", 4)


class Index(Protocol):
    """Rows of an array, ready to be searched."""

    def search(
        self, queries: FloatArray, n_neighbors: int, excluded: BoolArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return Euclidean distances and rows (queries, n_neighbors), sorted by both; (inf, -1) where missing."""
        ...


def index_options(index: "str | IndexOptions", n_rows: int, n_columns: int) -> IndexOptions:
    """Turn "exact", "auto", a faiss factory string or `IndexOptions` into `IndexOptions`.

    "auto" is exact up to 2**26 stored values (rows x columns: 174,762 rows of 384), beyond that
    "IVF{4 sqrt(rows)},SQ8" that probes a sixteenth of the lists and refines 4 candidates for each neighbor.

    >>> index_options("auto", 7_000, 384)
    IndexOptions(factory='Flat', n_probe=None, ef_search=None, refine_factor=1)
    >>> index_options("auto", 392_702, 768)
    IndexOptions(factory='IVF2506,SQ8', n_probe=156, ef_search=None, refine_factor=4)
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


def build_index(vectors: FloatArray, options: IndexOptions) -> Index:
    """Train and fill the index that `options` describe over `vectors` (n, d) float32, referred to, not copied."""
    if options.factory == "Flat":
        _refuse_settings(options)
        return ExactIndex(vectors)
    import faiss

    try:
        inner = faiss.index_factory(vectors.shape[1], options.factory)
    except (RuntimeError, MemoryError) as error:
        raise InvalidInputError(
            f'index must be "exact", "auto" or a faiss factory string for {vectors.shape[1]} columns, '
            f"got {options.factory!r} ({faiss_reason(error)})"
        ) from None
    _prepare_training(inner)
    try:
        inner.train(vectors)
        for start in range(0, len(vectors), _ADD_ROWS):
            inner.add(vectors[start : start + _ADD_ROWS])
    except (RuntimeError, MemoryError) as error:
        raise InvalidInputError(
            f"faiss cannot build {options.factory!r} from {len(vectors)} rows ({faiss_reason(error)}): "
            'store more examples or choose a smaller index, such as "exact"'
        ) from None
    return FaissIndex(inner, vectors, options)


def rebuild_index(vectors: FloatArray, options: IndexOptions) -> Index:
    """Build what was built before over other rows; exact where too few are left for it."""
    try:
        return build_index(vectors, options)
    except InvalidInputError:
        return ExactIndex(vectors)


def read_index(path: Path, vectors: FloatArray, options: IndexOptions) -> Index:
    """Read a faiss file whose checksum was verified, refusing one that does not belong to `vectors`."""
    return FaissIndex(read_faiss(path, vectors.shape), vectors, options)


class FaissIndex:
    """A faiss index proposes rows; their distances are computed from the vectors."""

    def __init__(self, inner: Any, vectors: FloatArray, options: IndexOptions) -> None:
        self.inner = inner
        self.vectors = vectors
        self.refine_factor = options.refine_factor
        _apply_settings(inner, options)

    def search(
        self, queries: FloatArray, n_neighbors: int, excluded: BoolArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """See `Index.search`; fetches more where excluded rows leave fewer than `n_neighbors`."""
        distances = np.full((len(queries), n_neighbors), np.inf)
        rows = np.full((len(queries), n_neighbors), -1, dtype=np.int64)
        pending = np.arange(len(queries))
        fetch = min(len(self.vectors), n_neighbors * self.refine_factor)
        while fetch and len(pending):
            unfinished = []
            step = max(1, _SEARCH_VALUES // fetch)
            for block in (pending[start : start + step] for start in range(0, len(pending), step)):
                found = self._propose(queries[block], fetch)
                filled = found[:, -1] >= 0  # what faiss did not fill now it will not fill later
                if excluded is not None:
                    found = np.where(excluded[found], -1, found)
                exact = direct_distances(self.vectors, queries[block], found)
                nearest, nearest_rows = sorted_by_distance(exact, found, n_neighbors)
                distances[block, : nearest.shape[1]] = nearest
                rows[block, : nearest.shape[1]] = nearest_rows
                unfinished.append(block[filled & ((found >= 0).sum(axis=1) < n_neighbors)])
            if fetch == len(self.vectors):
                break
            pending = np.concatenate(unfinished)
            fetch = min(len(self.vectors), fetch * _GROWTH)
        return distances, rows

    def write(self, path: Path) -> None:
        """Write the faiss part to a file."""
        write_faiss(self.inner, path)

    def _propose(self, queries: FloatArray, fetch: int) -> IntArray:
        try:
            found: IntArray = self.inner.search(queries, fetch)[1]
        except (RuntimeError, MemoryError) as error:
            raise StorageError(f"faiss cannot search this index ({faiss_reason(error)}): rebuild it") from None
        if found.size and (found.max() >= len(self.vectors) or found.min() < -1):
            raise StorageError(f"the index names rows that do not exist among {len(self.vectors)}: rebuild it")
        return found


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
    # faiss allocates for as many as it is told, also where it is told by a file.
    for part in parts_of(inner):
        if hasattr(part, "nprobe"):
            part.nprobe = min(max(1, part.nprobe), part.nlist)
        if hasattr(part, "hnsw"):
            part.hnsw.efSearch = min(max(1, part.hnsw.efSearch), max(1, part.ntotal))


def _refuse_settings(options: IndexOptions) -> None:
    for name, default in (("n_probe", None), ("ef_search", None), ("refine_factor", 1)):
        if getattr(options, name) != default:
            raise InvalidInputError(f"{name}={getattr(options, name)} has no effect on an exact index: leave it out")


def _prepare_training(inner: Any) -> None:
    """Skip what faiss does for others: seconds of reordering each code book, and advice on stderr."""
    for part in parts_of(inner):
        if hasattr(part, "do_polysemous_training"):  # only serves a search mode that is not used here
            part.do_polysemous_training = False
        owners: list[Any] = [part, getattr(part, "pq", None)]
        for owner in owners:
            if hasattr(owner, "cp"):
                owner.cp.min_points_per_centroid = 1
