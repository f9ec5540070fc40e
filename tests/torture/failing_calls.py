"""Every system call of a change fails, or ends the process, one after the other, by strace's fault injection.

A change that returns is there; one that fails is not, or its error says that it may be; the process goes on with the
folder as if nothing had happened, keeps no descriptor, and the next change removes what was left behind.
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from torture.processes import print_to, start, wait
from torture.tally import Plan
from torture.victims import TEXT, make_ue

CALLS = (
    "openat", "read", "pread64", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "lseek", "newfstatat",
    "fcntl", "getdents64", "link", "unlink", "unlinkat", "rename", "mkdir", "rmdir", "sendfile", "copy_file_range",
)  # fmt: skip
_WRITING = {"write", "pwrite64", "fsync", "fdatasync", "ftruncate", "link", "unlink", "mkdir", "sendfile", "rename"}
_SECONDS = 60.0
_SHORT = 10.0  # of a run that only shows that the attack works
_MAYBE = "look before you repeat it"


def attack(plan: Plan) -> None:
    """Fail calls in random order until the time is over; every call of every change once where it suffices."""
    if shutil.which("strace") is None:
        plan.tally.note = "skipped: strace is not installed"
        return
    rng = random.Random(plan.seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else plan.folder) as place:
        folder = Path(place)
        methods = ("knn-ue", "dac") if plan.seconds > _SHORT else ("dac",)
        for method in methods:
            assert wait(start(make_ue, folder / method, TEXT, method), 300) == 0
        storm = _Storm(folder, plan)
        cases = []
        for method, change in product(methods, storm.names):
            for call, count in storm.counted(method, change).items():
                hows = ("error=EIO", "error=ENOSPC", "ever", "error=ENOLCK" if call == "fcntl" else "signal=KILL")
                cases += [(method, change, call, number, how) for number, how in product(range(1, count + 1), hows)]
        # First a sample of all that writes; of the rest, which is most, what there is time for.
        cases.sort(key=lambda case: rng.random() - (case[2] in _WRITING))
        for case in cases:
            if plan.tally.tried and plan.left <= 0:
                break
            storm.run(*case)
        plan.tally.note = f"{min(plan.tally.tried, len(cases)):,} of {len(cases):,} cases"
        storm.end()


class _Storm:
    """A process that makes changes, one after the other, while strace makes its calls fail."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        from torture.one_change import CHANGES

        self.names = tuple(CHANGES)
        self._folder = folder
        self._plan = plan
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen()
        self._listener.settimeout(_SECONDS)
        self._expected: dict[tuple[str, str], dict[str, Any]] = {}
        self._process: BaseProcess = start(change_when_told, self._folder)
        self._begin()

    def _begin(self) -> int:
        """Meet a new child; return how the last one ended."""
        self._talk = self._listener.accept()[0]
        self._talk.settimeout(_SECONDS)
        said = _hear(self._talk)
        assert said is not None
        self._child: int = said["pid"]
        return int(said["last"])

    def end(self) -> None:
        """End the process and its child."""
        self._process.kill()
        self._process.join()
        self._talk.close()

    def _ask(self, *words: str) -> dict[str, Any]:
        _say(self._talk, {"words": words})
        said = _hear(self._talk)
        assert said is not None, "the process ended by itself"
        return said

    def counted(self, method: str, change: str) -> Counter[str]:
        """Return how often a change makes each call; remember what it does undisturbed."""
        log = self._folder / "log"
        self._ask("open", method)
        before = self._ask("look")
        strace = self._strace("-o", str(log), "-e", f"trace={','.join(CALLS)}")
        outcome = self._ask("change", change)
        _detach(strace)
        assert outcome["error"] is None, outcome
        after = self._ask("look")
        self._expected[method, change] = {"before": before["content"], "after": after["content"]}
        self._ask("close")
        return Counter(re.findall(r"^(\w+)\(", log.read_text(errors="replace"), re.MULTILINE))

    def run(self, method: str, change: str, call: str, number: int, how: str) -> None:
        """Let one call of one change fail, and check all that was promised."""
        place = f"{method} {change}, {call} {number} {how}"
        self._plan.tally.tried += 1
        self._ask("open", method)
        fault = f"error=EIO:when={number}+" if how == "ever" else f"{how}:when={number}"
        strace = self._strace("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}")
        try:
            _say(self._talk, {"words": ("change", change)})
            outcome = _hear(self._talk)
        except TimeoutError:
            self._plan.tally.blame("crashed", f"{place}: hangs")
            outcome = None
            os.kill(self._child, signal.SIGKILL)
        _detach(strace)
        if outcome is None:
            if (status := self._begin()) != signal.SIGKILL:
                self._plan.tally.blame("crashed", f"{place}: ended with {status}")
            outcome = {"error": "killed", "kind": "killed"}
            self._ask("reopen")
        self._check(method, change, place, outcome)

    def _check(self, method: str, change: str, place: str, outcome: dict[str, Any]) -> None:
        blame, expected = self._plan.tally.blame, self._expected[method, change]
        error = outcome["error"]
        if outcome["kind"] not in ("fine", "ours", "killed"):
            blame("wrong", f"{place}: a bare error: {error}")
        seen = self._ask("look")
        if seen["error"]:
            blame("lost", f"{place}: the folder does not open: {seen['error']}")
            return
        allowed = ("after",) if outcome["kind"] == "fine" else ("before",)
        if outcome["kind"] == "killed" or (error and _MAYBE in error):
            allowed = ("before", "after")
        if seen["content"] not in [expected[name] for name in allowed]:
            other = "after" if seen["content"] == expected["after"] else "else"
            blame("lost" if outcome["kind"] == "fine" else "wrong", f"{place}: holds what was {other}, {error}")
        if fault := self._ask("close")["error"]:
            blame("wrong", f"{place}: {fault} (the change: {error})")

    def _strace(self, *arguments: str) -> "subprocess.Popen[str]":
        strace = subprocess.Popen(["strace", "-p", str(self._child), *arguments], stderr=subprocess.PIPE, text=True)
        assert strace.stderr is not None
        assert "attached" in (said := strace.stderr.readline()), said
        return strace


