"""A real `knn-ue serve` in a process of its own, and a client that needs nothing but the standard library."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LOADING = 180  # seconds; other sessions may share the machine


class Server:
    """A process that serves a folder at a free port of loopback; its log is read as it comes."""

    def __init__(self, folder: Path, *arguments: object, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-c", "from knn_ue.cli import app; app()", "serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | (env or {}),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if '"listening"' in line:
                self.port = int(json.loads(line)["address"].rsplit(":", 1)[1])
                self._listening.set()
        self._listening.set()

    def wait(self) -> "Server":
        """Return when it answers; raise with its last words where it ended instead."""
        # In small steps: a machine that stops all processes for a while must not count as waiting.
        assert any(self._listening.wait(0.1) for _ in range(10 * _LOADING)), "the server does not come up"
        if not self.port:
            self.process.wait(120)
            raise RuntimeError("".join(self.lines))
        return self

    def ask(self, method: str, path: str, body: Any = None, *, timeout: float = 300, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; an OSError where the connection broke."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            content = None if body is None else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, content, kind | headers)
            answer = connection.getresponse()
            found = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(found) if answer.headers.get_content_type() == "application/json" else found

    def post(self, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        return self.ask("POST", path, body, **options)

    def end(self, sent: signal.Signals = signal.SIGTERM, *, seconds: float = 300) -> int:
        """Send a signal and return the exit code; the log is complete then."""
        if self.process.poll() is None:
            self.process.send_signal(sent)
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code


@contextmanager
def serving(folder: Path, *arguments: object, env: dict[str, str] | None = None) -> Iterator[Server]:
    """Serve a folder while the block runs; whatever happens, the process ends with it."""
    server = Server(folder, *arguments, env=env)
    try:
        yield server.wait()
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(120)
        server._reader.join(10)
        assert server.process.stderr is not None
        server.process.stderr.close()
