"""A `knn-ue serve` that starts in a moment, because it is a fork of a process that has loaded everything."""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from serving_process import Server
from torture.processes import kill, start_command

_LOADING = 180.0
_NUMBERS = count()
BROKEN = (OSError, http.client.HTTPException, ValueError)  # what a client sees of a server that dies


class ForkedServer(Server):
    """Serves a folder at a free port; asked as the `Server` of the other tests is."""

    def __init__(self, folder: Path, log: Path, *arguments: object) -> None:
        self.log = log
        self.log.unlink(missing_ok=True)
        self.running = start_command(log, "serve", folder, "--port", 0, "--device", "cpu", *arguments)
        self.port = 0
        self.is_killed = False

    def wait(self) -> "ForkedServer":
        """Return when it answers; raise with its last words where it ended instead."""
        end = time.monotonic() + _LOADING
        while time.monotonic() < end and self.running.is_alive():
            for line in self.lines if self.log.exists() else ():
                if '"listening"' in line:
                    self.port = int(json.loads(line)["address"].rsplit(":", 1)[1])
                    return self
            time.sleep(0.02)
        raise RuntimeError(f"the server does not come up: {self.log.read_text()[-500:]}")

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self.running.pid is not None
        return self.running.pid

    @property
    def lines(self) -> list[str]:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def end(self, sent: signal.Signals = signal.SIGTERM, *, seconds: float = 60) -> int:
        """Send a signal and return the exit code; the log is complete then."""
        self.is_killed = True
        if self.running.is_alive():
            os.kill(self.pid, sent)
        self.running.join(seconds)
        assert self.running.exitcode is not None, f"it runs on after {sent.name}"
        return self.running.exitcode

    def kill(self) -> int | None:
        """End it as a crash would."""
        self.is_killed = True
        return kill(self.running)

    def memory(self) -> int:
        """Return the bytes of memory it has now."""
        lines = Path(f"/proc/{self.running.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def ask_or_break(
        self, method: str, path: str, body: Any = None, *, timeout: float = 60, **headers: str
    ) -> tuple[int, Any] | None:
        """Return status and answer; None where the connection broke because the server was killed."""
        try:
            return self.ask(method, path, body, timeout=timeout, **headers)
        except BROKEN:
            if self.is_killed:  # whether it lives is asked in one thread only: it hears of its end once
                return None
            raise


@contextmanager
def forked_servers(folder: Path, work: Path, n_servers: int, *arguments: object) -> Iterator[list[ForkedServer]]:
    """Serve a folder `n_servers` times while the block runs; the list may be changed, what is in it at the end ends."""
    servers = [ForkedServer(folder, work / f"server{number}.log", *arguments) for number in range(n_servers)]
    try:
        yield [server.wait() for server in servers]
    finally:
        for server in servers:
            server.kill()


@contextmanager
def serving(folder: Path, *arguments: object) -> Iterator[ForkedServer]:
    """Serve a folder while the block runs; whatever happens, the process ends with it."""
    server = ForkedServer(folder, folder.parent / f"{folder.name}-server{next(_NUMBERS)}.log", *arguments)
    try:
        yield server.wait()
    finally:
        server.kill()
