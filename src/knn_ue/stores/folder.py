"""What of a datastore is in its folder: the segment that was indexed, how it is compared, and later changes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, label_vector
from knn_ue.storage import FolderContent, write_folder
from knn_ue.storage.tensors import stored_array
from knn_ue.storage.texts import PackedTexts
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.factory import check_stored_factory
from knn_ue.stores.faiss_index import FaissIndex, Index, check_keeps_vectors, read_index
from knn_ue.stores.journal import Change, start_journal
from knn_ue.stores.normalization import Normalization, check_range
from knn_ue.stores.options import IndexOptions
from knn_ue.stores.segment import Segment

KIND = "datastore"
MAX_ID = 2**62


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
    arrays = stored.arrays
    ids = stored_array(arrays, "ids", np.int64, 1)
    labels = label_vector(stored_array(arrays, "labels", np.int64, 1), "labels")
    texts = PackedTexts.from_arrays(arrays)
    if not len(ids) == len(labels) == len(texts):
        raise ValueError("its arrays have different lengths")
    next_id = stored.options["next_id"]
    if type(next_id) is not int or not 0 <= next_id <= MAX_ID:
        raise ValueError(f"its next id is {next_id!r}")
    if len(ids) and ((ids[1:] <= ids[:-1]).any() or ids[0] < 0 or ids[-1] >= next_id):
        raise ValueError("its ids do not rise")
    options = IndexOptions(**stored.options["index"])
    check_stored_factory(options.factory)
    vectors, index = _read_index(stored, ids, options)
    return IndexedRows(
        segment=Segment.of(vectors, ids, labels, texts, index, source=stored),
        options=options,
        normalization=Normalization.from_arrays(stored.options["normalize"], arrays, index.n_columns),
        next_id=next_id,
    )


def _read_index(stored: FolderContent, ids: IntArray, options: IndexOptions) -> tuple[FloatArray | None, Index]:
    keep_vectors = stored.options.get("keep_vectors", True)  # folders of the first versions do not say it
    if keep_vectors is False:
        check_keeps_vectors(options)
        n_columns = stored.options["n_columns"]
        if type(n_columns) is not int or n_columns < 1:
            raise ValueError(f"its number of columns is {n_columns!r}")
        return None, read_index(stored.files["index"], (len(ids), n_columns), None, options)
    vectors = stored_array(stored.arrays, "vectors", np.float32, 2)
    if keep_vectors is not True or len(vectors) != len(ids) or not vectors.shape[1]:
        raise ValueError("its arrays have different lengths")
    check_range(vectors)  # short ones may be all that is left of longer ones
    if options.factory == "Flat" or "index" not in stored.files:
        return vectors, ExactIndex(vectors)
    return vectors, read_index(stored.files["index"], vectors.shape, vectors, options)
