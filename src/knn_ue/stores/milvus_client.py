"""A collection on a Milvus server: its address, whether it gets the token, and calls that fail in one sentence."""

import ipaddress
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from knn_ue.errors import InvalidInputError, KnnUeError, StorageError, StoreUnreachableError, require
from knn_ue.stores.options import IndexOptions, index_options

SCHEME = "milvus"
TOKEN = "KNN_UE_STORE_TOKEN"  # the environment variable with "user:password" or an API key; never written to disk
SERVER = "KNN_UE_STORE_SERVER"  # the one with the host:port that the token is for
PLAINTEXT = "KNN_UE_STORE_PLAINTEXT"  # 1 lets the token travel without TLS
Consistency = Literal["session", "strong"]
MilvusIndex = Literal["flat", "hnsw", "ivf_sq8"]
_PORT = 19530
_EXAMPLE = f"{SCHEME}://host:{_PORT}/name"
_SECONDS = 10.0
_PATIENT_SECONDS = 120.0
_WAIT_SECONDS = 1.0
_STRONG_SECONDS = 10.0
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_NOTHING_CHANGED = "nothing was changed"
_MAX_IDS = 1000  # Milvus allows 16,384 ids or results in one answer, and 64 MB
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
_named: set[str] = set()  # servers that the user of this process named
_REFUSED = ("unauthenticated", "auth check failure", "permission")


