"""MilvusStore: the examples are rows of a collection on Milvus, shared by every process that opens it."""

import secrets
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray, IntArray, check_positive, float_matrix, id_vector, label_vector
from knn_ue.errors import InvalidInputError, StorageError, StoreUnreachableError
from knn_ue.folder import Part, as_written, from_plain, open_folder, to_plain, write_folder
from knn_ue.stores.contract import StoredRows
from knn_ue.stores.milvus_address import SCHEME, MilvusAddress, MilvusIndex, chosen_index
from knn_ue.stores.milvus_calls import MilvusCalls, check_address
from knn_ue.stores.milvus_rows import (
    CHUNK_ROWS,
    check_ids,
    checked_texts,
    chunks_of,
    digest_of,
    drawn_ids,
    given_ids,
    known_ids,
    rows_from,
)
from knn_ue.stores.milvus_search import nearest
from knn_ue.stores.options import IndexOptions, Normalization, Normalize, check_range
from knn_ue.types import Neighbors, Progress

KIND = SCHEME
_COUNT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a folder holds of it."""

    host: str
    port: Annotated[int, Interval(ge=1, le=65535)]
    collection: str
    consistency: str
    timeout: Annotated[float, Interval(gt=0, le=1e6)]
    tls: bool
    collection_identity: str
    n_columns: Annotated[int, Interval(ge=1, le=1 << 24)]
    index: str
    n_built: Annotated[int, Interval(ge=0, le=1 << 62)]
    normalize: Normalize


class MilvusStore:
    """Labeled feature vectors in a collection on Milvus, at an address such as "milvus://host:19530/name".

    Made by `build`, `open` or `load`. Every process that opens the address shares the rows; nothing of them is on this
    machine. Rows added get ids drawn at random from 2**52 .. 2**53, so that writers need not agree on them and a write
    that is repeated writes the same rows. `consistency` is "session" (this process sees its own changes) or "strong"
    (every process sees a change once it is acknowledged).
    """

    def __init__(
        self,
        calls: MilvusCalls,
        *,
        identity: str,
        n_columns: int,
        index: MilvusIndex,
        n_built: int,
        normalization: Normalization,
    ) -> None:
        self._calls = calls
        self._identity = identity
        self._n_columns = n_columns
        self._index = index
        self._n_built = n_built
        self._normalization = normalization
        self._count: tuple[float, int] | None = None
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
            texts=checked_texts(texts, len(matrix)),
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
        checked_texts(rows.texts, len(rows.ids))
        check_ids(rows.ids)
        n_rows, n_columns = rows.vectors.shape
        store = cls.create(address, n_columns=n_columns, n_rows=n_rows, index=index, normalization=normalization)
        try:
            for done in store._write(rows):
                if progress is not None:
                    progress("store", done, n_rows)
            store.finish(n_rows, progress)
        except BaseException:
            store._calls.drop()
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
        place = MilvusAddress.parse(address)
        chosen = chosen_index(index, n_rows, n_columns)
        normalization = normalization or Normalization.learn(np.empty((0, n_columns), dtype=np.float32), "none")
        identity = secrets.token_hex(16)
        MilvusCalls(place.patient()).create(
            n_columns=n_columns,
            index=chosen,
            n_rows=n_rows,
            properties={
                "identity": identity,
                "index": chosen,
                "rows": str(n_rows),
                "normalize": normalization.kind,
            },
        )
        return cls(
            MilvusCalls(place),
            identity=identity,
            n_columns=n_columns,
            index=chosen,
            n_built=n_rows,
            normalization=normalization,
        )

    @classmethod
    def open(cls, address: str) -> "MilvusStore":
        """Open a collection that `build` or `create` made."""
        calls = MilvusCalls(MilvusAddress.parse(address))
        found = calls.existing()
        kind = found.properties.get("normalize", "none")
        if kind == "standardize":
            raise InvalidInputError(
                f"the store {calls.address} standardizes features by numbers that are in its folder: open the folder"
            )
        return cls(
            calls,
            identity=str(found.identity),
            n_columns=found.n_columns,
            index=chosen_index(found.properties.get("index", "flat"), 0, 1),
            n_built=int(found.properties.get("rows", "0")),
            normalization=Normalization(kind, np.empty(0), np.empty(0)),  # type: ignore[arg-type]
        )

    @classmethod
    def load(cls, path: str | Path) -> "MilvusStore":
        """Open the collection that a folder refers to, after checking that it is still the same one."""
        return cls.from_part(open_folder(path, kind=KIND))

    @classmethod
    def drop(cls, address: str) -> None:
        """Remove a collection with all its rows, for every process that shares it."""
        calls = MilvusCalls(MilvusAddress.parse(address))
        calls.existing()
        calls.drop()

    @property
    def where(self) -> str:
        """Its address."""
        return str(self._calls.address)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return self._n_columns

    @property
    def normalization(self) -> Normalization:
        """What happens to features before they are compared."""
        return self._normalization

    def __len__(self) -> int:
        """Number of rows; what other processes change is counted after 5 seconds at the latest."""
        now = time.monotonic()
        if self._count is None or now - self._count[0] > _COUNT_SECONDS:
            self._count = (now, self._calls.count())
        return self._count[1]

    def search(self, features: object, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest examples of each row, sorted by (distance, id), padded with id -1."""
        check_positive(n_neighbors, "n_neighbors")
        queries = self.normalized(features)
        check_range(queries)
        return nearest(self._calls, queries, int(n_neighbors), index=self._index, n_built=self._n_built)

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text of each id, None where none was stored or the id is gone; one query for all."""
        wanted = id_vector(ids, "ids").tolist()
        found = self._calls.fetch(known_ids(wanted), ["has_text", "text"])
        return [found[number]["text"] if number in found and found[number]["has_text"] else None for number in wanted]

    def vectors_of(self, ids: Sequence[int] | IntArray) -> FloatArray:
        """Return the vectors (n, d) of ids as they are searched, NaN where an id is gone."""
        wanted = id_vector(ids, "ids").tolist()
        found = self._calls.fetch(known_ids(wanted), ["vector"])
        vectors = np.full((len(wanted), self._n_columns), np.nan, dtype=np.float32)
        for position, number in enumerate(wanted):
            if number in found:
                vectors[position] = found[number]["vector"]
        return vectors

    def normalized(self, features: object) -> FloatArray:
        """Return `features` (n, d) as this store compares them."""
        return self._normalization.of(features, self._n_columns)

    def add(
        self, features: object, labels: object, *, texts: Sequence[str] | None = None, ids: object = None
    ) -> IntArray:
        """Store more examples and return their ids, drawn unless given; the same `ids` again replace the same rows.

        Milvus has them on disk when this returns. Where it raises `StoreUnreachableError`, some may be stored: the same
        call repeated on this object writes the same ids, so that none is stored twice. Where Milvus refuses the rows,
        none is stored.
        """
        vectors = self.normalized(features)
        check_range(vectors)
        rows = StoredRows(
            ids=np.empty(0, dtype=np.int64) if ids is None else given_ids(ids, len(vectors)),
            vectors=vectors,
            labels=label_vector(labels, "labels", length=len(vectors)),
            texts=checked_texts(texts, len(vectors)),
        )
        if ids is None:
            rows = replace(rows, ids=self._free_ids(rows))
        try:
            for _ in self._write(rows):
                pass
        except StoreUnreachableError:
            self._unsure[digest_of(rows)] = rows.ids
            raise
        except StorageError:
            if ids is None:
                self._calls.delete(rows.ids.tolist(), "some of the rows may be stored")
            raise
        self._unsure.pop(digest_of(rows), None)
        self._counted(len(vectors) if ids is None else None)
        return rows.ids

    def remove(self, ids: object) -> None:
        """Remove examples by id; if an id is unknown, nothing is removed."""
        wanted = np.unique(id_vector(ids, "ids"))
        stored = self._calls.fetch(known_ids(wanted.tolist()), [], strong=True)
        unknown = [number for number in wanted.tolist() if number not in stored]
        if unknown:
            raise InvalidInputError(f"id {unknown[0]} is not stored (never added, or removed): nothing was removed")
        for start in range(0, len(wanted), CHUNK_ROWS):
            part = wanted[start : start + CHUNK_ROWS].tolist()
            self._calls.delete(part, f"some of the {len(wanted)} examples may have been removed")
        self._counted(-len(wanted))

    def write_rows(self, rows: StoredRows) -> None:
        """Write rows by their ids into a store made by `create`; written again, they are the same rows."""
        checked_texts(rows.texts, len(rows.ids))
        check_ids(rows.ids)
        for _ in self._write(rows):
            pass

    def finish(self, n_rows: int, progress: Progress | None = None) -> None:
        """Wait until all rows are on disk, indexed and loaded."""
        patient = MilvusCalls(self._calls.address.patient())
        patient.finish(lambda done: None if progress is None else progress("index", done, n_rows), n_rows)
        self._counted(None)

    def check_reachable(self) -> None:
        """Raise `StoreUnreachableError` unless Milvus finds the collection now."""
        self._calls.count()

    def patient(self) -> "MilvusStore":
        """Return the same store for batch work: its searches wait two minutes for a server that is slow or restarts."""
        found = copy(self)
        found._calls = MilvusCalls(self._calls.address.patient(), wait=True)
        return found

    def facts(self) -> dict[str, Any]:
        """Return what a person may want to know of a store that is elsewhere."""
        address = self._calls.address
        return {"search": self._index, "consistency": address.consistency, "timeout": address.timeout}

    def rows(self) -> Iterator[StoredRows]:
        """Yield all rows by rising id, in chunks."""
        fields = ["id", "label", "has_text", "text", "vector"]
        last = -1
        while found := self._calls.query(f"id > {last}", fields, limit=CHUNK_ROWS // 4, strong=True):
            rows = rows_from(found, self._n_columns)
            last = int(rows.ids[-1])
            yield rows

    def save(self, path: str | Path) -> None:
        """Write a reference to the collection, without secrets, into the folder `path`; copies share the rows."""
        write_folder(path, self.to_part())

    def to_part(self) -> Part:
        """Return a reference to the collection."""
        address = self._calls.address
        state = _State(
            host=address.host,
            port=address.port,
            collection=address.collection,
            consistency=address.consistency,
            timeout=address.timeout,
            tls=address.tls,
            collection_identity=self._identity,
            n_columns=self._n_columns,
            index=self._index,
            n_built=self._n_built,
            normalize=self._normalization.kind,
        )
        return Part(kind=KIND, state=to_plain(state), arrays=self._normalization.to_arrays())

    def detached(self) -> "MilvusStore":
        """Return the store itself: it lives on a server, and cannot be copied for a moment."""
        return self

    def _write(self, rows: StoredRows) -> Iterator[int]:
        """Write the rows in chunks and yield how many are acknowledged."""
        done = 0
        for chunk in chunks_of(rows):
            stored = f"{done} of the {len(rows.ids)} rows are stored, of the next {len(chunk)} some may be"
            self._calls.upsert(chunk, stored)
            done += len(chunk)
            yield done

    def _free_ids(self, rows: StoredRows) -> IntArray:
        """Return the ids of an unfinished write of the same rows, or else new ones that nobody has."""
        ids = self._unsure.get(digest_of(rows))
        if ids is None:
            ids = drawn_ids(len(rows.vectors))
            if self._calls.fetch(ids.tolist(), [], strong=True):
                raise StorageError(f"ids drawn for {self.where} are taken already; nothing was changed: try again")
        return ids

    def _counted(self, change: int | None) -> None:
        """Correct the number of rows by our own change, or forget it."""
        count = self._count
        self._count = None if count is None or change is None else (count[0], count[1] + change)

    @classmethod
    def from_part(cls, part: Part) -> "MilvusStore":
        """Open what `to_part` described."""
        with as_written(part.where, "reference to a store"):
            state = from_plain(_State, part.state)
            names = ("host", "port", "collection", "consistency", "timeout", "tls")
            address = MilvusAddress(**{name: getattr(state, name) for name in names})
            store = cls(
                MilvusCalls(address),
                identity=state.collection_identity,
                n_columns=state.n_columns,
                index=chosen_index(state.index, 0, 1),
                n_built=state.n_built,
                normalization=Normalization.from_arrays(state.normalize, dict(part.arrays), state.n_columns),
            )
        found = store._calls.existing()
        if (found.identity, found.n_columns) != (state.collection_identity, state.n_columns):
            raise StorageError(
                f"the store {address} is not the one that {part.where} was fitted with (another identity or number of "
                "columns): restore the collection, or refit"
            )
        return store
