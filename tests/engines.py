"""Real engines for tests: Milvus in a network namespace of its own, Ray nodes on loopback.

`python tests/engines.py start FOLDER --milvus VENV` starts both and writes FOLDER/env, which names them to the tests:
KNN_UE_TEST_MILVUS (host:port), KNN_UE_TEST_MILVUS_VENV (for tests that kill a server of their own) and KNN_UE_TEST_RAY
(host:port, with the token of this cluster). `python tests/engines.py stop FOLDER` ends what was started, and nothing
else. Each engine is started by itself: where one cannot be, the reason is printed, its tests are skipped, and the tests
of the other run.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

MILVUS, MILVUS_VENV, RAY = "KNN_UE_TEST_MILVUS", "KNN_UE_TEST_MILVUS_VENV", "KNN_UE_TEST_RAY"
MILVUS_OPEN = "KNN_UE_TEST_MILVUS_OPEN"  # set where a server may listen on all interfaces, as in a container of CI
# A busy machine takes longer to start a node than the 30 seconds that Ray allows; commands that start one inherit it.
PATIENT = {"RAY_raylet_start_wait_time_s": "100"}
_START_SECONDS = 300
_PORT, _HEALTH_PORT = 19530, 9091

# Runs inside the server's own environment. The wrapper of the package leaves its server running when it is stopped, so
# this becomes the server: its process id is the one we know. Sessions end soon, so that a server that was killed and
# started again does not wait half a minute for the one before it.
_LAUNCH = """
import json, os, sys
from milvus import MilvusServer, _initialize_data_files
folder, shared, ports = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
config = os.path.join(folder, "configs", "milvus.yaml")
if not os.path.exists(config):  # else it is started again, with the ports it had
    server = MilvusServer(wait_for_started=False)
    server.set_base_dir(folder)
    if ports:
        names = [name for name in server.config.configurable_items if name.endswith("_port")]
        server.config.update(**dict(zip(names, ports[3:])) | {"proxy_port": ports[0], "etcd_port": ports[1]})
    server.config.set("common.session.ttl", 10)
    server.config.resolve()
    with open(config) as file:
        text = file.read()
    if ports:
        urls = {name: f"http://127.0.0.1:{port}" for name, port in (("client", ports[1]), ("peer", ports[2]))}
        etcd = {f"listen-{name}-urls": url for name, url in urls.items()}
        etcd |= {"advertise-client-urls": urls["client"], "initial-advertise-peer-urls": urls["peer"]}
        etcd["initial-cluster"] = "default=" + urls["peer"]
        path = os.path.join(folder, "configs", "etcd.json")
        with open(path, "w") as file:
            json.dump(etcd, file)
        text = text.replace("etcd:\\n", f"etcd:\\n  config:\\n    path: {path}\\n", 1)
    with open(config, "w") as file:
        file.write(text)
