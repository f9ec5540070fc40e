"""MilvusStore: the examples are rows of a collection on Milvus, shared by every process that opens it."""

import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import (
    FloatArray,
    IntArray,
    check_length,
    check_positive,
    float_matrix,
    id_vector,
    label_vector,
    text_tuple,
)
from knn_ue.errors import InvalidInputError, KnnUeError, StorageError, StoreUnreachableError
from knn_ue.folder import Part, as_written, from_plain, open_folder, to_plain, write_folder
from knn_ue.folder.tensors import valid_unicode
from knn_ue.stores.contract import StoredRows
from knn_ue.stores.milvus_client import (
    SCHEME,
    MilvusAddress,
    MilvusCollection,
    build_params,
    chosen_index,
    search_params,
)
from knn_ue.stores.options import IndexOptions, Normalization, Normalize, check_range
from knn_ue.types import Neighbors, Progress

KIND = SCHEME
TEXT_BYTES = 65_535
CHUNK_ROWS = 4096
_CHUNK_BYTES = 16 << 20  # of the 64 MB that Milvus takes at once
# Built rows are numbered from 0; added ones draw a block of ids above. All are exact in JavaScript and JSON.
_FIRST_DRAWN_ID = 2**52
_MAX_QUERIES = 4096
_MAX_LIMIT = 16_384
_MAX_HITS = 200_000  # of one call, so that an answer stays far below Milvus's 64 MB
_MORE = 8  # fetched beyond what is asked for, so that rows at one distance can be ordered by id
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a folder holds of it."""

    address: str
    identity: str
    n_columns: Annotated[int, Interval(ge=1, le=1 << 24)]
    normalize: Normalize


class MilvusStore:
    """Labeled feature vectors in a collection on Milvus, at an address such as "milvus://host:19530/name".

    Made by `build`, `open` or `load`. Every process that opens the address shares the rows; nothing of them is on this
    machine. Rows added get ids drawn at random from 2**52 .. 2**53, so that writers need not agree on them and a write
    that is repeated writes the same rows. `consistency` is "session" (this process sees its own changes) or "strong"
    (every process sees a change once it is acknowledged).
    """

    def __init__(self, collection: MilvusCollection, normalization: Normalization | None = None) -> None:
        said, self.n_columns = collection.existing()
        self.collection = collection
        self.normalization = normalization or Normalization(said["normalize"], np.empty(0), np.empty(0))  # type: ignore[arg-type]
        self._identity = said["identity"]
        self._index = chosen_index(said["index"], 0, 1)
        self._n_built = int(said["rows"])
        self._unsure: dict[bytes, IntArray] = {}  # ids of writes that nobody acknowledged, by what was written

    @classmethod
    def build(
        cls,
        address: str,
        features: object,
        labels: object,
        *,
        texts: Sequence[str] | None = None,
        index: str | IndexOptions = "auto",
        normalize: Normalize = "none",
        progress: Progress | None = None,
    ) -> "MilvusStore":
        """Store `features` (n, d) with `labels` (n,) and optional `texts` in a new collection; ids are 0 .. n - 1.

        `index` is "flat" (exact), "hnsw", "ivf_sq8" or "auto" (see `chosen_index`). `progress` is called with
        ("store" or "index", rows done, all rows).
        """
        matrix = float_matrix(features, "features", dtype=np.float32)
        normalization = Normalization.learn(matrix, normalize)
        rows = StoredRows(
            ids=np.arange(len(matrix)),
            vectors=normalization(matrix),
            labels=label_vector(labels, "labels", length=len(matrix)),
            texts=_checked_texts(texts, len(matrix)),
        )
        return cls.build_rows(address, rows, index=index, normalization=normalization, progress=progress)

    @classmethod
    def build_rows(
        cls,
        address: str,
        rows: StoredRows,
        *,
        index: str | IndexOptions,
        normalization: Normalization,
        progress: Progress | None = None,
    ) -> "MilvusStore":
        """Store rows with the ids they have in a new collection; where it fails, the collection is removed."""
        check_range(rows.vectors, all_of_them=True)
        _checked_texts(list(rows.texts), len(rows.ids))
        n_rows, n_columns = rows.vectors.shape
        store = cls.create(address, n_columns=n_columns, n_rows=n_rows, index=index, normalization=normalization)
        patient = store.patient()
        try:
            for done in patient._write(rows):
                if progress is not None:
                    progress("store", done, n_rows)
            patient.finish(n_rows, progress)
        except BaseException:
            with suppress(KnnUeError):  # the first error says more than that the server is gone
                cls.drop(address)
            raise
        return store

    @classmethod
    def create(
        cls,
        address: str,
        *,
        n_columns: int,
        n_rows: int,
        index: str | IndexOptions = "auto",
        normalization: Normalization | None = None,
    ) -> "MilvusStore":
        """Make an empty collection for about `n_rows` rows; it can be searched after `write_rows` and `finish`."""
        check_address(address, index)
        collection = MilvusCollection(MilvusAddress.parse(address))
        chosen, kind = chosen_index(index, n_rows, n_columns), "none" if normalization is None else normalization.kind
        properties = {"identity": secrets.token_hex(16), "index": chosen, "rows": str(n_rows), "normalize": kind}
        collection.patient().create(n_columns, chosen, build_params(chosen, n_rows), properties)
        return cls(collection, normalization)

    @classmethod
    def open(cls, address: str) -> "MilvusStore":
        """Open a collection that `build` or `create` made."""
        store = cls(MilvusCollection(MilvusAddress.parse(address)))
        if store.normalization.kind == "standardize":
            raise InvalidInputError(
                f"the store {store.where} standardizes features by numbers that are in its folder: open the folder"
            )
        return store

    @classmethod
    def load(cls, path: str | Path) -> "MilvusStore":
        """Open the collection that a folder refers to, after checking that it is still the same one."""
        return cls.from_part(open_folder(path, kind=KIND))

    @classmethod
    def from_part(cls, part: Part) -> "MilvusStore":
        """Open what `to_part` described; the token goes there only if the user named that server elsewhere."""
        with as_written(part.where, "reference to a store"):
            state = from_plain(_State, part.state)
            normalization = Normalization.from_arrays(state.normalize, dict(part.arrays), state.n_columns)
            collection = MilvusCollection(MilvusAddress.parse(state.address, named=False))
        store = cls(collection, normalization)
        if (store._identity, store.n_columns) != (state.identity, state.n_columns):
            raise StorageError(
                f"the store {store.where} is not the one that {part.where} was fitted with (another identity or number "
                "of columns): restore the collection, or refit"
            )
        return store

    @classmethod
    def drop(cls, address: str) -> None:
        """Remove a collection with all its rows, for every process that shares it."""
        collection = MilvusCollection(MilvusAddress.parse(address))
        collection.existing()
        collection.call("drop_collection", unsure=f"{collection.address.collection} may have been removed")

    @property
    def where(self) -> str:
        """Its address."""
        return str(self.collection.address)

    def __len__(self) -> int:
        return int(self.collection.query("", ["count(*)"])[0]["count(*)"])

    def search(self, features: object, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest examples of each row, sorted by (distance, id), padded with id -1.

        One call for all of them, more only where ties reach beyond what it gave.
        """
        check_positive(n_neighbors, "n_neighbors")
        if n_neighbors > _MAX_LIMIT:
            raise InvalidInputError(
                f"Milvus finds at most {_MAX_LIMIT} neighbors, got n_neighbors={n_neighbors}: lower it"
            )
        queries = self._prepared(features)
        ids = np.full((len(queries), int(n_neighbors)), -1, dtype=np.int64)
        labels, distances = ids.copy(), np.full(ids.shape, np.inf)
        rows, limit = np.arange(len(queries)), min(int(n_neighbors) + _MORE, _MAX_LIMIT)
        while len(rows):
            cut: list[int] = []
            for row, hits in self._hits(queries, rows, limit):
                found = _sorted(hits)
                for target, values in zip((ids, distances, labels), found, strict=True):
                    target[row, : len(hits)] = values[:n_neighbors]
                if len(hits) == limit < _MAX_LIMIT and found[1][-1] == found[1][n_neighbors - 1]:
                    cut.append(row)
            rows, limit = np.asarray(cut, dtype=np.int64), min(4 * limit, _MAX_LIMIT)
        return Neighbors(ids=ids, distances=distances, labels=labels, approximate=self._index == "ivf_sq8")

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text of each id, None where none was stored or the id is gone; one query for all."""
        wanted = id_vector(ids, "ids").tolist()
        found = self.collection.fetch(list(dict.fromkeys(wanted)), ["has_text", "text"])
        return [found[number]["text"] if number in found and found[number]["has_text"] else None for number in wanted]

    def vectors_of(self, ids: Sequence[int] | IntArray) -> FloatArray:
        """Return the vectors (n, d) of ids as they are searched, NaN where an id is gone."""
        wanted = id_vector(ids, "ids").tolist()
        found = self.collection.fetch(list(dict.fromkeys(wanted)), ["vector"])
        gone = {"vector": np.full(self.n_columns, np.nan)}
        vectors = [found.get(number, gone)["vector"] for number in wanted]
        return np.asarray(vectors, dtype=np.float32).reshape(len(wanted), self.n_columns)

    def normalized(self, features: object) -> FloatArray:
        """Return `features` (n, d) as this store compares them."""
        return self.normalization.of(features, self.n_columns)

    def add(self, features: object, labels: object, *, texts: Sequence[str] | None = None) -> IntArray:
        """Store more examples and return their ids.

        Milvus has them on disk when this returns. Where it raises `StoreUnreachableError`, some may be stored: the same
        call repeated on this object writes the same ids, so that none is stored twice. Where Milvus refuses the rows,
        none is stored.
        """
        vectors = self._prepared(features)
        rows = StoredRows(
            ids=np.empty(0, dtype=np.int64),
            vectors=vectors,
            labels=label_vector(labels, "labels", length=len(vectors)),
            texts=_checked_texts(texts, len(vectors)),
        )
        digest = _digest_of(rows)
        ids = self._unsure.pop(digest, None)
        rows = replace(rows, ids=self._drawn_ids(len(vectors)) if ids is None else ids)
        try:
            self.write_rows(rows)
        except StoreUnreachableError:
            self._unsure[digest] = rows.ids
            raise
        except StorageError:
            self.collection.delete(rows.ids.tolist(), "some of the rows may be stored")
            raise
        return rows.ids

    def remove(self, ids: object) -> None:
        """Remove examples by id; if an id is unknown, nothing is removed."""
        wanted = np.unique(id_vector(ids, "ids")).tolist()
        stored = self.collection.fetch(wanted, [], strong=True)
        unknown = [number for number in wanted if number not in stored]
        if unknown:
            raise InvalidInputError(f"id {unknown[0]} is not stored (never added, or removed): nothing was removed")
        for start in range(0, len(wanted), CHUNK_ROWS):
            unsure = f"some of the {len(wanted)} examples may have been removed"
            self.collection.delete(wanted[start : start + CHUNK_ROWS], unsure)

    def write_rows(self, rows: StoredRows) -> None:
        """Write rows by their ids into a store made by `create`; written again, they are the same rows."""
        _checked_texts(list(rows.texts), len(rows.ids))
        for _ in self._write(rows):
            pass

    def finish(self, n_rows: int, progress: Progress | None = None) -> None:
        """Wait until all rows are on disk, indexed and loaded."""
        collection = self.collection.patient()
        unsure = "the rows are stored, but not indexed or loaded yet"
        collection.call("flush", unsure=unsure)
        while True:
            pending = int(collection.call("describe_index", index_name="vector").get("pending_index_rows", 0) or 0)
            if progress is not None:
                progress("index", max(0, n_rows - pending), n_rows)
            if not pending:
                break
            time.sleep(_POLL_SECONDS)
        collection.call("load_collection", unsure=unsure)

    def check_reachable(self) -> None:
        """Raise `StoreUnreachableError` unless Milvus finds the collection now."""
        len(self)

    def patient(self) -> "MilvusStore":
        """Return the same store for batch work: its searches wait two minutes for a server that is slow or restarts."""
        found = copy(self)
        found.collection = self.collection.patient()
        return found

    def facts(self) -> dict[str, Any]:
        """Return what a person may want to know of a store that is elsewhere."""
        address = self.collection.address
        return {"search": self._index, "consistency": address.consistency, "timeout": address.timeout}

    def rows(self) -> Iterator[StoredRows]:
        """Yield all rows by rising id, in chunks."""
        fields = ["id", "label", "has_text", "text", "vector"]
        last = -1
        while found := self.collection.query(f"id > {last}", fields, limit=CHUNK_ROWS // 4, strong=True):
            found.sort(key=lambda row: int(row["id"]))
            yield StoredRows(
                ids=np.asarray([row["id"] for row in found], dtype=np.int64),
                vectors=np.asarray([row["vector"] for row in found], dtype=np.float32),
                labels=np.asarray([row["label"] for row in found], dtype=np.int64),
                texts=[row["text"] if row["has_text"] else None for row in found],
            )
            last = int(found[-1]["id"])

    def save(self, path: str | Path) -> None:
        """Write a reference to the collection, without secrets, into the folder `path`; copies share the rows."""
        write_folder(path, self.to_part())

    def to_part(self) -> Part:
        """Return a reference to the collection."""
        state = _State(
            address=self.collection.address.in_full,
            identity=self._identity,
            n_columns=self.n_columns,
            normalize=self.normalization.kind,
        )
        return Part(kind=KIND, state=to_plain(state), arrays=self.normalization.to_arrays())

    def detached(self) -> "MilvusStore":
        """Return the store itself: it lives on a server, and cannot be copied for a moment."""
        return self

    def _prepared(self, features: object) -> FloatArray:
        vectors = self.normalized(features)
        check_range(vectors)
        return vectors

    def _hits(self, queries: FloatArray, rows: IntArray, limit: int) -> Iterator[tuple[int, Any]]:
        """Yield each row and what Milvus finds for it, as many queries at a time as its answers may hold."""
        params = {"metric_type": "L2", "params": search_params(self._index, self._n_built, limit)}
        step = max(1, min(_MAX_QUERIES, _MAX_HITS // limit))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            found = self.collection.call(
                "search",
                data=list(queries[part]),
                limit=limit,
                anns_field="vector",
                output_fields=["label"],
                search_params=params,
                consistency_level=self.collection.consistency,
            )
            yield from zip(part.tolist(), found, strict=True)

    def _write(self, rows: StoredRows) -> Iterator[int]:
        """Write the rows in chunks that fit into a call, and yield how many are acknowledged."""
        n_rows, n_columns = rows.vectors.shape
        all_texts = list(rows.texts)
        longest = max((len(text.encode()) for text in all_texts if text), default=0)
        step = max(1, min(CHUNK_ROWS, _CHUNK_BYTES // (4 * n_columns + longest + 32)))
        names = ("id", "label", "vector", "has_text", "text")
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            texts = all_texts[part]
            values = (rows.ids[part].tolist(), rows.labels[part].tolist(), rows.vectors[part])
            present, known = [text is not None for text in texts], [text or "" for text in texts]
            chunk = [dict(zip(names, row, strict=True)) for row in zip(*values, present, known, strict=True)]
            stored = f"{start} of the {n_rows} rows are stored, of the next {len(chunk)} some may be"
            self.collection.call("upsert", data=chunk, unsure=stored)
            yield start + len(chunk)

    def _drawn_ids(self, n_rows: int) -> IntArray:
        """Return consecutive ids that nobody else has: of 2**52, two writers draw the same never."""
        first = _FIRST_DRAWN_ID + secrets.randbelow(2**52 - n_rows)
        return np.arange(first, first + n_rows)


def check_address(address: str, index: str | IndexOptions) -> None:
    """Raise unless a store can be built at `address`: the server answers and the name is free."""
    chosen_index(index, 0, 1)
    collection = MilvusCollection(MilvusAddress.parse(address))
    if collection.call("has_collection"):
        raise InvalidInputError(
            f"the collection {collection.address} already exists, and other folders may share it: choose another name, "
            f"or remove it with MilvusStore.drop({str(collection.address)!r})"
        )


def _sorted(hits: Sequence[Any]) -> tuple[IntArray, FloatArray, IntArray]:
    """Return ids, Euclidean distances and labels of the hits of one query, by (distance, id)."""
    ids = np.asarray([hit["id"] for hit in hits], dtype=np.int64)
    squared = np.asarray([hit["distance"] for hit in hits], dtype=np.float64)  # Milvus returns squares
    labels = np.asarray([hit["entity"]["label"] for hit in hits], dtype=np.int64)
    if not np.isfinite(squared).all():
        raise StorageError("Milvus found distances that are not numbers: build the collection again")
    distances = np.sqrt(np.maximum(squared, 0.0))
    order = np.lexsort((ids, distances))
    return ids[order], distances[order], labels[order]


def _checked_texts(texts: Sequence[str | None] | None, n_rows: int) -> list[str | None]:
    """Return texts that Milvus can keep; a longer one is refused before anything is written."""
    if texts is None:
        return [None] * n_rows
    check_length(len(texts), "texts", n_rows)
    text_tuple([text for text in texts if text is not None], "texts")
    found = [None if text is None else valid_unicode(text) for text in texts]
    for row, text in enumerate(found):
        if text is not None and len(text.encode()) > TEXT_BYTES:
            raise InvalidInputError(
                f"Milvus keeps texts of up to {TEXT_BYTES} bytes, text {row} has {len(text.encode())}; nothing was "
                "written: shorten it, or store in a folder"
            )
    return found


def _digest_of(rows: StoredRows) -> bytes:
    """Return what tells two batches of rows from each other, whatever their ids.

    Vectors count only where there are no texts: a text that is encoded again may differ in the last bit.
    """
    digest = hashlib.sha256(json.dumps([rows.labels.tolist(), list(rows.texts)]).encode())
    if None in rows.texts:
        digest.update(np.ascontiguousarray(rows.vectors).tobytes())
    return digest.digest()
