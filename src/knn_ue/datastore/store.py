"""Datastore: the training examples' features and labels, searchable, growing, and safe on disk."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from knn_ue.arrays import (
    FloatArray,
    IntArray,
    check_positive,
    float_matrix,
    label_vector,
    text_tuple,
    to_numpy,
)
from knn_ue.datastore.exact import row_squared_norms
from knn_ue.datastore.indexes import FaissIndex, IndexOptions, build_index, index_options, read_index
from knn_ue.datastore.journal import Added, Change, Journal, Removed, start_journal
from knn_ue.datastore.normalization import Normalization, Normalize
from knn_ue.datastore.segment import Segment
from knn_ue.datastore.texts import PackedTexts
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage import Stored, read_folder, write_folder
from knn_ue.types import Neighbors

KIND = "datastore"
# Beyond this, float32 squared distances overflow to infinity or vanish, and faiss would order rows by chance.
_SQUARED_NORM_RANGE = (1e-30, 1e37)


class Datastore:
    """Labelled feature vectors that answer "which stored examples are nearest?".

    Made by `build` or `load`. Every example has an id that never changes and is never given again. A store that was
    loaded from a folder writes each `add` and `remove` to the folder's journal before it returns; `save` writes a
    snapshot and leaves the store itself as it was. Searches may run in other threads meanwhile.

    >>> store = Datastore.build([[0.0, 0.0], [3.0, 4.0]], [0, 1], texts=["origin", "far"])
    >>> found = store.search([[0.0, 0.0]], n_neighbors=2)
    >>> found.ids, found.distances, found.labels
    (array([[0, 1]]), array([[0., 5.]]), array([[0, 1]]))
    """

    def __init__(
        self,
        *,
        base: Segment,
        options: IndexOptions,
        normalization: Normalization,
        next_id: int,
        stored: Stored | None = None,
    ) -> None:
        self.options = options
        self._normalization = normalization
        self._next_id = next_id
        self._stored = stored
        self._journal: Journal | None = None
        self._lock = RLock()
        # One tuple, replaced in one step: a search that runs meanwhile keeps the pair it began with.
        self._segments = (base, _empty_segment(base.vectors.shape[1]))

    @classmethod
    def build(
        cls,
        features: object,
        labels: object,
        *,
        texts: Sequence[str] | None = None,
        index: str | IndexOptions = "exact",
        normalize: Normalize = "none",
    ) -> "Datastore":
        """Store `features` (n, d) with `labels` (n,) and optional `texts`; ids are 0 .. n - 1.

        `index`: "exact", "auto" (see `index_options`), a faiss factory string or `IndexOptions`. A C-contiguous
        float32 array, memory-mapped or not, is referred to, not copied: do not change it afterwards.
        """
        matrix = float_matrix(features, "features", dtype=np.float32)
        if texts is not None:
            texts = text_tuple(texts, "texts", length=len(matrix))
        normalization = Normalization.learn(matrix, normalize)
        vectors = normalization(matrix)
        _check_range(vectors)
        options = index_options(index, *vectors.shape)
        base = Segment.of(
            vectors,
            np.arange(len(vectors)),
            label_vector(labels, "labels", length=len(vectors)),
            [None] * len(vectors) if texts is None else texts,
            build_index(vectors, options),
        )
        return cls(base=base, options=options, normalization=normalization, next_id=len(vectors))

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._segments)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return int(self._segments[0].vectors.shape[1])

    @property
    def path(self) -> Path | None:
        """The folder this store was loaded from and writes its changes to."""
        return None if self._stored is None else self._stored.path

    @property
    def ids(self) -> IntArray:
        """The ids stored now, rising."""
        return np.concatenate([segment.ids[~segment.removed] for segment in self._segments])

    def search(self, features: object, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest examples of each row, sorted by (distance, id), padded with id -1.

        Distances are Euclidean, computed directly from the vectors (after normalization, if any).
        """
        check_positive(n_neighbors, "n_neighbors")
        queries = self._queries(features)
        base, added = self._segments
        found = base.search(queries, n_neighbors)
        if len(added.ids):
            pairs = zip(found, added.search(queries, n_neighbors), strict=True)
            distances, ids, labels = (np.concatenate(pair, axis=1) for pair in pairs)
            order = np.lexsort((ids, distances), axis=1)[:, :n_neighbors]
            found = tuple(np.take_along_axis(values, order, axis=1) for values in (distances, ids, labels))  # type: ignore[assignment]
        return Neighbors(distances=found[0], ids=found[1], labels=found[2])

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text of each id, None where none was stored or the id is gone."""
        wanted = np.asarray(ids, dtype=np.int64)
        texts: list[str | None] = [None] * len(wanted)
        for segment in self._segments:
            for position, row in enumerate(segment.rows_of(wanted).tolist()):
                if row >= 0:
                    texts[position] = segment.texts[row]
        return texts

    def add(self, features: object, labels: object, *, texts: Sequence[str] | None = None) -> IntArray:
        """Store more examples and return their ids; they are searched exactly and merged until `compact`."""
        matrix = self._checked_features(features)
        new_labels = label_vector(labels, "labels", length=len(matrix))
        packed = PackedTexts.pack(
            [None] * len(matrix) if texts is None else text_tuple(texts, "texts", length=len(matrix))
        )
        vectors = self._normalization(matrix)
        _check_range(vectors)
        with self._lock:
            ids = np.arange(self._next_id, self._next_id + len(matrix))
            change = Added(features=matrix, ids=ids, labels=new_labels, texts=packed)
            if self._journal is not None and len(ids):
                self._journal.append(change)
            self._apply(change)
        return ids

    def remove(self, ids: object) -> None:
        """Forget examples by id; an unknown id is an error and then nothing is removed."""
        wanted = np.unique(label_vector(np.atleast_1d(to_numpy(ids, "ids")), "ids"))
        with self._lock:
            known = np.isin(wanted, self.ids)
            if not known.all():
                raise InvalidInputError(
                    f"id {wanted[~known][0]} is not stored (never added, or removed): nothing was removed"
                )
            change = Removed(ids=wanted)
            if self._journal is not None and len(wanted):
                self._journal.append(change)
            self._apply(change)

    def compact(self) -> None:
        """Rebuild the index over the examples stored now; ids stay, removed rows and the journal go.

        Holds a second copy of the vectors while it works; a crash leaves the store as it was.
        """
        with self._lock:
            parts = list(zip(*(segment.live() for segment in self._segments), strict=True))
            vectors, ids, labels = (np.concatenate(part) for part in parts[:3])
            texts = [text for part in parts[3] for text in part]
            base = Segment.of(vectors, ids, labels, texts, build_index(vectors, self.options))
            compacted = Datastore(
                base=base, options=self.options, normalization=self._normalization, next_id=self._next_id
            )
            if self._stored is not None:
                if self._journal is not None:
                    self._journal.check_unchanged()
                compacted._write(self._stored.path, self._stored.identity)
                compacted = Datastore.load(self._stored.path)
                self._stored, self._journal = compacted._stored, compacted._journal
            self._segments = compacted._segments

    def save(self, path: str | Path) -> str:
        """Write a snapshot to the folder `path` in one step and return its identity; changes are folded in."""
        with self._lock:
            if len(self._segments[1].ids) or self._segments[0].removed.any():
                snapshot = Datastore(
                    base=self._segments[0],
                    options=self.options,
                    normalization=self._normalization,
                    next_id=self._next_id,
                )
                snapshot._segments = self._segments
                snapshot.compact()
                return snapshot._write(path)
            return self._write(path)

    @classmethod
    def load(cls, path: str | Path, *, identity: str | None = None) -> "Datastore":
        """Open the folder `path`, memory-mapped; its journal is read back and later changes are written to it."""
        stored = read_folder(path, kind=KIND, identity=identity)
        try:
            store = cls._from_stored(stored)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"{path} does not hold a datastore as we write it ({error}): restore it from a copy"
            ) from None
        store._journal = Journal(stored.journal, stored.generation)
        for change in store._journal.read():
            store._apply(change)
        return store

    @classmethod
    def _from_stored(cls, stored: Stored) -> "Datastore":
        arrays = stored.arrays
        vectors, ids, labels = arrays["vectors"], arrays["ids"], arrays["labels"]
        texts = PackedTexts.from_arrays(arrays)
        if (
            vectors.ndim != 2
            or vectors.dtype != np.float32
            or not len(vectors) == len(ids) == len(labels) == len(texts)
        ):
            raise ValueError("its arrays have different lengths")
        next_id = stored.options["next_id"]
        if len(ids) and ((np.diff(ids) <= 0).any() or ids[0] < 0 or ids[-1] >= next_id):
            raise ValueError("its ids do not rise")
        options = IndexOptions(**stored.options["index"])
        if options.factory == "Flat":
            index = build_index(vectors, options)
        else:
            index = read_index(stored.files["index"], vectors, options)
        return cls(
            base=Segment.of(vectors, ids, labels, texts, index),
            options=options,
            normalization=Normalization.from_arrays(stored.options["normalize"], arrays, vectors.shape[1]),
            next_id=next_id,
            stored=stored,
        )

    def _write(self, path: str | Path, identity: str | None = None) -> str:
        base = self._segments[0]
        texts = base.texts if isinstance(base.texts, PackedTexts) else PackedTexts.pack(base.texts)
        arrays: dict[str, Any] = {"vectors": base.vectors, "ids": base.ids, "labels": base.labels}
        return write_folder(
            path,
            kind=KIND,
            options={"index": asdict(self.options), "normalize": self._normalization.kind, "next_id": self._next_id},
            arrays=arrays | texts.to_arrays() | self._normalization.to_arrays(),
            files={"index": base.index.write} if isinstance(base.index, FaissIndex) else {},
            journal=start_journal,
            identity=identity,
        )

    def _apply(self, change: Change) -> None:
        base, added = self._segments
        if isinstance(change, Removed):
            rows = [segment.rows_of(change.ids) for segment in (base, added)]
            base, added = (part.without(row[row >= 0]) for part, row in zip((base, added), rows, strict=True))
        elif len(change.ids):
            if change.features.shape[1] != self.n_columns or change.ids[0] != self._next_id:
                raise StorageError("the journal does not continue this store: it was swapped; restore it from a copy")
            texts = [change.texts[row] for row in range(len(change.ids))]
            added = added.extended(self._normalization(change.features), change.ids, change.labels, texts)
            self._next_id = int(change.ids[-1]) + 1
        self._segments = (base, added)

    def _queries(self, features: object) -> FloatArray:
        queries = self._normalization(self._checked_features(features))
        _check_range(queries)
        return queries

    def _checked_features(self, features: object) -> FloatArray:
        matrix = float_matrix(features, "features", dtype=np.float32)
        if matrix.shape[1] != self.n_columns:
            raise InvalidInputError(
                f"features must have the store's {self.n_columns} columns, got {matrix.shape[1]}: use the same encoder"
            )
        return matrix


def _empty_segment(n_columns: int) -> Segment:
    none = np.empty(0, dtype=np.int64)
    return Segment.of(np.empty((0, n_columns), dtype=np.float32), none, none, [])


def _check_range(vectors: FloatArray) -> None:
    largest = float(row_squared_norms(vectors).max(initial=0.0))
    low, high = _SQUARED_NORM_RANGE
    if largest > high or 0 < largest < low:
        raise InvalidInputError(
            f"features must have lengths between {low**0.5:.0e} and {high**0.5:.0e} for float32 distances, "
            f"the longest has {largest**0.5:.3g}: multiply all features by one constant"
        )
