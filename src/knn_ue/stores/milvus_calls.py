"""Calls to a Milvus server: each has a deadline, is tried again, and fails in one sentence."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from knn_ue.errors import InvalidInputError, MissingExtraError, StorageError, StoreUnreachableError, require
from knn_ue.stores.milvus_address import TOKEN, MilvusAddress, MilvusIndex, build_params, chosen_index
from knn_ue.stores.options import IndexOptions

Result = TypeVar("Result")

_OURS = "knn_ue."  # of a collection, in Milvus
_ATTEMPTS = 2
_NOTHING_CHANGED = "nothing was changed"
_STRONG_SECONDS = 10.0
# Milvus allows 16,384 ids or results in one answer, and 64 MB.
_MAX_IDS = 1000
_POLL_SECONDS = 0.2
_WAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class CollectionFacts:
    """What Milvus says of a collection that we made; `identity` is None where we did not."""

    identity: str | None
    n_columns: int
    properties: dict[str, str]


class MilvusCalls:
    """One collection, asked by one client; safe to share between threads."""

    def __init__(self, address: MilvusAddress, *, wait: bool = False) -> None:
        self.address = address
        self._wait = wait
        self._client: Any = None
        self._removed_at: float | None = None

    def read(self, call: Callable[[Any], Result]) -> Result:
        """Return what `call` makes of the client; tried twice within the deadline, or until it has passed."""
        end = time.monotonic() + self.address.timeout
        while True:
            try:
                return self._tried(call, _NOTHING_CHANGED)
            except StoreUnreachableError:
                if not self._wait or time.monotonic() > end:
                    raise
            time.sleep(_WAIT_SECONDS)

    def write(self, call: Callable[[Any], Result], unsure: str) -> Result:
        """Do `call`, twice where the first one fails: it must be one that does no harm when repeated."""
        return self._tried(call, unsure)

    @property
    def seconds(self) -> float:
        """The deadline of one attempt."""
        return self.address.timeout / _ATTEMPTS

    @property
    def consistency(self) -> str:
        """The level to read with, in the words of Milvus."""
        # Milvus 2.3 does not say when a removal happened, so a session could not wait for its own.
        recent = self._removed_at is not None and time.monotonic() - self._removed_at < _STRONG_SECONDS
        return "Strong" if recent or self.address.consistency == "strong" else "Session"

    def describe(self) -> CollectionFacts | None:
        """Return what is known of the collection, None where there is none."""
        name, seconds = self.address.collection, self.seconds
        if not self.read(lambda client: client.has_collection(name, timeout=seconds)):
            return None
        found = self.read(lambda client: client.describe_collection(name, timeout=seconds))
        properties = {
            str(key).removeprefix(_OURS): str(value)
            for key, value in found.get("properties", {}).items()
            if str(key).startswith(_OURS)
        }
        columns = [field["params"].get("dim") for field in found["fields"] if field["name"] == "vector"]
        return CollectionFacts(
            identity=properties.get("identity"),
            n_columns=int(columns[0] or 0) if columns else 0,
            properties=properties,
        )

    def existing(self) -> CollectionFacts:
        """Return what is known of the collection; raise where there is none of ours."""
        found = self.describe()
        if found is None or found.identity is None:
            what = "is missing" if found is None else "was not made by knn-ue"
            raise StorageError(f"the collection {self.address} {what}: restore it, or refit with this store")
        return found

    def create(self, *, n_columns: int, index: MilvusIndex, n_rows: int, properties: dict[str, str]) -> None:
        """Make the collection with its index; nothing is loaded yet."""
        from pymilvus import DataType

        name, seconds = self.address.collection, self.seconds

        def create(client: Any) -> None:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("label", DataType.INT64)
            schema.add_field("has_text", DataType.BOOL)
            schema.add_field("text", DataType.VARCHAR, max_length=65_535)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=n_columns)
            named = {f"{_OURS}{key}": value for key, value in properties.items()}
            # One shard: a batch is one message, and one clock orders all changes.
            client.create_collection(
                name, schema=schema, properties=named, num_shards=1, consistency_level="Session", timeout=seconds
            )
            params = client.prepare_index_params()
            params.add_index("vector", index_type=index.upper(), metric_type="L2", params=build_params(index, n_rows))
            client.create_index(name, params, timeout=seconds)

        self.write(create, f"an empty collection {name} may have been made")

    def finish(self, progress: Callable[[int], None], n_rows: int) -> None:
        """Write everything to Milvus's storage, wait for its index, and load the collection for searches."""
        name, seconds = self.address.collection, self.seconds
        unsure = "the rows are stored, but not indexed or loaded yet"
        self.write(lambda client: client.flush(name, timeout=seconds), unsure)
        while True:
            found = self.read(lambda client: client.describe_index(name, "vector", timeout=seconds))
            pending = int(found.get("pending_index_rows", 0) or 0)
            progress(max(0, n_rows - pending))
            if not pending:
                break
            time.sleep(_POLL_SECONDS)
        self.load(unsure)

    def load(self, unsure: str = _NOTHING_CHANGED) -> None:
        """Return once the collection is loaded into Milvus's memory."""
        name, seconds = self.address.collection, self.seconds
        self.write(lambda client: client.load_collection(name, timeout=seconds), unsure)

    def drop(self) -> None:
        """Remove the collection with all its rows."""
        name, seconds = self.address.collection, self.seconds
        self.write(lambda client: client.drop_collection(name, timeout=seconds), f"{name} may have been removed")

    def upsert(self, rows: Sequence[dict[str, Any]], unsure: str) -> None:
        """Write rows by their ids: written again, they are the same rows."""
        name, seconds, data = self.address.collection, self.seconds, list(rows)
        self.write(lambda client: client.upsert(name, data, timeout=seconds), unsure)

    def delete(self, ids: Sequence[int], unsure: str) -> None:
        """Forget rows by id."""
        name, seconds, wanted = self.address.collection, self.seconds, list(ids)
        self._removed_at = time.monotonic()
        self.write(lambda client: client.delete(name, ids=wanted, timeout=seconds), unsure)

    def fetch(self, ids: Sequence[int], fields: Sequence[str], *, strong: bool = False) -> dict[int, dict[str, Any]]:
        """Return the fields of the rows that are stored, by id; one query for up to 1000 of them."""
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(ids), _MAX_IDS):
            part = [int(number) for number in ids[start : start + _MAX_IDS]]
            for row in self.query(f"id in {part}", ["id", *fields], limit=None, strong=strong):
                found[int(row["id"])] = row
        return found

    def query(
        self, condition: str, fields: Sequence[str], *, limit: int | None, strong: bool = False
    ) -> list[dict[str, Any]]:
        """Return the fields of the rows that meet a condition."""
        name, seconds = self.address.collection, self.seconds
        level = "Strong" if strong else self.consistency
        more = {} if limit is None else {"limit": limit}
        rows = self.read(
            lambda client: client.query(
                name, filter=condition, output_fields=list(fields), consistency_level=level, timeout=seconds, **more
            )
        )
        return [dict(row) for row in rows]

    def count(self) -> int:
        """Return how many rows are stored, as this session or every writer sees it."""
        return int(self.query("", ["count(*)"], limit=None)[0]["count(*)"])

    def search(self, queries: Any, limit: int, params: dict[str, Any]) -> list[Any]:
        """Return the hits of each query, with their labels."""
        name, seconds, level = self.address.collection, self.seconds, self.consistency
        return list(
            self.read(
                lambda client: client.search(
                    name,
                    data=list(queries),
                    limit=limit,
                    anns_field="vector",
                    output_fields=["label"],
                    search_params={"metric_type": "L2", "params": params},
                    consistency_level=level,
                    timeout=seconds,
                )
            )
        )

    def _tried(self, call: Callable[[Any], Result], unsure: str) -> Result:
        for attempt in range(_ATTEMPTS):
            try:
                return call(self._connected())
            except Exception as error:
                if isinstance(error, StorageError | InvalidInputError | MissingExtraError):
                    raise
                if attempt == _ATTEMPTS - 1 or not _may_pass(error):
                    raise self._sentence(error, unsure) from None
        raise AssertionError("the last attempt returns or raises")

    def _connected(self) -> Any:
        if self._client is None:
            require("pymilvus", extra="milvus", purpose=f"a store at {self.address}")
            from pymilvus import MilvusClient

            logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs tracebacks; our sentence says it all
            token = os.environ.get(TOKEN, "")
            self._client = MilvusClient(uri=self.address.uri, token=token, timeout=self.seconds)
        return self._client

    def _sentence(self, error: Exception, unsure: str) -> Exception:
        reason = _reason(error)
        if any(word in reason.lower() for word in ("unauthenticated", "auth check failure", "permission")):
            return StorageError(
                f"Milvus at {self.address.server} refuses this user ({reason}): put user:password into ${TOKEN}"
            )
        if not _may_pass(error):
            return StorageError(f"Milvus at {self.address.server} refuses this ({reason}); {unsure}")
        return StoreUnreachableError(
            f"the store {self.address} does not answer ({reason}, deadline {self.address.timeout:g} s); {unsure}: "
            "check that Milvus is running, then try again"
        )