@dataclass(frozen=True, kw_only=True)
class MilvusAddress:
    """A collection on a server. `timeout` is the deadline of a call in seconds.

    >>> print(MilvusAddress.parse("milvus://127.0.0.1:19530/films?consistency=strong"))
    milvus://127.0.0.1:19530/films
    """

    host: str
    port: int
    collection: str
    consistency: Consistency = "session"
    timeout: float = _SECONDS
    tls: bool = False

    @classmethod
    def parse(cls, text: str, *, named: bool = True) -> "MilvusAddress":
        """Read an address, `named` by the user or only by a folder.

        One with a user or password is refused, because it would be written to disk.
        """
        try:
            parts = urlsplit(text)
            port, options = parts.port or _PORT, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            timeout = float(options.pop("timeout", _SECONDS))
        except ValueError:
            raise InvalidInputError(f"{text!r} is not an address: write {_EXAMPLE}?timeout=20") from None
        consistency, tls = options.pop("consistency", "session"), options.pop("tls", "false")
        if parts.username or parts.password:
            raise InvalidInputError(f"an address must hold no user or password: put user:password into ${TOKEN}")
        wrong = {
            "it names no server": parts.scheme != SCHEME or not parts.hostname,
            "a collection is named with letters, digits and _": not _COLLECTION.fullmatch(parts.path.strip("/")),
            "its options are consistency, timeout and tls": bool(parts.fragment or options),
            "consistency is session or strong": consistency not in get_args(Consistency),
            "timeout is 0.1 to 3600 seconds": not 0.1 <= timeout <= 3600,
            "tls is true or false": tls not in ("true", "false"),
        }
        if any(wrong.values()):
            rule = next(rule for rule, broken in wrong.items() if broken)
            raise InvalidInputError(
                f"{text!r} is not an address of a store ({rule}): write {_EXAMPLE}?consistency=strong&timeout=20"
            )
        address = cls(
            host=parts.hostname or "",
            port=port,
            collection=parts.path.strip("/"),
            consistency=consistency,  # type: ignore[arg-type]  # checked above
            timeout=timeout,
            tls=tls == "true",
        )
        if named:
            _named.add(address.server)
        return address

    @property
    def server(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def in_full(self) -> str:
        """What `parse` reads as this address, options included."""
        return f"{self}?consistency={self.consistency}&timeout={self.timeout:g}&tls={str(self.tls).lower()}"

    def __str__(self) -> str:
        return f"{SCHEME}://{self.server}/{self.collection}"

    def token(self) -> str:
        """Return the user's token where the user named this server, by argument or variable; else there is none."""
        token = os.environ.get(TOKEN, "")
        if not token or self.server not in {*_named, os.environ.get(SERVER, "").lower()}:
            return ""
        if not self.tls and not _is_loopback(self.host) and os.environ.get(PLAINTEXT) != "1":
            raise InvalidInputError(
                f"${TOKEN} would travel to {self.server} for everyone on the network to read: add ?tls=true to the "
                f"address, or set {PLAINTEXT}=1 where the network is yours"
            )
        return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class MilvusCollection:
    """One collection, asked by one client; safe to share between threads. A `patient` one waits for a server."""

    def __init__(self, address: MilvusAddress, *, patient: bool = False) -> None:
        self.address = replace(address, timeout=max(_PATIENT_SECONDS, address.timeout)) if patient else address
        self._is_patient = patient
        self._client: Any = None
        self._removed_at = -_STRONG_SECONDS

    def patient(self) -> "MilvusCollection":
        """Return the same collection with the deadline of bulk work, asked again where the server is not ready yet."""
        return MilvusCollection(self.address, patient=True)

    def call(self, method: str, *, unsure: str = _NOTHING_CHANGED, **options: Any) -> Any:
        """Call a method of the client, which tries again itself; `unsure` says what a call that failed may have done.

        It must do no harm when repeated.
        """
        end = time.monotonic() + self.address.timeout
        while True:
            try:
                client = self._connected()
                return getattr(client, method)(self.address.collection, timeout=self.address.timeout, **options)
            except KnnUeError:
                raise
            except Exception as error:
                if not self._is_patient or time.monotonic() > end or _is_final(error):
                    raise self._sentence(error, unsure) from None
            time.sleep(_WAIT_SECONDS)

    def existing(self) -> tuple[dict[str, str], int]:
        """Return our properties of the collection and its number of columns; raise where it is none of ours."""
        said = self.call("describe_collection") if self.call("has_collection") else None
        known = {} if said is None else {str(key): str(value) for key, value in said.get("properties", {}).items()}
        ours = {key.removeprefix("knn_ue."): value for key, value in known.items() if key.startswith("knn_ue.")}
        if said is None or "identity" not in ours:
            what = "is missing" if said is None else "was not made by knn-ue"
            raise StorageError(f"the collection {self.address} {what}: restore it, or refit with this store")
        (n_columns,) = [int(field["params"]["dim"]) for field in said["fields"] if field["name"] == "vector"]
        return ours, n_columns

    def create(self, n_columns: int, index: str, params: dict[str, Any], properties: dict[str, str]) -> None:
        """Make the collection with its index; nothing is loaded yet."""
        require("pymilvus", extra="milvus", purpose=f"a store at {self.address}")
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("label", DataType.INT64)
        schema.add_field("has_text", DataType.BOOL)
        schema.add_field("text", DataType.VARCHAR, max_length=65_535)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=n_columns)
        unsure = f"an empty collection {self.address.collection} may have been made"
        named = {f"knn_ue.{key}": value for key, value in properties.items()}
        # One shard: a batch is one message, and one clock orders all changes.
        level = "Session"
        self.call(
            "create_collection", schema=schema, properties=named, num_shards=1, consistency_level=level, unsure=unsure
        )
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index("vector", index_type=index.upper(), metric_type="L2", params=params)
        self.call("create_index", index_params=indexes, unsure=unsure)

    def fetch(self, ids: Sequence[int], fields: Sequence[str], *, strong: bool = False) -> dict[int, dict[str, Any]]:
        """Return the fields of the rows that are stored, by id; one query for up to 1000 of them."""
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(ids), _MAX_IDS):
            condition = f"id in {list(ids[start : start + _MAX_IDS])}"
            found |= {int(row["id"]): row for row in self.query(condition, ["id", *fields], strong=strong)}
        return found

    def query(self, condition: str, fields: Sequence[str], *, strong: bool = False, **more: Any) -> list[Any]:
        """Return the fields of the rows that meet a condition."""
        level = "Strong" if strong else self.consistency
        return list(self.call("query", filter=condition, output_fields=list(fields), consistency_level=level, **more))

    def delete(self, ids: list[int], unsure: str) -> None:
        """Forget rows by id."""
        self._removed_at = time.monotonic()
        self.call("delete", ids=ids, unsure=unsure)

    @property
    def consistency(self) -> str:
        """The level to read with, in the words of Milvus."""
        # Milvus 2.3 does not say when a removal happened, so a session could not wait for its own.
        recent = time.monotonic() - self._removed_at < _STRONG_SECONDS
        return "Strong" if recent or self.address.consistency == "strong" else "Session"

    def _connected(self) -> Any:
        if self._client is None:
            require("pymilvus", extra="milvus", purpose=f"a store at {self.address}")
            from pymilvus import MilvusClient

            logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs tracebacks; our sentence says it all
            uri = f"{'https' if self.address.tls else 'http'}://{self.address.server}"
            self._client = MilvusClient(uri=uri, token=self.address.token(), timeout=self.address.timeout)
        return self._client

    def _sentence(self, error: Exception, unsure: str) -> Exception:
        reason, server = _reason(error), self.address.server
        if any(word in reason.lower() for word in _REFUSED):
            return StorageError(
                f"Milvus at {server} refuses this user ({reason}): put user:password into {TOKEN} and, for a folder "
                f"that you trust, {server} into {SERVER}"
            )
        if _is_final(error):
            return StorageError(f"Milvus at {server} refuses this ({reason}); {unsure}")
        return StoreUnreachableError(
            f"the store {self.address} does not answer ({reason}, deadline {self.address.timeout:g} s); {unsure}: "
            "check that Milvus is running, then try again"
        )


