"""A Ray cluster, parts of rows for it, and results that come back from it once, whatever dies meanwhile.

Ray itself gives a task to another worker where one dies. Ray Data would do so too, but it may wait forever where all of
its actors died, reads files by other rules than ours, and remembers what is done only by an id column of the input.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from knn_ue.arrays import check_positive
from knn_ue.errors import InvalidInputError, KnnUeError, require
from knn_ue.pipeline import UncertaintyPipeline

Item = TypeVar("Item")
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
        except Exception as error:  # Ray has no class of its own for them
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
    """Start or join a cluster; a busy machine may need more than the 30 seconds that Ray allows, so try twice."""
    try:
        ray.init(**options)
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        ray.shutdown()
        ray.init(**options)


def in_parts(items: Iterable[Item], part_rows: int) -> Iterator[list[Item]]:
    """Yield the items, `part_rows` at a time."""
    check_positive(part_rows, "part_rows")
    waiting = iter(items)
    while part := list(islice(waiting, part_rows)):
        yield part


def run_parts(
    work: Callable[..., Any], parts: Iterable[tuple[int, Any]], n_workers: int, *shared: Any
) -> Iterator[tuple[int, Any]]:
    """Yield the number of each part and what `work(part, *shared)` made of it on the cluster, in any order.

    The next part is read while the workers work. An error that a part itself raises ends the run: it would raise again.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayError, RayTaskError

    run = ray.remote(num_cpus=1, max_retries=_MAX_DEATHS)(work)
    common = [ray.put(value) for value in shared]
    busy: dict[Any, int] = {}
    waiting = iter(parts)
    upcoming = next(waiting, None)

    def give() -> None:
        nonlocal upcoming
        while upcoming and len(busy) < n_workers:
            number, part = upcoming
            busy[run.remote(part, *common)] = number
            upcoming = next(waiting, None)

    try:
        ray.get(ray.remote(num_cpus=1)(lambda: None).remote(), timeout=_START_SECONDS)
        give()
        while busy:
            (found,), _ = ray.wait(list(busy))
            number = busy.pop(found)
            give()
            yield number, ray.get(found)
    except GetTimeoutError:
        raise WorkerLostError(
            f"no worker started within {_START_SECONDS:g} s: check that the cluster has free CPUs and that knn-ue is "
            "installed on its nodes"
        ) from None
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        raise (cause if isinstance(cause, KnnUeError) else error) from None
    except RayError as error:
        raise WorkerLostError(
            f"{_MAX_DEATHS + 1} workers died at the same part ({str(error).splitlines()[0][:160]}): continue with "
            "resume when the cluster is well"
        ) from None


@lru_cache(maxsize=1)
def loaded(ue: Path, generation: str, device: str) -> UncertaintyPipeline:
    """Return the pipeline of a UE folder in the state that it has; a worker loads it once."""
    del generation  # a folder that was changed is another one
    return UncertaintyPipeline.load(ue, device=device).patient()
