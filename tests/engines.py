"""Real engines for tests: Milvus in a network namespace of its own, Ray nodes on loopback.

`python tests/engines.py start FOLDER --milvus VENV` starts both and writes FOLDER/env, which names them to the tests:
KNN_UE_TEST_MILVUS (host:port), KNN_UE_TEST_MILVUS_VENV (for tests that kill a server of their own) and KNN_UE_TEST_RAY
(host:port). `python tests/engines.py stop FOLDER` ends them by their own process ids. Without these variables the tests
that need an engine are skipped.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

MILVUS, MILVUS_VENV, RAY = "KNN_UE_TEST_MILVUS", "KNN_UE_TEST_MILVUS_VENV", "KNN_UE_TEST_RAY"
_PORT = 19530
_START_SECONDS = 150

# Runs inside the server's own environment. The wrapper of the package leaves its server running when it is stopped, so
# this becomes the server: its process id is the one we know.
_LAUNCH = """
import os, sys
from milvus import MilvusServer, _initialize_data_files
folder = sys.argv[1]
server = MilvusServer(wait_for_started=False)
server.set_base_dir(folder)
server.config.resolve()
_initialize_data_files(folder)
program = server.get_milvus_executable_path()
os.chdir(folder)
env = dict(os.environ, DEPLOY_MODE="STANDALONE", METRICS_PORT="9091", MILVUS_RUN_DIR=os.path.join(folder, "run"))
os.execve(program, [program, "run", "standalone"], dict(env, LD_LIBRARY_PATH=os.path.dirname(program)))
"""


class Milvus:
    """A server with its data in `folder`; it listens on all interfaces, so it gets a namespace with one of its own."""

    def __init__(self, venv: Path, folder: Path) -> None:
        self.venv, self.folder = venv, folder
        number = secrets.randbelow(1 << 14)
        self.namespace = f"knnue{number}"
        network = f"10.213.{number >> 6}.{4 * (number & 63)}".split(".")
        self.outside, self.host = (".".join([*network[:3], str(int(network[3]) + end)]) for end in (1, 2))
        self.pid = 0
        self._server: subprocess.Popen[bytes] | None = None

    def open_namespace(self) -> None:
        """Make the namespace, and a link to it that only this machine can use."""
        inside = ["ip", "-n", self.namespace]
        for command in (
            ["ip", "netns", "add", self.namespace],
            ["ip", "link", "add", self.namespace, "type", "veth", "peer", "name", "eth0", "netns", self.namespace],
            ["ip", "addr", "add", f"{self.outside}/30", "dev", self.namespace],
            ["ip", "link", "set", self.namespace, "up"],
            [*inside, "addr", "add", f"{self.host}/30", "dev", "eth0"],
            [*inside, "link", "set", "eth0", "up"],
            [*inside, "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def start(self) -> "Milvus":
        """Start the server on its folder and wait until it is healthy."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["ip", "netns", "exec", self.namespace, str(self.venv / "bin" / "python"), "-c", _LAUNCH]
        with (self.folder / "server.log").open("ab") as log:
            server = subprocess.Popen(
                [*command, str(self.folder.absolute())], stdout=log, stderr=log, start_new_session=True
            )
        self.pid, self._server = server.pid, server
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if server.poll() is not None:
                raise RuntimeError(f"Milvus ended with {server.returncode}: see {self.folder / 'server.log'}")
            try:
                with urllib.request.urlopen(f"http://{self.host}:9091/healthz", timeout=2) as answer:
                    if b"OK" in answer.read():
                        return self
            except OSError:
                pass
            time.sleep(0.3)
        raise RuntimeError(f"Milvus is not healthy after {_START_SECONDS} s: see {self.folder / 'server.log'}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server itself; after SIGKILL, wait until it is gone."""
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self._server.wait(30)

    def stop(self) -> None:
        """End the server and remove its namespace."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGCONT)
            self._server.kill()
            self._server.wait(30)
        subprocess.run(["ip", "netns", "del", self.namespace], check=False, capture_output=True)

    @property
    def address(self) -> str:
        return f"milvus://{self.host}:{_PORT}"


def ray_node(host: str, *, head: str | None = None, cpus: int = 1) -> tuple[str, list[int]]:
    """Start a Ray node on a loopback address but 127.0.0.1, which Ray takes for the name of another one.

    Return the head's address and the process ids of this node. Its folder is its own: sockets have short names.
    """
    folder = tempfile.mkdtemp(prefix="knnue-ray-")
    port = 20_000 + secrets.randbelow(10_000)
    place = ["--head", f"--port={port}", "--include-dashboard=false"] if head is None else [f"--address={head}"]
    command = [Path(sys.executable).with_name("ray"), "start", *place, f"--node-ip-address={host}"]
    command += [
        f"--temp-dir={folder}",
        f"--num-cpus={cpus}",
        "--object-store-memory=100000000",
        "--disable-usage-stats",
    ]
    env = os.environ | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with tempfile.TemporaryFile() as log:  # no pipe: the node's processes would keep it open
        done = subprocess.run(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, timeout=120
        )
        log.seek(0)
        if done.returncode:
            for pid in processes_with(folder):
                end_process(pid)
            raise RuntimeError(f"ray start failed: {log.read().decode()[-2000:]}")
    return head or f"{host}:{port}", processes_with(folder)


def processes_with(word: str) -> list[int]:
    """Return the processes that have `word` on their command line: every process of a Ray node has its folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if word in line and "engines.py" not in line:
                found.append(int(entry.name))
    return found


def end_process(pid: int) -> None:
    """End one process that we started, kindly first."""
    for number, seconds in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_gone(pid, seconds):
            return


def wait_gone(pid: int, seconds: float = 10.0) -> bool:
    """Return whether the process is gone, or only waits for its parent, before so many seconds have passed."""
    end = time.monotonic() + seconds
    while True:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def start(folder: Path, venv: Path | None) -> None:
    """Start what can be started, and write the variables for the tests to FOLDER/env."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = {}
    state: dict[str, object] = {"pids": []}
    if venv is not None and os.geteuid() == 0 and shutil.which("ip"):
        milvus = Milvus(venv.absolute(), folder / "milvus")
        milvus.open_namespace()
        state |= {"namespace": milvus.namespace}
        try:
            milvus.start()
        finally:
            state["milvus"] = milvus.pid
        found |= {MILVUS: f"{milvus.host}:{_PORT}", MILVUS_VENV: str(venv.absolute())}
    pids: list[int] = []
    try:
        address, pids = ray_node("127.0.0.2")
        pids += ray_node("127.0.0.3", head=address)[1]
    finally:  # what was started is known to `stop`, whatever fails
        (folder / "state.json").write_text(json.dumps(state | {"pids": pids}), encoding="utf-8")
    found[RAY] = address
    lines = [f"export {name}={value}\n" for name, value in found.items()]
    (folder / "env").write_text("".join(lines), encoding="utf-8")


def stop(folder: Path) -> None:
    """End what `start` started, by its process ids."""
    if not (folder / "state.json").exists():
        return
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    for pid in [*state["pids"], *([state["milvus"]] if "milvus" in state else [])]:
        end_process(pid)
    if "namespace" in state:
        subprocess.run(["ip", "netns", "del", state["namespace"]], check=False, capture_output=True)
    (folder / "state.json").unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["start", "stop"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--milvus", type=Path, help="an environment with milvus==2.3.5, which knn-ue is not in")
    options = parser.parse_args()
    if options.command == "start":
        start(options.folder, options.milvus)
    else:
        stop(options.folder)
