"""Stored examples searched together, the index over them, exact or of faiss, and what a folder holds of both.

A change makes a new segment: a running search never sees half of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from knn_ue.arrays import MAX_CLASSES, BoolArray, FloatArray, IntArray, read_only
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule, Part, check_arrays, from_plain, to_plain
from knn_ue.folder.tensors import PackedTexts
from knn_ue.stores.contract import StoredRows, Texts
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.faiss_index import FaissIndex, build_faiss, check_faiss, check_keeps_vectors, read_index
from knn_ue.stores.options import Building, IndexOptions, Normalization, Normalize, check_range

MAX_ID = 1 << 62
_INDEX = "index.faiss"


class Index(Protocol):
    """Rows of an array, ready to be searched; `approximate` says whether its distances are."""

    @property
    def n_columns(self) -> int: ...

    @property
    def approximate(self) -> bool: ...

    def search(
        self, queries: FloatArray, n_neighbors: int, excluded: BoolArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return Euclidean distances and rows (queries, n_neighbors), sorted by both; (inf, -1) where missing."""
        ...

    def space(self, vectors: FloatArray) -> FloatArray:
        """Return `vectors` (n, d) as this index compares them; the very same array where it compares them as given."""
        ...


def build_index(vectors: FloatArray, options: IndexOptions, how: Building | None = None) -> Index:
    """Build the index that `options` describe over `vectors` (n, d) float32, which are referred to, not copied."""
    how = how or Building()
    if not how.keep_vectors:
        check_keeps_vectors(options)
    if options.factory != "Flat":
        return build_faiss(vectors, options, how)
    _refuse_settings(options)
    return ExactIndex(vectors)


def check_index(options: IndexOptions, n_columns: int) -> None:
    """Raise where an index over `n_columns` could not be built or saved whatever its rows, before they are made."""
    if options.factory == "Flat":
        _refuse_settings(options)
    else:
        check_faiss(options, n_columns)


def rebuild_index(vectors: FloatArray, options: IndexOptions) -> Index:
    """Build what was built before over other rows; exact where too few are left for it."""
    try:
        return build_index(vectors, options)
    except InvalidInputError:
        return ExactIndex(vectors)


def _refuse_settings(options: IndexOptions) -> None:
    for name, default in (("n_probe", None), ("ef_search", None), ("refine_factor", 1), ("recompute", True)):
        if getattr(options, name) != default:
            raise InvalidInputError(f"{name}={getattr(options, name)} has no effect on an exact index: leave it out")