def _is_final(error: Exception) -> bool:
    return any(word in str(error).lower() for word in (*_FINAL, *_REFUSED))


def _reason(error: Exception) -> str:
    """Return the first words of an error of the client, without its tables and addresses."""
    known = {
        "DEADLINE_EXCEEDED": "no answer in time",
        "UNAVAILABLE": "no connection",
        "Fail connecting": "no connection",
        "UNAUTHENTICATED": "unauthenticated",
    }
    said = f"{getattr(error, 'message', '')} {error}".strip() or type(error).__name__
    return next((words for sign, words in known.items() if sign in said), said.splitlines()[0][:160])


def chosen_index(index: str | IndexOptions, n_rows: int, n_columns: int) -> MilvusIndex:
    """Turn "auto", "exact" or the name of an index of Milvus into that name.

    "auto" is exact (flat) up to 2**26 stored values, as `index_options` has it, and hnsw beyond.

    >>> chosen_index("auto", 7_000, 384), chosen_index("auto", 392_702, 768)
    ('flat', 'hnsw')
    """
    if index == "auto":
        return "flat" if index_options("auto", n_rows, n_columns).factory == "Flat" else "hnsw"
    for name in get_args(MilvusIndex):
        if index == name or (index == "exact" and name == "flat"):
            return name  # type: ignore[no-any-return]
    raise InvalidInputError(
        f"a store on Milvus is searched by auto, exact, {', '.join(get_args(MilvusIndex))}, got {str(index)!r}: "
        "choose one of them"
    )


def build_params(index: MilvusIndex, n_rows: int) -> dict[str, Any]:
    """Return what Milvus builds the index with."""
    if index == "hnsw":
        return {"M": 16, "efConstruction": 200}
    return {"nlist": _n_lists(n_rows)} if index == "ivf_sq8" else {}


def search_params(index: MilvusIndex, n_rows: int, limit: int) -> dict[str, Any]:
    """Return how thoroughly Milvus searches the index for `limit` neighbors."""
    if index == "hnsw":
        return {"ef": min(max(256, 2 * limit), 32_768)}
    return {"nprobe": max(16, _n_lists(n_rows) // 16)} if index == "ivf_sq8" else {}


def _n_lists(n_rows: int) -> int:
    return min(max(16, int(4 * n_rows**0.5)), 65_536)
