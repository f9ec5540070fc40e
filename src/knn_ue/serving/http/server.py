"""The process around the app: uvicorn, signals, and connections that begin and never go on."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from knn_ue.errors import KnnUeError, StorageError
from knn_ue.serving.http.app import create_app
from knn_ue.serving.logs import log, start_logging
from knn_ue.serving.options import ServeOptions
from knn_ue.serving.problems import ProblemError
from knn_ue.serving.work.service import Service

_HEAD_SECONDS = 10.0
_IDLE_SECONDS = 15
_FEWEST_CONNECTIONS, _MOST_CONNECTIONS = 64, 4096
_FILES = 128  # for the folder, the log, libraries
_REFUSED_AT_ONCE = 64  # connections beyond the limit that are still told so
_LAST_SECONDS = 5.0  # after those for requests, for what is being written


def serve(path: str | Path, options: ServeOptions, *, on_listening: Callable[[str], None] | None = None) -> None:
    """Serve the UE folder `path` until SIGTERM or Ctrl-C, and then finish what was begun. SIGHUP reads it again.

    `on_listening` is called with the address once requests are answered.
    """
    start_logging()
    listener = _bind(options)
    try:
        app = create_app(path, options)
        config = uvicorn.Config(
            app,
            http=_ImpatientProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=int(options.drain_seconds),
            backlog=1024,
        )
        server = _Server(config, app.state.service, drain_seconds=options.drain_seconds, on_listening=on_listening)
        server.run(sockets=[listener])
    finally:
        listener.close()


def _max_connections() -> int:
    """Return how many connections may be open, so that files can still be opened beside them."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, allowed - _FILES))


def _bind(options: ServeOptions) -> socket.socket:
    """Take the port before the model is loaded: whoever starts a second server learns it at once."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # The protocol by name: only then does asyncio switch off Nagle's waiting, which would add 40 ms to every answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        raise StorageError(
            f"cannot listen on {options.host}:{options.port} ({error.strerror or error}): choose another --port"
        ) from None
    if not options.is_loopback and options.token is None:
        log(
            "open_to_all",
            level=logging.WARNING,
            host=options.host,
            sentence="everyone who reaches this address can ask and change the model: pass --token-file or set "
            "KNN_UE_TOKEN, and use TLS in front of it",
        )
    return listener


class _Server(uvicorn.Server):
    """Ends in time once it is told to stop, and reads the folder again at SIGHUP."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        *,
        drain_seconds: float,
        on_listening: Callable[[str], None] | None,
    ) -> None:
        super().__init__(config)
        self._on_listening = on_listening
        self._service = service
        self._drain_seconds = drain_seconds
        self._last_resort: threading.Timer | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        service.is_crowded = lambda: len(self.server_state.connections) > _max_connections()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        # A full collection would look at everything that torch and the model hold, and nobody is answered meanwhile.
        gc.collect()
        gc.freeze()
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            log("listening", address=address)
            if self._on_listening is not None:
                self._on_listening(address)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: answer what is there, refuse what comes."""
        self._service.draining = True
        if self._last_resort is None:
            # A change may wait for another process, or take minutes: whoever stops us must not.
            self._last_resort = threading.Timer(self._drain_seconds + _LAST_SECONDS, _end_now, (sig,))
            self._last_resort.daemon = True
            self._last_resort.start()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was begun."""
        await super().shutdown(sockets=sockets)
        if self._last_resort is not None and not self.force_exit:
            self._last_resort.cancel()

    def _hang_up(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        with suppress(KnnUeError, OSError, ProblemError):  # the keeper has told why
            _, changed = await self._service.keeper.reload()
            log("reloaded", changed=changed)


def _end_now(sig: int) -> None:
    """End as if killed, which the folder survives; nobody was told that what is under way is done."""
    log("stopped_early", level=logging.ERROR, sentence="what was under way did not end in time and was given up")
    os._exit(128 + sig)


class _ImpatientProtocol(H11Protocol):
    """Closes a connection whose request has begun, or never begins, and whose headers do not arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait; a connection that would take the last files goes at once."""
        super().connection_made(transport)
        if len(self.connections) > _max_connections() + _REFUSED_AT_ONCE:
            transport.abort()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Wait on where the headers are not complete yet."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