def check_address(address: str, index: str | IndexOptions) -> None:
    """Raise unless a store can be built at `address`: the server answers and the name is free."""
    chosen_index(index, 0, 1)
    calls = MilvusCalls(MilvusAddress.parse(address))
    if calls.describe() is not None:
        raise InvalidInputError(
            f"the collection {calls.address} already exists, and other folders may share it: choose another name, or "
            f"remove it with MilvusStore.drop({str(calls.address)!r})"
        )


# What Milvus says about a call that it would refuse tomorrow too.
_FINAL = (
    "invalid parameter",
    "collection not found",
    "can't find collection",
    "wrong type",
    "unsupported",
    "should be less than",
    "exceeds the limit",
)


def _may_pass(error: Exception) -> bool:
    """Say whether the same call may work later: all but what the server calls wrong."""
    return not any(word in str(error).lower() for word in _FINAL)


def _reason(error: Exception) -> str:
    """Return the first words of an error of the client, without its tables and addresses."""
    ask = getattr(error, "code", None)
    code = ask() if callable(ask) else None
    text = getattr(code, "name", None) or getattr(error, "message", None) or str(error) or type(error).__name__
    line = str(text).strip().splitlines()[0] if str(text).strip() else type(error).__name__
    known = {
        "DEADLINE_EXCEEDED": "no answer in time",
        "UNAVAILABLE": "no connection",
        "Fail connecting": "no connection",
        "UNAUTHENTICATED": "unauthenticated",
    }
    return next((words for sign, words in known.items() if sign in str(error) or sign in line), line[:160])
