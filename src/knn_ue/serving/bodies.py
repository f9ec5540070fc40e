"""The body of a request, read whole before the app sees it: of a bounded size, within a bounded time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import ProblemError, busy

_BODIES_AT_ONCE = 32  # of the largest size allowed; smaller ones may be more


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