def _detach(strace: "subprocess.Popen[str]") -> None:
    strace.send_signal(signal.SIGINT)
    assert strace.stderr is not None
    strace.stderr.read()
    strace.stderr.close()
    strace.wait()


def _say(talk: socket.socket, words: dict[str, Any]) -> None:
    talk.sendall(json.dumps(words).encode() + b"\n")  # no `write`, which may be made to fail


def _hear(talk: socket.socket) -> dict[str, Any] | None:
    said = b""
    while not said.endswith(b"\n"):
        try:
            piece = talk.recv(1 << 16)
        except ConnectionError:
            return None
        if not piece:
            return None
        said += piece
    heard: dict[str, Any] = json.loads(said)
    return heard


def change_when_told(folder: Path) -> None:
    """Let children that have loaded everything open, change and look at a folder as the other side says."""
    print_to(Path("/dev/null"))
    maker, status = _Maker(folder), 0
    while True:
        talk = socket.socket(socket.AF_UNIX)
        talk.connect(str(folder / "socket"))
        if child := os.fork():
            talk.close()
            status = os.waitpid(child, 0)[1]
            continue
        _say(talk, {"pid": os.getpid(), "last": status})
        while (asked := _hear(talk)) is not None:
            _say(talk, maker.do(*asked["words"]))
        os._exit(0)


class _Maker:
    def __init__(self, folder: Path) -> None:
        import warnings

        from torture.one_change import CHANGES

        warnings.simplefilter("ignore")
        self._folder, self._path = folder, folder / "warm" / "ue"
        for name in CHANGES:  # all that is loaded late is loaded now
            self._open("dac")
            self._change(name)
            self._look()
        self._path = folder / "work" / "ue"

    def do(self, word: str, *arguments: str) -> dict[str, Any]:
        """Answer one question."""
        from knn_ue.errors import KnnUeError

        said: dict[str, Any] = {"error": None, "kind": "fine"}
        try:
            said |= getattr(self, f"_{word}")(*arguments) or {}
        except KnnUeError as error:
            said |= {"error": str(error)[:300], "kind": "ours"}
        except BaseException as error:
            said |= {"error": repr(error)[:300], "kind": "bare"}
        return said

    def _open(self, method: str) -> None:
        shutil.rmtree(self._path.parent, ignore_errors=True)
        shutil.copytree(self._folder / method, self._path)
        self._reopen()

    def _reopen(self) -> None:
        from knn_ue.pipeline.folder import OpenedFolder

        self._opened = OpenedFolder.open(self._path)
        self._n_descriptors = _n_descriptors()

    def _change(self, name: str) -> None:
        from torture.one_change import CHANGES

        CHANGES[name](self._opened)

    def _look(self) -> dict[str, Any]:
        from torture.one_change import content_in

        return {"content": list(content_in(self._path))}

    def _close(self) -> None:
        """Go on with the folder that was open all the time; then nothing is left behind."""
        from knn_ue.errors import StaleFolderError
        from knn_ue.stores import compact_folder
        from torture.one_change import CHANGES, content_in, content_of

        assert _n_descriptors() <= self._n_descriptors, "a descriptor stays open"
        try:
            CHANGES["add"](self._opened)
        except StaleFolderError:
            self._reopen()  # it was compacted or tuned
            CHANGES["add"](self._opened)
        assert content_in(self._path)[:-2] == content_of(self._opened)[:-2], "memory and disk differ"
        compact_folder(self._path)
        left = sorted(entry.name[:7] for entry in self._path.iterdir())
        assert left in (["changes", "changes", "fitted-"], ["changes", "fitted-"]), left
        copy = self._path.with_name("copy")
        assert not copy.exists() or content_in(copy), "a copy does not open"


def _n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
