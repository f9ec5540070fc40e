"""How a server behaves: where it listens, what it accepts, how long it waits."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from knn_ue.data.columns import Columns
from knn_ue.errors import InvalidInputError

MOST_ITEMS = 10_000  # whatever the options say: one request must not keep all others waiting
_MIN_TOKEN = 16


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Limits are of one request, but for `max_queue`: the inputs of all clients that may wait for the model at once.

    `batch_items` inputs go through the model together; the first waits at most `batch_wait` seconds for company. A
    request that the model has not begun after `max_wait` seconds is refused, as is one that finds the queue full. A
    body must arrive within `body_seconds`. `drift_window` is how many inputs are compared with the validation rows.
    `ask` names a file of inputs for people to label on the page, with other names of its columns in `ask_columns`;
    without it the last `keep_recent` inputs are kept for that, in memory only.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    read_only: bool = False
    device: str = "auto"
    trust_remote_code: bool = False
    max_items: int = 128
    max_characters: int = 20_000
    max_request_characters: int = 200_000
    max_body_bytes: int = 2_000_000
    max_open_requests: int = 512
    max_queue: int = 1024
    max_wait: float = 30.0
    batch_items: int = 64
    batch_wait: float = 0.002
    body_seconds: float = 10.0
    drain_seconds: float = 30.0
    watch_seconds: float = 1.0
    drift_window: int = 1000
    ask: str | None = None
    ask_columns: Columns | None = None
    keep_recent: int = 0

    def __post_init__(self) -> None:
        for name in ("max_items", "max_characters", "max_request_characters", "max_body_bytes", "batch_items"):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("max_open_requests", "max_queue", "drift_window"):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("max_wait", "body_seconds", "drain_seconds", "watch_seconds", "batch_wait"):
            _check_at_least(name, getattr(self, name), 0)
        if self.max_queue < self.max_items:
            raise InvalidInputError(
                f"max_queue={self.max_queue} must hold one request of max_items={self.max_items}: raise it"
            )
        if self.max_items > MOST_ITEMS:
            raise InvalidInputError(f"max_items must be at most {MOST_ITEMS}, got {self.max_items}")
        if not 0 <= self.keep_recent <= MOST_ITEMS:
            raise InvalidInputError(f"keep_recent must be between 0 and {MOST_ITEMS}, got {self.keep_recent}")
        if not 0 <= self.port <= 65535:
            raise InvalidInputError(f"port must be between 0 and 65535, got {self.port}")
        if self.token is not None:
            _check_token(self.token)
        for origin in self.cors_origins:
            _check_origin(origin)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server.

        >>> [ServeOptions(host=host).is_loopback for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0")]
        [True, True, True, False]
        """
        return _is_loopback(self.host)

    def answers_to(self, name: str) -> bool:
        """Whether a request for the host `name` (without port) is meant for this server.

        On loopback other names are refused: a page of the web could give its own name the address 127.0.0.1, and a
        browser would then let that page read our answers.

        >>> [ServeOptions().answers_to(name) for name in ("localhost", "[::1]", "evil.example")]
        [True, True, False]
        """
        if not self.is_loopback and not self.allowed_hosts:
            return True
        return _is_loopback(name.strip("[]")) or name.lower() in {host.lower() for host in self.allowed_hosts}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_at_least(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not value >= least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value!r}")


def _check_token(token: str) -> None:
    if len(token) < _MIN_TOKEN or not token.isascii() or any(sign.isspace() for sign in token):
        raise InvalidInputError(
            f"a token must be at least {_MIN_TOKEN} ASCII characters without spaces, got {len(token)}: "
            "make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
        raise InvalidInputError(f"a CORS origin must look like https://example.org, got {origin!r}")
