"""A datastore as it stands: the rows in its folder, how they are compared, and the changes since, in frozen records."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from knn_ue.storage import FolderContent, write_folder
from knn_ue.storage.schema import MAX_CLASSES, ArrayRule, Within, check_arrays, read_plain
from knn_ue.storage.tensors import PackedTexts
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.faiss_index import FaissIndex, check_keeps_vectors, read_index
from knn_ue.stores.journal import Added, Change, Journal, Removed, start_journal
from knn_ue.stores.options import IndexOptions, Normalization, Normalize, check_range, check_stored_factory
from knn_ue.stores.segment import Index, Segment

KIND = "datastore"
MAX_ID = 2**62
_MAX_COLUMNS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class _StoredOptions:
    """What the meta.json of a datastore holds."""

    index: IndexOptions
    normalize: Normalize
    next_id: Annotated[int, Within(0, MAX_ID)]
    n_columns: Annotated[int, Within(1, _MAX_COLUMNS)]
    keep_vectors: bool


# Beside texts and normalization, which check their own.
_STORED_ARRAYS = {
    "ids": ArrayRule(dtype=np.int64, shape=("rows",), within=Within(0, MAX_ID)),
    "labels": ArrayRule(dtype=np.int64, shape=("rows",), within=Within(0, MAX_CLASSES)),
    "vectors": ArrayRule(dtype=np.float32, shape=("rows", "columns"), optional=True),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexedRows:
    """A segment without changes, and what it takes to search it and to number what is added."""

    segment: Segment
    options: IndexOptions
    normalization: Normalization
    next_id: int


def write_rows(
    path: str | Path,
    base: IndexedRows,
    *,
    changes: list[Change] | None = None,
    identity: str | None = None,
    precondition: Callable[[], None] | None = None,
) -> str:
    """Write `base` to the folder `path` in one step, `changes` into its journal, and return its identity."""
    segment = base.segment
    segment.check_readable()
    texts = segment.texts if isinstance(segment.texts, PackedTexts) else PackedTexts.pack(segment.texts)
    arrays: dict[str, Any] = {"ids": segment.ids, "labels": segment.labels}
    if segment.vectors is not None:
        arrays["vectors"] = segment.vectors
    return write_folder(
        path,
        kind=KIND,
        options={
            "index": asdict(base.options),
            "normalize": base.normalization.kind,
            "next_id": base.next_id,
            "n_columns": segment.index.n_columns,
            "keep_vectors": segment.vectors is not None,
        },
        arrays=arrays | texts.to_arrays() | base.normalization.to_arrays(),
        files={"index": segment.index.write} if isinstance(segment.index, FaissIndex) else {},
        journal=lambda journal, generation: start_journal(journal, generation, changes or []),
        identity=identity,
        precondition=precondition,
    )


def read_rows(stored: FolderContent) -> IndexedRows:
    """Return what `write_rows` wrote, without the changes; ValueError, KeyError or TypeError where it is not that."""
    arrays, options = stored.arrays, read_plain(_StoredOptions, stored.options)
    check_arrays(arrays, _STORED_ARRAYS, {"columns": options.n_columns})
    ids = arrays["ids"]
    texts = PackedTexts.from_arrays(arrays)
    if len(ids) != len(texts):
        raise ValueError("its arrays have different lengths")
    if len(ids) and ((ids[1:] <= ids[:-1]).any() or ids[-1] >= options.next_id):
        raise ValueError("its ids do not rise")
    check_stored_factory(options.index.factory)
    vectors = arrays["vectors"] if options.keep_vectors else None
    if vectors is None:
        check_keeps_vectors(options.index)
    else:
        check_range(vectors)  # short ones may be all that is left of longer ones
    if vectors is not None and (options.index.factory == "Flat" or "index" not in stored.files):
        index: Index = ExactIndex(vectors)
    else:
        index = read_index(stored.files["index"], (len(ids), options.n_columns), vectors, options.index)
    return IndexedRows(
        segment=Segment.of(vectors, ids, arrays["labels"], texts, index, source=stored),
        options=options.index,
        normalization=Normalization.from_arrays(options.normalize, arrays, index.n_columns),
        next_id=options.next_id,
    )


_CHANGE_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True, eq=False)
class StoreState:
    """All that changes in a store, replaced in one step: a search, or an interrupt, meets the old one or the new."""

    base: Segment
    added: Segment
    next_id: int
    stored: FolderContent | None = None
    journal: Journal | None = None
    gpu: int | None = None
    gpu_index: Index | None = None

    @property
    def segments(self) -> tuple[Segment, Segment]:
        return self.base, self.added

    @property
    def has_changes(self) -> bool:
        return len(self.added.ids) > 0 or bool(self.base.removed.any())

    @property
    def first_added_id(self) -> int:
        return self.next_id - len(self.added.ids)

    def joined(self) -> Segment:
        """Return all examples stored now in one segment, not indexed."""
        parts = list(zip(*(segment.live() for segment in self.segments), strict=True))
        vectors, ids, labels = (np.concatenate(part) for part in parts[:3])
        texts = [text for part in parts[3] for text in part]
        return Segment.of(vectors, ids, labels, texts, ExactIndex(vectors))

    def changes(self) -> list[Change]:
        """Return changes that lead from the base as it was built to this state."""
        found: list[Change] = []
        added = self.added
        for start in range(0, len(added.ids), _CHANGE_ROWS):
            rows = slice(start, start + _CHANGE_ROWS)
            texts = PackedTexts.pack(list(added.texts)[rows])
            found.append(
                Added(
                    features=added.require_vectors()[rows],
                    ids=added.ids[rows],
                    labels=added.labels[rows],
                    texts=texts,
                    normalized=True,
                )
            )
        removed = np.concatenate([segment.ids[segment.removed] for segment in self.segments])
        return [*found, Removed(ids=removed)] if len(removed) else found
