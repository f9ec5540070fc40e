"""A datastore larger than memory: chunks go to disk as they come, the index is filled from there block by block."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from knn_ue.arrays import (
    FloatArray,
    check_choice,
    check_not_empty,
    check_positive,
    float_matrix,
    label_vector,
    text_tuple,
)
from knn_ue.errors import InvalidInputError
from knn_ue.folder import check_replaceable, created_folder, storage_errors
from knn_ue.folder.tensors import PackedTexts, StagedRows
from knn_ue.stores.contract import StoredRows
from knn_ue.stores.faiss_index import check_keeps_vectors
from knn_ue.stores.options import Building, IndexOptions, Normalization, Normalize, check_range, index_options
from knn_ue.stores.segment import IndexedRows, check_index
from knn_ue.types import Progress

Chunk = tuple[Any, Any] | tuple[Any, Any, Any]
_ROWS = 1 << 14


@contextmanager
def joined_chunks(
    folder: Path,
    chunks: Iterable[Chunk],
    index: str | IndexOptions,
    normalize: Normalize,
    how: Building,
    progress: Progress | None,
) -> Iterator[IndexedRows]:
    """Yield all `chunks` as rows with their index; until the block ends, what they hold is on the disk of `folder`.

    See `Datastore.build_from_chunks`.
    """
    # What can be refused is refused before hours of chunks are read.
    check_positive(how.train_rows or 0, "train_rows")
    check_choice(normalize, "normalize", get_args(Normalize))
    if not how.keep_vectors:
        check_keeps_vectors(index_options(index, 1, 1))
    report = progress or (lambda *_: None)
    with created_folder(folder), ExitStack() as stack:
        check_replaceable(folder)
        staged = _Staged(folder, stack, index)
        for chunk in chunks:
            staged.append(chunk)
            report("read", staged.n_rows, None)
        check_not_empty(staged.n_rows, "chunks")
        vectors = staged.vectors()
        normalization = Normalization.learn(vectors, normalize)
        for start in range(0, len(vectors) if normalize != "none" else 0, _ROWS):
            vectors[start : start + _ROWS] = normalization(vectors[start : start + _ROWS])
        check_range(vectors, all_of_them=True)
        options = index_options(index, *vectors.shape)
        rows = StoredRows(
            ids=np.arange(len(vectors)), vectors=vectors, labels=np.concatenate(staged.labels), texts=staged.texts()
        )
        how = replace(how, progress=lambda done: report("index", done, len(vectors)))
        yield IndexedRows.build(rows, options, normalization, how)


class _Staged:
    """Chunks as they come: features and texts in files without a name, labels in memory."""

    def __init__(self, folder: Path, stack: ExitStack, index: str | IndexOptions) -> None:
        self.labels: list[Any] = []
        self.n_rows = 0
        self._ends: list[Any] = []
        self._present: list[Any] = []
        self._folder = folder
        self._stack = stack
        self._index = index
        self._features: StagedRows | None = None
        self._content = self._stage(np.uint8, 1)

    def append(self, chunk: Chunk) -> None:
        """Check one chunk and put it to the others."""
        if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
            raise InvalidInputError("a chunk must be a tuple (features, labels) or (features, labels, texts)")
        features = float_matrix(chunk[0], "features", dtype=np.float32)
        if self._features is None:
            check_index(index_options(self._index, 1, features.shape[1]), features.shape[1])
            self._features = self._stage(np.float32, features.shape[1])
        if features.shape[1] != self._features.n_columns:
            raise InvalidInputError(
                f"every chunk must have {self._features.n_columns} columns as the first, got {features.shape[1]}"
            )
        labels = label_vector(chunk[1], "labels", length=len(features))
        given = text_tuple(chunk[2], "texts", length=len(features)) if len(chunk) == 3 else [None] * len(features)
        texts = PackedTexts.pack(given)
        self._ends.append(texts.ends + self._content.n_rows)
        self._present.append(texts.present)
        self.labels.append(labels)
        self.n_rows += len(features)
        with storage_errors(f"{self._folder} cannot be written", "what it held is unchanged"):
            self._features.append(features)
            self._content.append(texts.content[:, None])

    def vectors(self) -> FloatArray:
        """Return all features (n, d), mapped and writable."""
        assert self._features is not None
        return self._features.map()

    def texts(self) -> PackedTexts:
        """Return all texts, their content mapped."""
        return PackedTexts(self._content.map()[:, 0], np.concatenate(self._ends), np.concatenate(self._present))

    def _stage(self, dtype: type[np.generic], n_columns: int) -> StagedRows:
        with storage_errors(f"{self._folder} cannot be written", "choose another folder"):
            staged = StagedRows(self._folder, dtype, n_columns)
        self._stack.callback(staged.close)
        return staged
