"""Where a collection on Milvus is and how it is asked: "milvus://host:19530/name?consistency=strong&timeout=20"."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from knn_ue.errors import InvalidInputError
from knn_ue.stores.options import IndexOptions, index_options

SCHEME = "milvus"
TOKEN = "KNN_UE_STORE_TOKEN"  # the environment variable with "user:password" or an API key; never written to disk
Consistency = Literal["session", "strong"]
MilvusIndex = Literal["flat", "hnsw", "ivf_sq8"]
_PORT = 19530
_EXAMPLE = f"{SCHEME}://host:{_PORT}/name"
_SECONDS = 10.0
_OPTIONS = ("consistency", "timeout", "tls")


@dataclass(frozen=True, kw_only=True)
class MilvusAddress:
    """A collection on a server. `timeout` is the deadline of a call, in seconds."""

    host: str
    port: int
    collection: str
    consistency: Consistency = "session"
    timeout: float = _SECONDS
    tls: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", self.collection):
            raise InvalidInputError(
                f"a Milvus collection is named with letters, digits and _, got {self.collection!r}: write {_EXAMPLE}"
            )
        if self.consistency not in get_args(Consistency):
            raise InvalidInputError(
                f"consistency must be {' or '.join(get_args(Consistency))}, got {self.consistency!r}: "
                f"write {_EXAMPLE}?consistency=strong"
            )
        if not 0.1 <= self.timeout <= 3600:
            raise InvalidInputError(f"timeout must be 0.1 to 3600 seconds, got {self.timeout}")

    @classmethod
    def parse(cls, text: str) -> "MilvusAddress":
        """Read an address; one with a user or password is refused, because it would be written to disk.

        >>> print(MilvusAddress.parse("milvus://127.0.0.1:19530/films?consistency=strong"))
        milvus://127.0.0.1:19530/films
        """
        try:
            parts = urlsplit(text)
            port, options = parts.port or _PORT, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        except ValueError:
            raise InvalidInputError(f"{text!r} is not an address: write {_EXAMPLE}") from None
        if parts.username or parts.password:
            raise InvalidInputError(f"an address must hold no user or password: put user:password into ${TOKEN}")
        unknown = [name for name in options if name not in _OPTIONS]
        if parts.scheme != SCHEME or not parts.hostname or parts.fragment or unknown:
            hint = f" ({', '.join(unknown)} is not one of {', '.join(_OPTIONS)})" if unknown else ""
            raise InvalidInputError(f"{text!r} is not an address of a store{hint}: write {_EXAMPLE}")
        try:
            timeout = float(options.get("timeout", _SECONDS))
        except ValueError:
            raise InvalidInputError(f"timeout must be a number of seconds, got {options['timeout']!r}") from None
        return cls(
            host=parts.hostname,
            port=port,
            collection=parts.path.strip("/"),
            consistency=options.get("consistency", "session"),  # type: ignore[arg-type]  # checked by the record
            timeout=timeout,
            tls=options.get("tls", "false") == "true",
        )

    @property
    def uri(self) -> str:
        """What the client of Milvus connects to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def server(self) -> str:
        """The server, for sentences."""
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{SCHEME}://{self.server}/{self.collection}"

    def patient(self) -> "MilvusAddress":
        """Return the same place with the deadline of bulk work, which the server slows down when it is busy."""
        return replace(self, timeout=max(120.0, self.timeout))


def chosen_index(index: str | IndexOptions, n_rows: int, n_columns: int) -> MilvusIndex:
    """Turn "auto", "exact" or the name of an index of Milvus into that name.

    "auto" is exact (flat) up to 2**26 stored values, as `index_options` has it, and hnsw beyond.

    >>> chosen_index("auto", 7_000, 384), chosen_index("auto", 392_702, 768)
    ('flat', 'hnsw')
    """
    if index == "auto":
        exact = index_options("auto", n_rows, n_columns).factory == "Flat"
        return "flat" if exact else "hnsw"
    if index == "exact":
        return "flat"
    for name in get_args(MilvusIndex):
        if index == name:
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
