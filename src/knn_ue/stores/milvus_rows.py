"""Rows as Milvus takes and gives them: ids, texts within its limit, and chunks."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from knn_ue.arrays import IntArray, check_length, id_vector, text_tuple
from knn_ue.errors import InvalidInputError
from knn_ue.folder.tensors import valid_unicode
from knn_ue.stores.contract import StoredRows

TEXT_BYTES = 65_535
CHUNK_ROWS = 4096
_CHUNK_BYTES = 8 << 20
# Built rows are numbered from 0; added ones draw a block of ids above. All are exact in JavaScript and JSON.
_FIRST_DRAWN_ID = 2**52
LAST_ID = 2**53 - 1


def drawn_ids(n_rows: int) -> IntArray:
    """Return `n_rows` consecutive ids that nobody else has: of 2**52, two writers draw the same never."""
    first = _FIRST_DRAWN_ID + secrets.randbelow(2**52 - n_rows)
    return np.arange(first, first + n_rows)


def given_ids(values: object, n_rows: int) -> IntArray:
    """Return ids as the caller chose them, all different and within what Milvus and JSON keep exactly."""
    ids = id_vector(values, "ids")
    check_length(len(ids), "ids", n_rows)
    if len(np.unique(ids)) != len(ids):
        raise InvalidInputError("ids must be unique, but some repeat: number the rows")
    check_ids(ids)
    return ids


def check_ids(ids: IntArray) -> None:
    """Raise unless all ids are below 2**53."""
    for number in (ids.min(initial=0), ids.max(initial=0)):
        if not 0 <= number <= LAST_ID:
            raise InvalidInputError(f"ids must be 0 to {LAST_ID} on Milvus, got {number}: number the rows from 0")


def known_ids(ids: Sequence[int]) -> list[int]:
    """Return each id once, without those that no row can have."""
    return [number for number in dict.fromkeys(ids) if 0 <= number <= LAST_ID]


def checked_texts(texts: Sequence[str | None] | None, n_rows: int) -> list[str | None]:
    """Return texts that Milvus can keep; a longer one is refused before anything is written."""
    if texts is None:
        return [None] * n_rows
    check_length(len(texts), "texts", n_rows)
    text_tuple([text for text in texts if text is not None], "texts")
    found = [None if text is None else valid_unicode(text) for text in texts]
    for row, text in enumerate(found):
        n_bytes = 0 if text is None else len(text.encode())
        if n_bytes > TEXT_BYTES:
            raise InvalidInputError(
                f"Milvus keeps texts of up to {TEXT_BYTES} bytes, text {row} has {n_bytes}; nothing was written: "
                "shorten it, or store in a folder"
            )
    return found


def digest_of(rows: StoredRows) -> bytes:
    """Return what tells two batches of rows apart, whatever their ids.

    Vectors count only where there are no texts: a text that is encoded again may differ in the last bit.
    """
    digest = hashlib.sha256(json.dumps([rows.labels.tolist(), list(rows.texts)]).encode())
    if None in rows.texts:
        digest.update(np.ascontiguousarray(rows.vectors).tobytes())
    return digest.digest()


def chunks_of(rows: StoredRows) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as Milvus takes them, as many at a time as fit well below its limit of 64 MB."""
    chunk: list[dict[str, Any]] = []
    n_bytes = 0
    for number, vector, label, text in zip(
        rows.ids.tolist(), rows.vectors, rows.labels.tolist(), rows.texts, strict=True
    ):
        size = vector.nbytes + (0 if text is None else len(text.encode())) + 32
        if chunk and (len(chunk) == CHUNK_ROWS or n_bytes + size > _CHUNK_BYTES):
            yield chunk
            chunk, n_bytes = [], 0
        chunk.append({"id": number, "label": label, "has_text": text is not None, "text": text or "", "vector": vector})
        n_bytes += size
    if chunk:
        yield chunk


def rows_from(found: Sequence[dict[str, Any]], n_columns: int) -> StoredRows:
    """Return rows as Milvus gave them, by rising id."""
    ordered = sorted(found, key=lambda row: int(row["id"]))
    vectors = np.asarray([row["vector"] for row in ordered], dtype=np.float32)
    return StoredRows(
        ids=np.asarray([row["id"] for row in ordered], dtype=np.int64),
        vectors=vectors.reshape(len(ordered), n_columns),
        labels=np.asarray([row["label"] for row in ordered], dtype=np.int64),
        texts=[row["text"] if row["has_text"] else None for row in ordered],
    )
