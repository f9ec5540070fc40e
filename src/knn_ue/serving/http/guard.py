"""Before a request reaches the app: is it for us, may it, is it small enough? And after: headers, log, metrics."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knn_ue.serving.logs import log
from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import FACTS, ProblemError, busy, note
from knn_ue.serving.work.metrics import Metrics

# What a load balancer asks, and the page itself, which holds no data, need no token.
_OPEN = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
_OPEN_FOLDER = "/page/"
# Asked often, by machines, and never slow: neither counted against the limit of open requests nor logged.
_PROBES = frozenset({"/health", "/ready", "/metrics"})
_SEND_SECONDS = 60.0
_BODIES_AT_ONCE = 32  # of the largest size allowed; smaller ones may be more
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_STOPPED = busy("stopping", "the server was stopped before this ended; a change may have been made, or not")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class RequestGuard:
    """ASGI middleware around the whole app."""

    def __init__(
        self, app: ASGIApp, *, options: ServeOptions, metrics: Metrics, is_crowded: Callable[[], bool]
    ) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._is_crowded = is_crowded
        self._bodies = BodyReader(options)
        self._n_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Watched(scope, send)
        counted = scope["path"] not in _PROBES
        self._n_open += counted
        try:
            self._check(scope, counted)
            async with self._bodies.read(scope, receive) as replayed:
                await self._app(scope, replayed, request.send)
        except ProblemError as problem:
            note(scope, code=problem.code)
            await problem.response()(scope, receive, request.send)
        except ClientGoneError:
            self._metrics.cancelled.inc()
        except asyncio.CancelledError:  # of the server, which stops and has waited long enough
            if not request.status:
                note(scope, code=_STOPPED.code)
                await _STOPPED.response()(scope, receive, request.send)
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            # Of any kind: a tokenizer that panics ends its request, and not the server.
            log("failed", level=logging.ERROR, error=error, request=request.id)
            if not request.status:
                sentence = f"the server failed at this request; its log says more under {request.id}"
                await ProblemError(500, "internal", sentence).response()(scope, receive, request.send)
        finally:
            self._n_open -= counted
            self._tell(request, scope)

    def _check(self, scope: Scope, counted: bool) -> None:
        headers, options = Headers(scope=scope), self._options
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if not options.answers_to(name):
            raise ProblemError(
                403, "wrong_host", "this server does not answer to that host name: start it with --allow-host NAME"
            )
        origin = headers.get("origin")
        foreign = origin is not None and _host_of(origin) != host and origin not in options.cors_origins
        if foreign and scope["method"] not in _SAFE_METHODS:
            raise ProblemError(
                403, "wrong_origin", "a page of another site may not ask this server: start it with --cors"
            )
        if options.token is not None and not _is_open(scope["path"]):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            # In constant time: how long a refusal takes must not tell how much of a guess was right.
            right = hmac.compare_digest(given.encode("utf-8", "replace"), options.token.encode())
            if not right or scheme.lower() != "bearer":
                raise ProblemError(401, "wrong_token", "a valid token is needed: send Authorization: Bearer TOKEN")
        if counted and self._n_open > options.max_open_requests:
            raise busy("too_many_requests", f"{options.max_open_requests} requests are open already")
        if counted and self._is_crowded():
            refused = busy("too_many_connections", "too many connections are open already")
            refused.headers["Connection"] = "close"
            raise refused

    def _tell(self, request: "_Watched", scope: Scope) -> None:
        seconds = perf_counter() - request.begun
        route = scope.get("route")
        path = getattr(route, "path", "other")
        status = request.status or 499  # as others log a client that went away
        self._metrics.requests.labels(request.method, path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        facts = scope.get(FACTS, {})
        if "code" in facts:
            self._metrics.refused.labels(facts["code"]).inc()
        if scope["path"] in _PROBES and status < 400:
            return
        log(
            "request",
            request=request.id,
            method=request.method,
            path=path,
            status=status,
            milliseconds=round(1000 * seconds, 1),
            **facts,
        )


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no address at all
        return None


class ClientGoneError(Exception):
    """Nobody waits for this answer any more."""


class _Watched:
    """A request on its way: its id, and the status it got."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.id = uuid4().hex[:16]
        self.method = scope["method"] if scope["method"] in _METHODS else "other"
        self.status = 0
        self.begun = perf_counter()
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass a message on, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-ID"] = self.id
            headers.setdefault("Cache-Control", "no-store")
        # A client that reads too slowly must not hold its place forever.
        async with asyncio.timeout(_SEND_SECONDS):
            await self._send(message)


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_OPEN_FOLDER)


class BodyReader:
    """Reads bodies; all that are held at one time share a budget, so that many clients cannot fill the memory."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._budget = _BODIES_AT_ONCE * options.max_body_bytes

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive]:
        """Yield what the app receives from: the body in one piece, then whatever the client does."""
        if scope["method"] not in ("POST", "PUT", "PATCH", "DELETE"):
            yield receive
            return
        _check_kind(scope)
        body = bytearray()
        try:
            await self._fill(body, scope, receive)
            yield _replay(bytes(body), receive)
        finally:
            self._budget += len(body)

    async def _fill(self, body: bytearray, scope: Scope, receive: Receive) -> None:
        self._check_size(int(Headers(scope=scope).get("content-length") or 0))
        try:
            async with asyncio.timeout(self._options.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ProblemError(400, "client_gone", "the client went away before its body was complete")
                    part = message.get("body", b"")
                    self._check_size(len(body) + len(part))
                    if len(part) > self._budget:
                        raise busy("too_many_bytes", "too many large requests are being read")
                    body += part
                    self._budget -= len(part)
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            raise ProblemError(
                408, "slow_body", f"a body must arrive within {self._options.body_seconds:g} s: send it faster"
            ) from None

    def _check_size(self, n_bytes: int) -> None:
        if n_bytes > self._options.max_body_bytes:
            raise ProblemError(
                413,
                "body_too_large",
                f"a body may have {self._options.max_body_bytes} bytes, this one has more: send it in parts",
            )


def _check_kind(scope: Scope) -> None:
    # A page of another site may send plain text without asking first; JSON it may not.
    headers = Headers(scope=scope)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise ProblemError(415, "not_json", "a body must be JSON: send Content-Type: application/json")


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replayed() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replayed
