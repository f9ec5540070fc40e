"""Datastore: the training examples' features and labels, searchable, growing, and safe on disk."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import ClassVar

import numpy as np

from knn_ue.arrays import (
    FloatArray,
    IntArray,
    check_positive,
    float_matrix,
    id_vector,
    label_vector,
    text_tuple,
)
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import (
    Added,
    Growing,
    Live,
    Part,
    as_written,
    open_as,
    replace_fitted,
    write_folder,
)
from knn_ue.folder.tensors import PackedTexts, valid_unicode
from knn_ue.shown import Shown
from knn_ue.stores.chunks import Chunk, joined_chunks
from knn_ue.stores.contract import MEMORY, StoredRows
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.options import Building, IndexOptions, Normalization, Normalize, check_range, index_options
from knn_ue.stores.segment import MAX_ID, IndexedRows, Segment, merged, rebuild_index
from knn_ue.types import Neighbors, Progress


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """All that changes in a store, replaced in one step: a search, or an interrupt, meets the old one or the new."""

    base: Segment
    added: Segment
    next_id: int

    @property
    def segments(self) -> tuple[Segment, Segment]:
        return self.base, self.added

    @property
    def has_changes(self) -> bool:
        return len(self.added.ids) > 0 or bool(self.base.removed.any())

    def joined(self) -> Segment:
        """Return all examples stored now in one segment, not indexed."""
        parts = list(zip(*(segment.live() for segment in self.segments), strict=True))
        vectors, ids, labels = (np.concatenate(part) for part in parts[:3])
        texts = [text for part in parts[3] for text in part]
        return Segment.of(vectors, ids, labels, texts, ExactIndex(vectors))


class Datastore(Shown):
    """Labeled feature vectors that answer "which stored examples are nearest?".

    Create it with `build` or `load`. Every example has an id that never changes and is never reused. What is added to,
    or removed from, a store that was loaded from a folder is in the folder before the call returns; `save` to another
    folder leaves the store itself as it was. Searches may run in other threads meanwhile.

    >>> store = Datastore.build([[0.0, 0.0], [3.0, 4.0]], [0, 1], texts=["origin", "far"])
    >>> found = store.search([[0.0, 0.0]], n_neighbors=2)
    >>> found.ids, found.distances, found.labels
    (array([[0, 1]]), array([[0., 5.]]), array([[0, 1]]))
    """

    kind: ClassVar[str] = "datastore"

    def __init__(self, base: IndexedRows) -> None:
        self.options = base.options
        self._normalization = base.normalization
        self._lock = RLock()
        empty = Segment.empty(base.segment.index.n_columns)
        self._rows = _Rows(base=base.segment, added=empty, next_id=base.next_id)
        self._live: Live | None = None
        self._name = ""  # of its part in the folder

    @classmethod
    def build(
        cls,
        features: object,
        labels: object,
        *,
        texts: Sequence[str] | None = None,
        index: str | IndexOptions = "exact",
        normalize: Normalize = "none",
        keep_vectors: bool = True,
        progress: Progress | None = None,
    ) -> "Datastore":
        """Store `features` (n, d) with `labels` (n,) and optional `texts`; ids are 0 .. n - 1.

        `index`: "exact", "auto" (see `index_options`), a faiss factory string or `IndexOptions`. A C-contiguous
        float32 array, memory-mapped or not, is referred to, not copied: do not change it afterwards.

        `keep_vectors=False` keeps only what the index made of them, often 64 times smaller: distances cannot be
        recomputed (`IndexOptions(recompute=False)`) and the store cannot be compacted, but it is searched, changed and
        saved as any other. `progress` is called with ("index", rows done, all rows) once the index is trained.
        """
        matrix = float_matrix(features, "features", dtype=np.float32)
        if texts is not None:
            texts = [valid_unicode(text) for text in text_tuple(texts, "texts", length=len(matrix))]
        normalization = Normalization.learn(matrix, normalize)
        vectors = normalization(matrix)
        check_range(vectors, all_of_them=True)
        rows = StoredRows(
            ids=np.arange(len(vectors)),
            vectors=vectors,
            labels=label_vector(labels, "labels", length=len(vectors)),
            texts=[None] * len(vectors) if texts is None else texts,
        )
        report = None if progress is None else lambda done: progress("index", done, len(vectors))
        how = Building(keep_vectors=keep_vectors, progress=report)
        return cls(IndexedRows.build(rows, index_options(index, *vectors.shape), normalization, how))

    @classmethod
    def build_from_chunks(
        cls,
        path: str | Path,
        chunks: Iterable[Chunk],
        *,
        index: str | IndexOptions = "exact",
        normalize: Normalize = "none",
        keep_vectors: bool = True,
        train_rows: int = 1 << 17,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> "Datastore":
        """Build a store larger than memory in the folder `path` from `chunks`, read once, and load it.

        A chunk is (features, labels) or (features, labels, texts). The index is trained on `train_rows` random rows.
        In memory are one chunk, that sample, the index, and per row a label, an id and where its text ends; the disk
        holds the vectors twice while the folder is written. A crash leaves what the folder held before. `progress` is
        called with ("read" or "index", rows done, all rows or None).
        """
        folder = Path(path)
        how = Building(keep_vectors=keep_vectors, train_rows=train_rows, seed=seed)
        with joined_chunks(folder, chunks, index, normalize, how, progress) as rows:
            cls(rows).save(folder)
        return cls.load(folder)

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._rows.segments)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return self._rows.base.index.n_columns

    @property
    def path(self) -> Path | None:
        """The folder this store was loaded from and writes its changes to."""
        return None if self._live is None else self._live.path

    @property
    def live(self) -> Live | None:
        """That folder, opened; stores of one folder change together."""
        return self._live

    @property
    def name(self) -> str:
        """The name of its part in that folder."""
        return self._name

    @property
    def where(self) -> str:
        """The folder of this store, or "memory"."""
        return MEMORY if self._live is None else str(self._live.path)

    @property
    def ids(self) -> IntArray:
        """The ids stored now, in increasing order."""
        return np.concatenate([segment.ids[~segment.removed] for segment in self._rows.segments])

    @property
    def normalization(self) -> Normalization:
        """What happens to features before they are compared."""
        return self._normalization

    def search(self, features: object, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest examples of each row, sorted by (distance, id), padded with id -1.

        Distances are Euclidean, computed directly from the vectors (after normalization, if any). With
        `recompute=False` they are the index's own approximations (`Neighbors.approximate`); rows added since are then
        compared without quantization, after the index's PCA or rotation if it has one.
        """
        check_positive(n_neighbors, "n_neighbors")
        n_neighbors = int(n_neighbors)  # a small numpy integer would overflow
        queries = self.prepared(features)
        rows = self._rows
        base, added = rows.segments
        found = base.search(queries, n_neighbors)
        if len(added.ids):
            found = merged(found, added.search(base.index.space(queries), n_neighbors))
        distances, ids, labels = found
        return Neighbors(distances=distances, ids=ids, labels=labels, approximate=base.index.approximate)

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text of each id, None if none was stored or the id was removed."""
        wanted = id_vector(ids, "ids")
        texts: list[str | None] = [None] * len(wanted)
        for segment in self._rows.segments:
            for position, row in enumerate(segment.rows_of(wanted).tolist()):
                if row >= 0:
                    texts[position] = segment.texts[row]
        return texts

    def vectors_of(self, ids: Sequence[int] | IntArray) -> FloatArray | None:
        """Return the vectors (n, d) of ids as they are searched, NaN for removed ids; None if no vectors are kept."""
        wanted = id_vector(ids, "ids")
        vectors = np.full((len(wanted), self.n_columns), np.nan, dtype=np.float32)
        for segment in self._rows.segments:
            if segment.vectors is None:
                return None
            rows = segment.rows_of(wanted)
            vectors[rows >= 0] = segment.vectors[rows[rows >= 0]]
        return vectors

    def normalized(self, features: object) -> FloatArray:
        """Return `features` (n, d) normalized as in this store, to compare with `vectors_of`."""
        return self._normalization.of(features, self.n_columns)

    def add(self, features: object, labels: object, *, texts: Sequence[str] | None = None) -> IntArray:
        """Store more examples and return their ids; they are searched exactly and merged until `compact`."""
        vectors = self.prepared(features)
        new_labels = label_vector(labels, "labels", length=len(vectors))
        given = [None] * len(vectors) if texts is None else list(text_tuple(texts, "texts", length=len(vectors)))
        if self._live is not None:
            return self._live.add({self._name: vectors}, new_labels, given)
        with self._lock:
            ids = np.arange(self._rows.next_id, self._rows.next_id + len(vectors))
            added = Added(ids=ids, labels=new_labels, texts=PackedTexts.pack(given), vectors=vectors)
            self.follow(added, np.empty(0, np.int64))
        return ids

    def prepared(self, features: object) -> FloatArray:
        """Return `features` (n, d) as they are stored: checked and normalized."""
        vectors = self.normalized(features)
        check_range(vectors)
        return vectors

    def remove(self, ids: object) -> None:
        """Remove examples by id; if an id is unknown, nothing is removed."""
        wanted = np.unique(id_vector(ids, "ids"))
        if self._live is None:
            with self._lock:
                self.check_stored(wanted)
                self.follow(Added.none(self.n_columns), wanted)
            return
        with self._live.change():  # what others removed is known here
            self.check_stored(wanted)
            self._live.remove(wanted)

    def check_stored(self, ids: IntArray) -> None:
        """Raise unless every one of these ids is stored now."""
        unknown = ids[np.maximum(*(segment.rows_of(ids) for segment in self._rows.segments)) < 0]
        if len(unknown):
            raise InvalidInputError(f"id {unknown[0]} is not stored (never added, or removed): nothing was removed")

    def follow(self, added: Added, removed: IntArray) -> None:
        """Take over examples that were added, and forget those that were removed."""
        with self._lock:
            rows = self._rows
            if len(added):
                first, columns = int(added.ids[0]), added.vectors.shape[1]
                if columns != self.n_columns or first < rows.next_id or int(added.ids[-1]) > MAX_ID:
                    raise StorageError(f"what was added to {self.where} does not continue it: restore it from a backup")
                check_range(added.vectors)
                texts = [added.texts[row] for row in range(len(added))]
                longer = rows.added.extended(added.vectors, added.ids, added.labels, texts, rows.base.index)
                rows = replace(rows, added=longer, next_id=int(added.ids[-1]) + 1)
            if len(removed):
                rows = replace(rows, base=rows.base.without(removed), added=rows.added.without(removed))
            self._rows = rows

    def compact(self) -> None:
        """Rebuild the index over the examples stored now; ids stay, removed rows are dropped.

        Holds a second copy of the vectors while it works; a crash leaves the store as it was. Where too few rows are
        left to train the index, they are searched exactly. A store that keeps no vectors cannot be compacted.
        """
        if self._live is None:
            with self._lock:
                self._rows = self._compacted()
            return
        if self._name:
            raise InvalidInputError(f"the store of {self.where} is part of what was fitted: compact the whole folder")
        with self._live.change():
            if not self._rows.has_changes:
                return
            replace_fitted(self._live, self.to_part())
        again = Datastore.load(self._live.path)
        self._rows, self._live = again._rows, again._live
        assert self._live is not None
        self._live.join(self._name, self)

    @property
    def has_changes(self) -> bool:
        """Whether examples were added or removed since the index was built."""
        return self._rows.has_changes

    def compacted(self) -> "Datastore":
        """Return a store in memory of the same examples and ids, its index rebuilt over them."""
        store = self.detached()
        store.compact()
        return store

    def save(self, path: str | Path) -> None:
        """Write a copy to the folder `path` in one step, changes folded in.

        On the folder that this store was loaded from, that is `compact`. Without vectors nothing can be folded in: the
        changes are written beside what was built.
        """
        if self._live is not None and self._live.path.resolve() == Path(path).resolve():
            if self._rows.base.vectors is not None:
                self.compact()
            return
        write_folder(path, self.to_part())

    def to_part(self) -> Part:
        """Return what a folder holds of this store."""
        with self._lock:
            rows = self._rows
        next_id = rows.next_id if self._live is None else max(rows.next_id, self._live.next_id)
        growing = Growing(n_columns=self.n_columns, next_id=next_id)
        segment = rows.base
        if rows.has_changes and segment.vectors is not None:
            segment = self._compacted().base
        elif rows.has_changes:
            vectors, ids, labels, texts = rows.added.live()
            removed = segment.ids[segment.removed]
            added = Added(ids=ids, labels=labels, texts=PackedTexts.pack(texts), vectors=vectors)
            growing = replace(growing, added=added, removed=removed)
        base = IndexedRows(
            segment=segment, options=self.options, normalization=self._normalization, next_id=rows.next_id
        )
        return replace(base.to_part(self.kind), growing=growing)

    @classmethod
    def from_part(cls, part: Part) -> "Datastore":
        """Open what `to_part` described; what happened to the folder since is taken over, and goes on to be."""
        with as_written(part.where, cls.kind):
            store = cls(IndexedRows.from_part(part))
            if part.live is not None:
                store._live, store._name = part.live, part.name
                part.live.join(part.name, store)
        return store

    @classmethod
    def load(cls, path: str | Path) -> "Datastore":
        """Open the folder `path`, large arrays memory-mapped; later changes are written to it."""
        return open_as(path, cls.from_part, kind=cls.kind)

    def detached(self) -> "Datastore":
        """Return a store in memory of the same examples; later changes to one do not affect the other."""
        store = copy(self)
        store._lock = RLock()
        store._rows = replace(self._rows, added=replace(self._rows.added, shared=True))
        store._live = None
        return store

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Return the vectors (n, d) stored now, normalized as they are searched, and their labels (n,)."""
        segment = self._settled()
        return segment.require_vectors(), segment.labels

    def reindexed(self, index: str | IndexOptions) -> "Datastore":
        """Return a store of the same examples and ids with another index and without a folder."""
        (rows,) = self.rows()
        base = IndexedRows.build(rows, index_options(index, *rows.vectors.shape), self._normalization)
        return Datastore(replace(base, next_id=self._rows.next_id))

    def rows(self) -> Iterator[StoredRows]:
        """Yield all rows at once, by rising id."""
        segment = self._settled()
        yield StoredRows(ids=segment.ids, vectors=segment.require_vectors(), labels=segment.labels, texts=segment.texts)

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts = {"examples": len(self), "columns": self.n_columns, "index": self.options, "where": self.where}
        return facts if self._normalization.kind == "none" else facts | {"normalize": self._normalization.kind}

    def _settled(self) -> Segment:
        """Return all examples stored now, in one segment."""
        rows = self._rows
        if rows.base.vectors is None:
            raise InvalidInputError(
                f"the store {self.where!r} keeps no vectors, so its index cannot be rebuilt: build it again from the "
                "features"
            )
        return rows.joined() if rows.has_changes else rows.base

    def _compacted(self) -> _Rows:
        rows = self._rows
        if not rows.has_changes:
            return rows
        joined = self._settled()
        base = replace(joined, index=rebuild_index(joined.require_vectors(), self.options))
        return replace(rows, base=base, added=Segment.empty(self.n_columns))
