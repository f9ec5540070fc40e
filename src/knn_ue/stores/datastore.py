"""Datastore: the training examples' features and labels, searchable, growing, and safe on disk."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from threading import RLock

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_positive, float_matrix, id_vector, label_vector, text_tuple
from knn_ue.deprecated import renamed_method
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.shown import Shown
from knn_ue.storage import FolderContent, generation_of, locked, parse_folder, storage_errors
from knn_ue.storage.schema import as_written
from knn_ue.storage.tensors import PackedTexts, valid_unicode
from knn_ue.stores.chunks import Chunk, write_chunks
from knn_ue.stores.contract import MEMORY
from knn_ue.stores.folder import (
    KIND,
    MAX_ID,
    Added,
    Change,
    IndexedRows,
    Removed,
    StoreState,
    read_journal,
    read_rows,
    write_rows,
)
from knn_ue.stores.gpu import on_gpu
from knn_ue.stores.options import IndexOptions, Normalization, Normalize, check_range, index_options
from knn_ue.stores.segment import Segment, build_index, merged, rebuild_index
from knn_ue.types import Neighbors, Progress


class Datastore(Shown):
    """Labeled feature vectors that answer "which stored examples are nearest?".

    Create it with `build` or `load`. Every example has an id that never changes and is never reused. A store that was
    loaded from a folder writes each `add` and `remove` to the folder's journal before it returns; `save` to another
    folder writes a snapshot and leaves the store itself as it was. Searches may run in other threads meanwhile.

    >>> store = Datastore.build([[0.0, 0.0], [3.0, 4.0]], [0, 1], texts=["origin", "far"])
    >>> found = store.search([[0.0, 0.0]], n_neighbors=2)
    >>> found.ids, found.distances, found.labels
    (array([[0, 1]]), array([[0., 5.]]), array([[0, 1]]))
    """

    def __init__(self, base: IndexedRows, stored: FolderContent | None = None) -> None:
        self.options = base.options
        self._normalization = base.normalization
        self._lock = RLock()
        empty = Segment.empty(base.segment.index.n_columns)
        self._state = StoreState(base=base.segment, added=empty, next_id=base.next_id, stored=stored)

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
        options = index_options(index, *vectors.shape)
        segment = Segment.of(
            vectors if keep_vectors else None,
            np.arange(len(vectors)),
            label_vector(labels, "labels", length=len(vectors)),
            [None] * len(vectors) if texts is None else texts,
            build_index(
                vectors,
                options,
                keep_vectors=keep_vectors,
                progress=None if progress is None else lambda done: progress("index", done, len(vectors)),
            ),
        )
        return cls(IndexedRows(segment=segment, options=options, normalization=normalization, next_id=len(vectors)))

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
        generation = write_chunks(
            path,
            chunks,
            index=index,
            normalize=normalize,
            keep_vectors=keep_vectors,
            train_rows=train_rows,
            seed=seed,
            progress=progress,
        )
        return parse_folder(path, cls._from_stored, kind=KIND, just_written=generation)

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._state.segments)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return self._state.base.index.n_columns

    @property
    def path(self) -> Path | None:
        """The folder this store was loaded from and writes its changes to."""
        stored = self._state.stored
        return None if stored is None else stored.path

    @property
    def where(self) -> str:
        """The folder of this store, or "memory"."""
        stored = self._state.stored
        return MEMORY if stored is None else str(stored.path)

    @property
    def ids(self) -> IntArray:
        """The ids stored now, in increasing order."""
        self._state.base.check_readable()
        return np.concatenate([segment.ids[~segment.removed] for segment in self._state.segments])

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
        queries = self._normalization(self._checked_features(features))
        check_range(queries)
        state = self._state
        base, added = state.segments
        found = base.search(queries, n_neighbors, by=state.gpu_index)
        if len(added.ids):
            found = merged(found, added.search(base.index.space(queries), n_neighbors))
        distances, ids, labels = found
        return Neighbors(distances=distances, ids=ids, labels=labels, approximate=base.index.approximate)

    def use_gpu(self, number: int = 0) -> None:
        """Search on the GPU with this `number` from now on; needs a faiss built for GPUs.

        This applies to the process, not to the store: `save` does not record it.
        """
        with self._lock:
            base = self._state.base
            self._state = replace(
                self._state, gpu=number, gpu_index=on_gpu(base.index, base.vectors, self.options, number)
            )

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text of each id, None if none was stored or the id was removed."""
        wanted = id_vector(ids, "ids")
        texts: list[str | None] = [None] * len(wanted)
        for segment in self._state.segments:
            for position, row in enumerate(segment.rows_of(wanted).tolist()):
                if row >= 0:
                    texts[position] = segment.texts[row]
        return texts

    def vectors_of(self, ids: Sequence[int] | IntArray) -> FloatArray | None:
        """Return the vectors (n, d) of ids as they are searched, NaN for removed ids; None if no vectors are kept."""
        wanted = id_vector(ids, "ids")
        vectors = np.full((len(wanted), self.n_columns), np.nan, dtype=np.float32)
        for segment in self._state.segments:
            if segment.vectors is None:
                return None
            rows = segment.rows_of(wanted)
            vectors[rows >= 0] = segment.vectors[rows[rows >= 0]]
        return vectors

    def normalized(self, features: object) -> FloatArray:
        """Return `features` (n, d) normalized as in this store, to compare with `vectors_of`."""
        return self._normalization(self._checked_features(features))

    def add(self, features: object, labels: object, *, texts: Sequence[str] | None = None) -> IntArray:
        """Store more examples and return their ids; they are searched exactly and merged until `compact`."""
        matrix = self._checked_features(features)
        new_labels = label_vector(labels, "labels", length=len(matrix))
        packed = PackedTexts.pack(
            [None] * len(matrix) if texts is None else text_tuple(texts, "texts", length=len(matrix))
        )
        check_range(self._normalization(matrix))
        with self._lock:
            ids = np.arange(self._state.next_id, self._state.next_id + len(matrix))
            self._make(Added(features=matrix, ids=ids, labels=new_labels, texts=packed))
        return ids

    def remove(self, ids: object) -> None:
        """Remove examples by id; if an id is unknown, nothing is removed."""
        wanted = np.unique(id_vector(ids, "ids"))
        with self._lock:
            rows = [segment.rows_of(wanted) for segment in self._state.segments]
            unknown = wanted[np.maximum(*rows) < 0]
            if len(unknown):
                raise InvalidInputError(f"id {unknown[0]} is not stored (never added, or removed): nothing was removed")
            self._make(Removed(ids=wanted))

    def compact(self) -> None:
        """Rebuild the index over the examples stored now; ids stay, removed rows and the journal are dropped.

        Holds a second copy of the vectors while it works; a crash leaves the store as it was. Where too few rows are
        left to train the index, they are searched exactly. A store that keeps no vectors cannot be compacted.
        """
        with self._lock:
            state = self._state
            if not state.has_changes:
                return
            base = self._compacted(state)
            if state.stored is None or state.journal is None:
                self._state = StoreState(base=base, added=Segment.empty(self.n_columns), next_id=state.next_id)
            else:
                path = state.stored.path
                with storage_errors(f"{path} cannot be written", "nothing was changed"), locked(path):
                    write_rows(
                        path,
                        self._base(base, state.next_id),
                        identity=state.stored.identity,
                        precondition=state.journal.check_unchanged,
                    )
                    again = parse_folder(path, self._from_stored, kind=KIND, just_written=generation_of(path))
                    self._state = again._state
            if state.gpu is not None:
                self.use_gpu(state.gpu)

    def save(self, path: str | Path) -> str:
        """Write a snapshot to the folder `path` in one step, changes folded in, and return its identity.

        On the folder that this store was loaded from, that is `compact`. Without vectors nothing can be folded in:
        the changes go to the snapshot's journal, and the store's own folder already has them.
        """
        with self._lock:
            state = self._state
            keeps_vectors = state.base.vectors is not None
            if state.stored is not None and _is_still_at(state.stored, Path(path)):
                if keeps_vectors:
                    self.compact()
                return state.stored.identity
            if keeps_vectors or not state.has_changes:
                segment = self._compacted(state) if state.has_changes else state.base
                return write_rows(path, self._base(segment, state.next_id))
            base = self._base(replace(state.base, removed=np.zeros_like(state.base.removed)), state.first_added_id)
            return write_rows(path, base, changes=state.changes())

    def snapshot(self) -> "Datastore":
        """Return a copy of the examples in a store without a folder; later changes to one do not affect the other."""
        store = copy(self)
        store._lock = RLock()
        store._state = replace(self._state, added=replace(self._state.added, shared=True), stored=None, journal=None)
        return store

    detached = renamed_method("knn_ue.stores.Datastore.detached")

    def check_unchanged(self) -> None:
        """Raise if another process has written to this store's folder since it was loaded."""
        if self._state.journal is not None:
            self._state.journal.check_unchanged()

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Return the vectors (n, d) stored now, normalized as they are searched, and their labels (n,)."""
        vectors, segment = self._settled()
        return vectors, segment.labels

    def reindexed(self, index: str | IndexOptions) -> "Datastore":
        """Return a store of the same examples and ids with another index and without a folder."""
        vectors, segment = self._settled()
        options = index_options(index, *vectors.shape)
        rebuilt = replace(segment, index=build_index(vectors, options))
        return Datastore(replace(self._base(rebuilt, self._state.next_id), options=options))

    @classmethod
    def load(cls, path: str | Path, *, identity: str | None = None) -> "Datastore":
        """Open the folder `path`, memory-mapped; its journal is read back and later changes are written to it."""
        return parse_folder(path, cls._from_stored, kind=KIND, identity=identity)

    @classmethod
    def _from_stored(cls, stored: FolderContent) -> "Datastore":
        with as_written(stored.path, KIND):
            store = cls(read_rows(stored), stored)
            journal, changes = read_journal(stored)
            for change in changes:
                store._state = store._after(change)
        store._state = replace(store._state, journal=journal)
        return store

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts = {"examples": len(self), "columns": self.n_columns, "index": self.options, "where": self.where}
        return facts if self._normalization.kind == "none" else facts | {"normalize": self._normalization.kind}

    def _settled(self) -> tuple[FloatArray, Segment]:
        """Return all examples stored now, in one segment, and their vectors."""
        state = self._state
        if state.base.vectors is None:
            raise InvalidInputError(f"the store {self.where!r} keeps no vectors: rebuild it from the features")
        state.base.check_readable()
        settled = state.joined() if state.has_changes else state.base
        return settled.require_vectors(), settled

    def _compacted(self, state: StoreState) -> Segment:
        if state.base.vectors is None:
            raise InvalidInputError(
                f"the store {self.where!r} keeps no vectors, so its index cannot be rebuilt: build it again from the "
                "features"
            )
        joined = state.joined()
        return replace(joined, index=rebuild_index(joined.require_vectors(), self.options))

    def _base(self, segment: Segment, next_id: int) -> IndexedRows:
        return IndexedRows(segment=segment, options=self.options, normalization=self._normalization, next_id=next_id)

    def _make(self, change: Change) -> None:
        """Make a change durable, then visible. An interrupt between leaves a journal that is longer than we know."""
        if not len(change.ids):
            return
        state = self._after(change)
        if state.journal is not None:
            state = replace(state, journal=state.journal.append(change))
        self._state = state

    def _after(self, change: Change) -> StoreState:
        state = self._state
        if isinstance(change, Removed):
            return replace(state, base=state.base.without(change.ids), added=state.added.without(change.ids))
        next_id = state.next_id + len(change.ids)
        continues = np.array_equal(change.ids, np.arange(state.next_id, next_id))
        if change.features.shape[1] != self.n_columns or not continues or next_id > MAX_ID:
            raise StorageError("the journal does not continue this store: it was replaced; restore it from a backup")
        texts = [change.texts[row] for row in range(len(change.ids))]
        vectors = change.features if change.normalized else self._normalization(change.features)
        added = state.added.extended(vectors, change.ids, change.labels, texts, state.base.index)
        return replace(state, added=added, next_id=next_id)

    def _checked_features(self, features: object) -> FloatArray:
        matrix = float_matrix(features, "features", dtype=np.float32)
        if matrix.shape[1] != self.n_columns:
            raise InvalidInputError(
                f"features must have the store's {self.n_columns} columns, got {matrix.shape[1]}: use the same encoder"
            )
        return matrix


def _is_still_at(stored: FolderContent, path: Path) -> bool:
    """Say whether `path` is the folder that a store was loaded from, and has not vanished since."""
    if path.resolve() != stored.path.resolve():
        return False
    try:
        generation_of(path)
    except StorageError:
        return False
    return True