Found = tuple[FloatArray, IntArray, IntArray]  # distances, ids, labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Segment:
    """Rows with rising `ids`, their vectors (if kept), labels, texts, the index over them, and which are `removed`.

    `shared` says that another store may write behind these rows, so that this one may not.
    """

    vectors: FloatArray | None
    ids: IntArray
    labels: IntArray
    texts: Texts
    index: Index
    removed: BoolArray
    shared: bool = False

    @classmethod
    def of(
        cls,
        vectors: FloatArray | None,
        ids: IntArray,
        labels: IntArray,
        texts: Texts,
        index: Index,
    ) -> "Segment":
        """Return a segment in which nothing is removed."""
        return cls(
            vectors=None if vectors is None else read_only(vectors),
            ids=ids,
            labels=labels,
            texts=texts,
            index=index,
            removed=np.zeros(len(ids), dtype=bool),
        )

    @classmethod
    def empty(cls, n_columns: int) -> "Segment":
        """Return a segment without rows."""
        none = np.empty(0, dtype=np.int64)
        vectors = np.empty((0, n_columns), dtype=np.float32)
        return cls.of(vectors, none, none, [], ExactIndex(vectors))

    def __len__(self) -> int:
        return len(self.ids) - int(self.removed.sum())

    def search(self, queries: FloatArray, n_neighbors: int) -> Found:
        """Return distances, ids and labels (queries, n_neighbors); (inf, -1, -1) where a row is missing."""
        distances, rows = self.index.search(queries, n_neighbors, self._excluded)
        if not len(self.ids):
            return distances, rows, rows
        labels = self.labels[rows]
        # Rising ids that end at n - 1 are the rows themselves.
        ids = rows if self.ids[-1] == len(self.ids) - 1 else self.ids[rows]
        missing = rows < 0
        if missing.any():
            labels[missing] = -1
            ids[missing] = -1
        return distances, ids, labels

    @cached_property
    def _excluded(self) -> BoolArray | None:
        return self.removed if self.removed.any() else None

    def rows_of(self, ids: IntArray) -> IntArray:
        """Return the row of each id, -1 where it is not here or was removed."""
        rows = np.searchsorted(self.ids, ids)
        rows[rows == len(self.ids)] = -1
        here = rows >= 0
        here[here] = (self.ids[rows[here]] == ids[here]) & ~self.removed[rows[here]]
        return np.where(here, rows, -1)

    def without(self, ids: IntArray) -> "Segment":
        """Return the segment with those of `ids` that are here marked as removed."""
        rows = self.rows_of(ids)
        removed = self.removed.copy()
        removed[rows[rows >= 0]] = True
        return replace(self, removed=removed)

    def extended(
        self, vectors: FloatArray, ids: IntArray, labels: IntArray, texts: Sequence[str | None], beside: Index
    ) -> "Segment":
        """Return a segment with more rows at its end, searched exactly in the space of the index `beside` it."""
        all_vectors = self._append_rows(self.require_vectors(), vectors)
        compared = beside.space(vectors)
        longer = Segment.of(
            all_vectors,
            np.concatenate((self.ids, ids)),
            np.concatenate((self.labels, labels)),
            [*self.texts, *texts],
            ExactIndex(all_vectors if compared is vectors else self._append_rows(self._compared, compared)),
        )
        return replace(longer, removed=np.concatenate((self.removed, longer.removed[len(self.removed) :])))

    def _append_rows(self, vectors: FloatArray, more: FloatArray) -> FloatArray:
        """Append without copying the old rows each time: the array grows inside a buffer twice its size.

        Only the newest segment may write behind its end, and it alone is ever extended, unless it is shared.
        """
        total = len(vectors) + len(more)
        buffer = vectors.base if isinstance(vectors.base, np.ndarray) else vectors
        room = buffer.ndim == 2 and len(buffer) >= total and buffer.flags.writeable and len(vectors) > 0
        if self.shared or not room:
            buffer = np.empty((2 * total, more.shape[1]), dtype=np.float32)
            if len(vectors):  # an empty segment may have other columns than the space it grows in
                buffer[: len(vectors)] = vectors
        buffer[len(vectors) : total] = more
        return buffer[:total]

    def require_vectors(self) -> FloatArray:
        """Return the vectors of a segment that keeps them."""
        assert self.vectors is not None
        return self.vectors

    @property
    def _compared(self) -> FloatArray:
        assert isinstance(self.index, ExactIndex)
        return self.index.vectors

    def live(self) -> tuple[FloatArray, IntArray, IntArray, list[str | None]]:
        """Return copies of vectors, ids, labels and texts of the rows that are not removed."""
        (rows,) = np.nonzero(~self.removed)
        return (
            self.require_vectors()[rows],
            self.ids[rows],
            self.labels[rows],
            [self.texts[row] for row in rows.tolist()],
        )


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a folder holds of rows beside their arrays and their index."""

    index: IndexOptions
    normalize: Normalize
    keep_vectors: bool


_ARRAYS = {
    "ids": ArrayRule(dtype=np.int64, shape=("rows",), least=0, most=MAX_ID),
    "labels": ArrayRule(dtype=np.int64, shape=("rows",), least=0, most=MAX_CLASSES - 1),
    "vectors": ArrayRule(dtype=np.float32, shape=("rows", "columns"), optional=True),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexedRows:
    """A segment without changes, and what it takes to search it, to number what is added, and to save it."""

    segment: Segment
    options: IndexOptions
    normalization: Normalization
    next_id: int

    @classmethod
    def build(
        cls, rows: StoredRows, options: IndexOptions, normalization: Normalization, how: Building | None = None
    ) -> "IndexedRows":
        """Return `rows`, which are normalized already, with the index that `options` describe."""
        index = build_index(rows.vectors, options, how)
        kept = rows.vectors if how is None or how.keep_vectors else None
        segment = Segment.of(kept, rows.ids, rows.labels, rows.texts, index)
        next_id = int(rows.ids.max(initial=-1)) + 1
        return cls(segment=segment, options=options, normalization=normalization, next_id=next_id)

    def to_part(self, kind: str) -> Part:
        """Return what a folder holds of them."""
        segment, normalization, index = self.segment, self.normalization, self.segment.index
        texts = segment.texts if isinstance(segment.texts, PackedTexts) else PackedTexts.pack(segment.texts)
        arrays = {"ids": segment.ids, "labels": segment.labels, **texts.to_arrays(), **normalization.to_arrays()}
        if segment.vectors is not None:
            arrays["vectors"] = segment.vectors
        state = _State(index=self.options, normalize=normalization.kind, keep_vectors=segment.vectors is not None)
        fill = (lambda folder: index.write(folder / _INDEX)) if isinstance(index, FaissIndex) else None
        return Part(kind=kind, state=to_plain(state), arrays=arrays, fill=fill)

    @classmethod
    def from_part(cls, part: Part) -> "IndexedRows":
        """Return what `to_part` described; ValueError where it is no such thing."""
        if part.growing is None:
            raise ValueError("its columns are missing")
        state, arrays = from_plain(_State, part.state), dict(part.arrays)
        n_columns, next_id = part.growing.n_columns, part.growing.next_id
        check_arrays(arrays, _ARRAYS, {"columns": n_columns})
        ids, texts = arrays["ids"], PackedTexts.from_arrays(arrays)
        if len(ids) != len(texts):
            raise ValueError("its arrays have different lengths")
        if not 0 <= next_id <= MAX_ID or (len(ids) and ((ids[1:] <= ids[:-1]).any() or ids[-1] >= next_id)):
            raise ValueError("its ids do not rise")
        vectors = arrays["vectors"] if state.keep_vectors else None
        if vectors is None:
            check_keeps_vectors(state.index)
        else:
            check_range(vectors)  # short ones may be all that is left of longer ones
        if vectors is not None and (state.index.factory == "Flat" or _INDEX not in part.files):
            index: Index = ExactIndex(vectors)
        else:
            index = read_index(part.path_of(_INDEX), (len(ids), n_columns), vectors, state.index)
        return cls(
            segment=Segment.of(vectors, ids, arrays["labels"], texts, index),
            options=state.index,
            normalization=Normalization.from_arrays(state.normalize, arrays, index.n_columns),
            next_id=next_id,
        )


def merged(first: Found, second: Found) -> Found:
    """Return the nearest of two results, as many as each has columns."""
    n_neighbors = first[0].shape[1]
    distances = np.concatenate((first[0], second[0]), axis=1)
    ids, labels = (np.concatenate(pair, axis=1) for pair in ((first[1], second[1]), (first[2], second[2])))
    order = np.lexsort((ids, distances), axis=1)[:, :n_neighbors]
    take = np.take_along_axis
    return take(distances, order, axis=1), take(ids, order, axis=1), take(labels, order, axis=1)