_initialize_data_files(shared)
program = os.path.join(shared, "bin", "milvus")
os.chdir(folder)
env = dict(os.environ, DEPLOY_MODE="STANDALONE", METRICS_PORT=sys.argv[4], MILVUS_RUN_DIR=os.path.join(folder, "run"))
os.execve(program, [program, "run", "standalone"], dict(env, LD_LIBRARY_PATH=os.path.dirname(program)))
"""


class Milvus:
    """A server with its data in `folder`; it listens on all interfaces, so it gets a namespace with one of its own.

    Where none can be made (no root, no `ip`, a container without that right) it listens on this machine's interfaces,
    at free ports, but only if KNN_UE_TEST_MILVUS_OPEN is set.
    """

    def __init__(self, venv: Path, folder: Path) -> None:
        self.venv, self.folder = venv.absolute(), folder.absolute()
        self.namespace: str | None = None
        self.host, self.port, self._health_port = "127.0.0.1", _PORT, _HEALTH_PORT
        self._ports: list[int] = []
        self.pid = 0
        self._server: subprocess.Popen[bytes] | None = None

    def open_network(self) -> "Milvus":
        """Make the namespace, and a link to it that only this machine can use; without one, find free ports."""
        number = secrets.randbelow(1 << 14)
        network, last = f"10.213.{number >> 6}", 4 * (number & 63)
        self.namespace = f"knnue{number}"
        inside = ["ip", "-n", self.namespace]
        try:
            for command in (
                ["ip", "netns", "add", self.namespace],
                ["ip", "link", "add", self.namespace, "type", "veth", "peer", "name", "eth0", "netns", self.namespace],
                ["ip", "addr", "add", f"{network}.{last + 1}/30", "dev", self.namespace],
                ["ip", "link", "set", self.namespace, "up"],
                [*inside, "addr", "add", f"{network}.{last + 2}/30", "dev", "eth0"],
                [*inside, "link", "set", "eth0", "up"],
                [*inside, "link", "set", "lo", "up"],
            ):
                subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove_namespace()
            reason = getattr(error, "stderr", b"").decode().strip() or str(error)
            if MILVUS_OPEN not in os.environ:
                raise RuntimeError(
                    f"no network namespace can be made ({reason}), and Milvus listens on all interfaces: run as root, "
                    f"or set {MILVUS_OPEN}=1 where nobody else can reach this machine"
                ) from None
            self._ports = free_ports(18)
            self.port, self._health_port = self._ports[0], self._ports[-1]
        else:
            self.host = f"{network}.{last + 2}"
        return self

    def start(self) -> "Milvus":
        """Start the server on its folder and wait until it is healthy."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]
        command += [str(self.venv / "bin" / "python"), "-c", _LAUNCH, str(self.folder), str(self.venv / "server")]
        command += [json.dumps(self._ports), str(self._health_port)]
        with (self.folder / "server.log").open("ab") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.pid, self._server = server.pid, server
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if server.poll() is not None:
                raise RuntimeError(f"Milvus ended with {server.returncode}: {self._last_words()}")
            with suppress(OSError):
                address = f"http://{self.host}:{self._health_port}/healthz"
                with urllib.request.urlopen(address, timeout=2) as answer:
                    if b"OK" in answer.read():
                        return self
            time.sleep(0.2)
        raise RuntimeError(f"Milvus is not healthy after {_START_SECONDS} s: {self._last_words()}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server itself; after SIGKILL, wait until it is gone."""
        assert self._server is not None
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self._server.wait(30)

    def resume(self) -> None:
        """Let a stopped server go on; one that was stopped for longer than its session lasts ends, and is restarted."""
        assert self._server is not None
        self.send(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self._server.wait(3)
            self.start()

    def stop(self) -> None:
        """End the server and remove its namespace."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGCONT)
            self._server.kill()
            self._server.wait(30)
        self._remove_namespace()

    def _remove_namespace(self) -> None:
        remove_namespace(self.namespace)
        self.namespace = None

    def _last_words(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")[-1500:]

    @property
    def address(self) -> str:
        return f"milvus://{self.host}:{self.port}"


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]


def remove_namespace(name: str | None) -> None:
    if name is not None and shutil.which("ip"):
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def ray_node(host: str, folder: Path, *, head: str | None = None, cpus: int = 1) -> str:
    """Start a Ray node on a loopback address but 127.0.0.1, which Ray takes for the name of another one.

    Return the head's address. Every process of the node has `folder` on its command line; make it with `ray_folder`.
    """
    port = free_ports(1)[0]
    place = ["--head", f"--port={port}", "--include-dashboard=false"] if head is None else [f"--address={head}"]
    command = [Path(sys.executable).with_name("ray"), "start", *place, f"--node-ip-address={host}"]
    command += [
        f"--temp-dir={folder}",
        f"--num-cpus={cpus}",
        "--object-store-memory=100000000",
        "--disable-usage-stats",
    ]
    env = os.environ | PATIENT | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    for attempt in (1, 2, 3):  # on a busy machine the parts of a node give up waiting for each other
        with tempfile.TemporaryFile() as log:  # no pipe: the node's processes would keep it open
            done = subprocess.run(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, timeout=300
            )
            log.seek(0)
            words = log.read().decode()[-2000:]
        if done.returncode == 0:
            return head or f"{host}:{port}"
        raylet = "".join(
            path.read_text("utf-8", "replace")[-1000:] for path in folder.glob("session_latest/logs/raylet.err")
        )
        end_node(folder)
        folder.mkdir()
        sys.stderr.write(f"ray start failed, attempt {attempt}: {words[-200:]} {raylet}\n")
    end_node(folder)
    raise RuntimeError(f"ray start failed: {words}")


def ray_folder() -> Path:
    """Make a folder for a Ray node; its name is short because sockets have short names."""
    return Path(tempfile.mkdtemp(prefix="knnue-ray-"))


def end_node(folder: Path) -> None:
    """End every process of a Ray node and remove its folder."""
    for pid in processes_with(str(folder)):
        end_process(pid)
    shutil.rmtree(folder, ignore_errors=True)


def processes_with(word: str) -> list[int]:
    """Return the processes with `word` on their command line (a folder, for those of a Ray node) or working there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
                works_there = str((entry / "cwd").readlink()) == word
            except OSError:
                continue
            if works_there or (word in line and "engines.py" not in line):
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


class Started:
    """What `start` has started, on disk before it begins, so that `stop` finds it whatever happens."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.json"
        self.facts: dict[str, Any] = {"ray_folders": [], "milvus_folder": None, "namespace": None}
        if self._path.exists():
            self.facts = json.loads(self._path.read_text(encoding="utf-8"))

    def note(self, **facts: Any) -> None:
        self.facts |= facts
        self._path.write_text(json.dumps(self.facts), encoding="utf-8")

    def end_milvus(self) -> None:
        if self.facts["milvus_folder"]:
            for pid in processes_with(self.facts["milvus_folder"]):
                end_process(pid)
        remove_namespace(self.facts["namespace"])
        self.note(milvus_folder=None, namespace=None)

    def end_ray(self) -> None:
        for folder in self.facts["ray_folders"]:
            end_node(Path(folder))
        self.note(ray_folders=[])


def _start_milvus(folder: Path, started: Started, venv: Path) -> dict[str, str]:
    milvus = Milvus(venv, folder / "milvus").open_network()
    started.note(namespace=milvus.namespace, milvus_folder=str(milvus.folder))
    milvus.start()
    return {MILVUS: f"{milvus.host}:{milvus.port}", MILVUS_VENV: str(milvus.venv)}


def _start_ray(folder: Path, started: Started) -> dict[str, str]:
    # A token of its own: Ray takes one it finds in the home folder for the head, but not for a node that joins.
    token = folder / "ray_token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="utf-8")
    access = PATIENT | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token.absolute())}
    os.environ.update(access)
    folders = [ray_folder(), ray_folder()]
    started.note(ray_folders=[str(found) for found in folders])
    address = ray_node("127.0.0.2", folders[0])
    ray_node("127.0.0.3", folders[1], head=address)
    return access | {RAY: address}


def start(folder: Path, venv: Path | None) -> None:
    """Start what can be started, and write the variables for the tests to FOLDER/env."""
    folder.mkdir(parents=True, exist_ok=True)
    started = Started(folder)
    if venv is None:
        sys.stderr.write("Milvus is not started: no environment with its server; its tests are skipped\n")
    else:
        _try("Milvus", folder, lambda: _start_milvus(folder, started, venv), started.end_milvus)
    _try("Ray", folder, lambda: _start_ray(folder, started), started.end_ray)


def _try(name: str, folder: Path, work: Callable[[], dict[str, str]], undo: Callable[[], None]) -> None:
    """Start one engine and write its variables; where it cannot be started, end its processes and print the reason."""
    began = time.monotonic()
    try:
        found = work()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        undo()
        sys.stderr.write(f"{name} could not be started, so its tests are skipped: {error}\n")
        return
    except BaseException:
        undo()
        raise
    with (folder / "env").open("a", encoding="utf-8") as file:
        file.writelines(f"export {key}={value}\n" for key, value in found.items())
    sys.stderr.write(f"{name} is ready after {time.monotonic() - began:.0f} s\n")


def stop(folder: Path) -> None:
    """End what `start` started, and nothing else."""
    if (folder / "state.json").exists():
        started = Started(folder)
        started.end_ray()
        started.end_milvus()
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
