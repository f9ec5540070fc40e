"""A Ray cluster, and a pool of workers on it that gives a part to another worker where one dies."""

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from knn_ue.arrays import check_positive
from knn_ue.distributed.manifest import Part
from knn_ue.errors import InvalidInputError, KnnUeError, require

_MAX_DEATHS = 3  # of the workers that had the same part
_START_SECONDS = 300.0


class WorkerLostError(KnnUeError, RuntimeError):
    """Workers of the cluster died again and again, or none could start."""


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Connect to the cluster at `address`, or start one on this machine and end it; yield the number of workers."""
    require("ray", extra="ray", purpose="the engine ray")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if workers is not None:
        check_positive(workers, "workers")
    ours = not ray.is_initialized()
    if ours:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if address is None:
            options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
        else:
            options["address"] = address
        try:
            _init(ray, options)
        except WorkerLostError:
            raise
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InvalidInputError(
                f"no Ray cluster answers at {address or 'this machine'} ({str(error).splitlines()[0][:120]}): start "
                "one with ray start --head, or leave out the address"
            ) from None
    try:
        yield workers or max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
    finally:
        if ours:
            ray.shutdown()


def _init(ray: Any, options: dict[str, Any]) -> None:
    """Start or join a cluster; where a node does not start in the time that Ray allows, try once more."""
    for attempt in (1, 2):
        try:
            ray.init(**options)
            return
        except Exception as error:
            # Ray has no class of its own for it, and 30 seconds that cannot be changed.
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt == 2:
                raise WorkerLostError(
                    "Ray did not start on this machine within 30 s, twice: try again when the machine is less busy, or "
                    "start a cluster with ray start --head and give its address"
                ) from None


def run_parts(
    make_worker: Callable[[], Any], parts: Sequence[Part], n_workers: int, finished: Callable[[Part, Any], None]
) -> None:
    """Give every part to a worker (an actor with `ready` and `run`), and again where that worker dies.

    An error that a part itself raises ends the run: it would raise again.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    waiting = deque(parts)
    busy: dict[Any, tuple[Any, Part | None]] = {}
    deaths: Counter[int] = Counter()

    def start_worker() -> None:
        worker = make_worker()
        busy[worker.ready.remote()] = (worker, None)

    for _ in range(min(n_workers, len(parts))):
        start_worker()
    n_left = len(parts)
    while n_left:
        if not busy:  # every worker was idle when the last parts came back
            start_worker()
        found, _ = ray.wait(list(busy), num_returns=1, timeout=_START_SECONDS)
        if not found:
            if all(part is None for _, part in busy.values()):
                raise WorkerLostError(
                    f"no worker started within {_START_SECONDS:g} s: check that the cluster has free CPUs and that "
                    "knn-ue is installed on its nodes"
                )
            continue
        worker, part = busy.pop(found[0])
        try:
            result = ray.get(found[0])
        except RayTaskError as error:
            raise _ours(error) from None
        except RayError as error:
            number = -1 if part is None else part.number
            deaths[number] += 1
            if deaths[number] > _MAX_DEATHS:
                raise WorkerLostError(
                    f"{deaths[number]} workers died {'at the start' if part is None else f'while at {part.name}'} "
                    f"({str(error).splitlines()[0][:160]}): continue with resume when the cluster is well"
                ) from None
            if part is not None:
                waiting.appendleft(part)
            if waiting:
                start_worker()
            continue
        if part is not None:
            finished(part, result)
            n_left -= 1
        if waiting:
            part = waiting.popleft()
            busy[worker.run.remote(part)] = (worker, part)


def _ours(error: Any) -> BaseException:
    """Return the error that our code raised in a worker, without Ray's traceback."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, KnnUeError) else error
