"""A datastore on disk: its rows, and a journal of what was added and removed since; `StoreState` is both in memory.

The journal is an append-only file, durable before a change is visible. A record is a 16-byte head (length of the body,
CRC-32 of the body, CRC-32 of the head so far) and a body, which is a safetensors document. A crash can only leave an
unfinished record at the end: it was never acknowledged and is dropped. A finished record that fails its checksum is
damage, and reported as such.

A writer appends only where the last record that it knows is still the last one: it compares that record's head, which
holds the checksum of its content, and looks for another record behind it. Sizes prove nothing, since what a crash left
may be as long as the record that another writer puts in its place.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, IntArray, float_matrix, label_vector
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage import FolderContent, open_plain_file, storage_errors, write_folder
from knn_ue.storage.atomic import locked
from knn_ue.storage.schema import MAX_CLASSES, ArrayRule, Within, check_arrays, read_plain
from knn_ue.storage.tensors import PackedTexts, arrays_from_bytes, arrays_to_bytes, stored_array
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.faiss_index import FaissIndex, check_keeps_vectors, read_index
from knn_ue.stores.options import IndexOptions, Normalization, Normalize, check_range, check_stored_factory
from knn_ue.stores.segment import Index, Segment

KIND = "datastore"
MAX_ID = 2**62
_MAX_COLUMNS = 1 << 24
_MAGIC = b"knn-ue journal 1\n"
_HEAD = struct.Struct("<QII")
# Bounds what a hostile journal can make us allocate.
_MAX_BODY_BYTES = 1 << 31
_MAX_ZERO_BYTES = 1 << 28
_CHUNK_BYTES = 1 << 20
_CHANGE_ROWS = 1 << 14


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Added:
    """Rows that were added: float32 `features` as given by the user, or already `normalized`."""

    features: FloatArray
    ids: IntArray
    labels: IntArray
    texts: PackedTexts
    normalized: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Removed:
    """Ids that were removed."""

    ids: IntArray


Change = Added | Removed


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


@dataclass(frozen=True, kw_only=True, eq=False)
class StoreState:
    """All that changes in a store, replaced in one step: a search, or an interrupt, meets the old one or the new."""

    base: Segment
    added: Segment
    next_id: int
    stored: FolderContent | None = None
    journal: "Journal | None" = None
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


def start_journal(path: Path, generation: str, changes: Sequence[Change] = ()) -> None:
    """Create the journal of a generation; it says whose it is, so that a swapped one is found out."""
    with path.open("xb") as file:
        file.write(_opening(generation))
        for change in changes:
            file.write(_record(change))


def read_journal(stored: FolderContent) -> tuple["Journal", list[Change]]:
    """Return the journal of a folder, ready to be appended to, and every acknowledged change in order."""
    try:
        return _read_now(stored)
    except StorageError:
        # Damaged, or changed by a writer while we read: under its lock nobody writes.
        with storage_errors(f"{stored.path} cannot be read", "restore it from a backup"), locked(stored.path):
            return _read_now(stored)


def _read_now(stored: FolderContent) -> tuple["Journal", list[Change]]:
    path = stored.journal
    with storage_errors(f"{path} cannot be read", "restore the folder from a backup"), open_plain_file(path) as file:
        last = _opening(stored.generation)
        if file.read(len(last)) != last:
            raise StorageError(f"{path} is not the journal of generation {stored.generation}: restore it from a backup")
        changes = []
        start, end = 0, len(last)
        for body in _bodies(file, path, os.fstat(file.fileno()).st_size):
            changes.append(_decode(body, path))
            last = _head(len(body), zlib.crc32(body))
            start, end = end, end + _HEAD.size + len(body)
    return Journal(stored=stored, last=last, start=start, end=end), changes


@dataclass(frozen=True, kw_only=True, eq=False)
class Journal:
    """The journal of a folder as it was last seen: the head of its `last` whole record, that record's start and end."""

    stored: FolderContent
    last: bytes
    start: int
    end: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.stored.journal

    def append(self, change: Change) -> "Journal":
        """Write one change and return the longer journal once it is on disk; after an error nothing has changed."""
        record = _record(change)
        with storage_errors(f"{self.path} cannot be written", "nothing was changed"), locked(self.path.parent):
            self.check_unchanged()
            # Unbuffered, so that what failed to be written cannot be written again when the file closes.
            with self.path.open("rb+", buffering=0) as file:
                try:
                    file.truncate(self.end)  # drop what a crash left unfinished
                    _write_all(file, self.end, record)
                except BaseException:
                    file.truncate(self.end)
                    raise
        return replace(self, last=record[: _HEAD.size], start=self.end, end=self.end + len(record))

    def check_unchanged(self) -> None:
        """Raise if the folder is no longer what was loaded, or another process has written to its journal since.

        To rely on it, keep the folder locked.
        """
        self.stored.check_unchanged()
        with open_plain_file(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(self.start)
            same = size >= self.end and file.read(len(self.last)) == self.last
            file.seek(self.end)
            if not same or any(True for _ in _bodies(file, self.path, size)):
                raise StorageError(f"{self.stored.path} was changed by another writer: load it again and repeat")


def _opening(generation: str) -> bytes:
    return _MAGIC + generation.encode() + b"\n"


def _record(change: Change) -> bytes:
    body = arrays_to_bytes(_to_arrays(change))
    if len(body) > _MAX_BODY_BYTES:
        raise InvalidInputError(
            f"one change may hold {_MAX_BODY_BYTES} bytes, this one has {len(body)}: make it in parts"
        )
    return _head(len(body), zlib.crc32(body)) + body


def _head(length: int, body_crc: int) -> bytes:
    return _HEAD.pack(length, body_crc, zlib.crc32(_HEAD.pack(length, body_crc, 0)))


def _bodies(file: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    """Yield each record's body up to `size`, or to a record at the end that was never finished."""
    rest = size - file.tell()
    while rest >= _HEAD.size:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:  # a writer cuts what a crash left while we read without a lock
            return
        length, body_crc, _ = _HEAD.unpack(head)
        whole_head = head == _head(length, body_crc) and length <= _MAX_BODY_BYTES
        if (whole_head and length > rest - _HEAD.size) or (not any(head) and _only_zeros(file)):
            return
        body = file.read(length) if whole_head else b""
        if not whole_head or zlib.crc32(body) != body_crc:
            end = size - rest
            raise StorageError(
                f"{path} is damaged at byte {end}: restore it from a backup, or cut it to {end} bytes "
                "to lose the changes from there on"
            )
        rest -= _HEAD.size + length
        yield body


def _only_zeros(file: BinaryIO) -> bool:
    """Say whether nothing but zeros follows: a file system may leave them where a crash cut off a record."""
    for _ in range(0, _MAX_ZERO_BYTES, _CHUNK_BYTES):
        chunk = file.read(_CHUNK_BYTES)
        if not chunk:
            return True
        if chunk != bytes(len(chunk)):
            return False
    return False


def _write_all(file: FileIO, position: int, record: bytes) -> None:
    file.seek(position)
    rest = memoryview(record)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _to_arrays(change: Change) -> dict[str, npt.NDArray[Any]]:
    if isinstance(change, Removed):
        return {"removed_ids": change.ids}
    name = "vectors" if change.normalized else "features"
    return {name: change.features, "ids": change.ids, "labels": change.labels, **change.texts.to_arrays()}


def _decode(body: bytes, path: Path) -> Change:
    try:
        arrays = arrays_from_bytes(body)
        if set(arrays) == {"removed_ids"}:
            return Removed(ids=stored_array(arrays, "removed_ids", np.int64, 1))
        normalized = "vectors" in arrays
        name = "vectors" if normalized else "features"
        features = float_matrix(stored_array(arrays, name, np.float32, 2), name, dtype=np.float32)
        texts = PackedTexts.from_arrays(arrays)
        ids = stored_array(arrays, "ids", np.int64, 1)
        labels = label_vector(stored_array(arrays, "labels", np.int64, 1), "labels", length=len(features))
        if not len(features) == len(ids) == len(texts):
            raise ValueError("rows of different length")
        return Added(features=features, ids=ids, labels=labels, texts=texts, normalized=normalized)
    except ValueError as error:
        raise StorageError(
            f"{path} holds a record that is neither added nor removed rows ({error}): do not trust it"
        ) from None
