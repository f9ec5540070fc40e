"""What was added and removed since a folder was written: an append-only file, durable before a change is visible.

A record is a 16-byte head (length of the body, CRC-32 of the body, CRC-32 of the head so far) and a body, which is a
safetensors document. A crash can only leave an unfinished record at the end: it was never acknowledged and is dropped.
A finished record that fails its checksum is damage, and said to be.
"""

import os
import struct
import zlib
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.datastore.texts import PackedTexts
from knn_ue.errors import StorageError
from knn_ue.storage import generation_of, locked, read_plain_file

_MAGIC = b"knn-ue journal 1\n"
_HEAD = struct.Struct("<QII")


@dataclass(frozen=True, kw_only=True, eq=False)
class Added:
    """Rows that were added: float32 `features` as given by the user, not normalized."""

    features: FloatArray
    ids: IntArray
    labels: IntArray
    texts: PackedTexts


@dataclass(frozen=True, kw_only=True, eq=False)
class Removed:
    """Ids that were removed."""

    ids: IntArray


Change = Added | Removed


def start_journal(path: Path, generation: str) -> None:
    """Create the empty journal of a generation; it says whose it is, so that a swapped one is found out."""
    path.write_bytes(_MAGIC + generation.encode() + b"\n")


class Journal:
    """The journal of one generation of a folder, opened to read and to append."""

    def __init__(self, path: Path, generation: str) -> None:
        self.path = path
        self.generation = generation
        self._seen = 0
        self._end = 0

    def read(self) -> list[Change]:
        """Return every acknowledged change in order."""
        content = read_plain_file(self.path)
        start = _MAGIC + self.generation.encode() + b"\n"
        if not content.startswith(start):
            raise StorageError(
                f"{self.path} is not the journal of generation {self.generation}: restore it from a copy"
            )
        changes: list[Change] = []
        position = len(start)
        while (body := self._body_at(content, position)) is not None:
            changes.append(self._decode(body))
            position += _HEAD.size + len(body)
        self._seen, self._end = len(content), position
        return changes

    def append(self, change: Change) -> None:
        """Write one change and return when it is on disk; after an error nothing has changed."""
        body = save(_to_arrays(change))
        head = _HEAD.pack(len(body), zlib.crc32(body), 0)
        head = _HEAD.pack(len(body), zlib.crc32(body), zlib.crc32(head))
        try:
            # Unbuffered, so that what failed to be written cannot be written again when the file closes.
            with locked(self.path.parent):
                self.check_unchanged()
                with self.path.open("rb+", buffering=0) as file:
                    file.truncate(self._end)  # drop what a crash left unfinished
                    self._seen = self._end
                    try:
                        _write_all(file, self._end, head + body)
                    except BaseException:
                        file.truncate(self._end)
                        raise
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{self.path} cannot be written ({error.strerror}): nothing was changed") from None
        self._end += len(head) + len(body)
        self._seen = self._end

    def check_unchanged(self) -> None:
        """Raise if another process has written to the folder since this journal was read."""
        if generation_of(self.path.parent) != self.generation or self.path.stat().st_size != self._seen:
            raise StorageError(f"{self.path.parent} was changed by another writer: load it again, then repeat")

    def _body_at(self, content: bytes, position: int) -> bytes | None:
        """Return the record's body at `position`, None where the journal ends or its last record is unfinished."""
        rest = len(content) - position
        if rest < _HEAD.size or not any(content[position:]):
            return None
        length, body_crc, head_crc = _HEAD.unpack_from(content, position)
        damaged = zlib.crc32(_HEAD.pack(length, body_crc, 0)) != head_crc
        if not damaged and length > rest - _HEAD.size:
            return None
        body = content[position + _HEAD.size : position + _HEAD.size + length]
        if damaged or zlib.crc32(body) != body_crc:
            raise StorageError(
                f"{self.path} is damaged at byte {position}: restore it from a copy, or cut it to {position} bytes "
                "to lose the changes from there on"
            )
        return body

    def _decode(self, body: bytes) -> Change:
        try:
            return _from_arrays(load(body))
        except (SafetensorError, KeyError, ValueError, TypeError):
            raise StorageError(
                f"{self.path} holds a record that is neither added nor removed rows: do not trust it"
            ) from None


def _write_all(file: FileIO, position: int, record: bytes) -> None:
    file.seek(position)
    rest = memoryview(record)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _to_arrays(change: Change) -> dict[str, npt.NDArray[Any]]:
    if isinstance(change, Removed):
        return {"removed_ids": change.ids}
    arrays = {"features": change.features, "ids": change.ids, "labels": change.labels, **change.texts.to_arrays()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _from_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Change:
    if set(arrays) == {"removed_ids"}:
        return Removed(ids=arrays["removed_ids"].astype(np.int64))
    features, ids, labels = arrays["features"], arrays["ids"], arrays["labels"]
    texts = PackedTexts.from_arrays(arrays)
    if features.ndim != 2 or not len(features) == len(ids) == len(labels) == len(texts) or features.dtype != np.float32:
        raise ValueError("rows of different length")
    return Added(features=features, ids=ids.astype(np.int64), labels=labels.astype(np.int64), texts=texts)
