"""Real processes that start at once: forks of one that has loaded everything, so that a kill costs milliseconds."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torture.preload"])


def start(function: Callable[..., object], *arguments: object) -> BaseProcess:
    """Run a function of a module in a process of its own; it ends with ours."""
    process = _FORKS.Process(target=function, args=arguments, daemon=True)
    with _tests_on_path():
        process.start()
    return process


@contextmanager
def _tests_on_path() -> Iterator[None]:
    """Let the process that others are forked from find what it loads; of our own path it knows nothing."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_TESTS, before)))
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def start_command(log: Path, *arguments: object) -> BaseProcess:
    """Run `knn-ue` with these arguments; what it prints goes to the file `log`."""
    return start(run_command, log, [str(argument) for argument in arguments])


def run_command(log: Path, arguments: list[str]) -> None:
    """Be `knn-ue`: the exit code is that of the command."""
    print_to(log)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from knn_ue.cli import app

    sys.argv = ["knn-ue", *arguments]
    app(arguments)


def print_to(log: Path) -> None:
    """Let what this process prints go to a file."""
    place = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(place, 1)
    os.dup2(place, 2)


def kill(process: BaseProcess) -> int | None:
    """End a process as a crash would, and return how it ended: -9 unless it was quicker."""
    process.kill()
    process.join()
    return process.exitcode


def wait(process: BaseProcess, seconds: float) -> int | None:
    """Return the exit code, or None where the process has not ended in time."""
    process.join(max(0.0, seconds))
    return process.exitcode


def sleep_until_or_ended(process: BaseProcess, seconds: float) -> None:
    """Wait for a time, or less where the process ends."""
    end = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < end:
        time.sleep(min(0.005, max(0.0, end - time.monotonic())))
