"""Cells of time: how long each method takes to answer the same rows, in one process, in turn and over again.

Times are no part of any other cell, so that those can be repeated to the last digit, and these on an idle machine.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from knn_ue.demo.cache import key_of
from knn_ue_lab.reproduce.cells import REVISION, CellName, Content
from knn_ue_lab.reproduce.score import fitted, from_training
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant

_QUERIES = 512
_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Which methods are timed on which test set; the first is the one others are compared with.

    With `search_only` the model is left out: what is timed is the search for neighbors, in batches of 256.
    """

    part: str
    variants: tuple[MethodVariant, ...]
    name: str = "time"
    search_only: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.part}".replace(" ", "_")


def timing_name(runner: TaskRunner, timing: Timing, seed: int) -> CellName:
    """Return the name of the cell."""
    models = [runner.model_name(runner.training_of(variant), seed).key for variant in timing.variants]
    options = [variant.options() for variant in timing.variants]
    scale = runner.scale
    parts = (runner.data.scores_key, timing.part, timing.search_only, scale.timed_rows, scale.repeats, _QUERIES)
    return CellName(runner.setup.name, f"{timing}.seed{seed}", key_of(REVISION, models, options, *parts))


def timing_cell(runner: TaskRunner, timing: Timing, seed: int) -> Content:
    """Time every method in turn, and keep milliseconds a row (a query) of each round.

    `load` is the highest number of processes that wanted a core meanwhile, as the system counts them: 1 is this one.
    """
    began = time.perf_counter()
    loads = [os.getloadavg()[0]]
    with runner.fixed_threads():
        runs = _searches(runner, timing, seed) if timing.search_only else _predictions(runner, timing, seed)
        milliseconds: dict[str, list[float]] = {str(variant): [] for variant in timing.variants}
        for round_number in range(runner.scale.repeats):
            for variant, run in runs.items():
                if variant.method != PASSES or not round_number:  # so many passes that one round tells all
                    milliseconds[str(variant)].append(run())
            loads.append(os.getloadavg()[0])
    content: Content = {
        "kind": "timing",
        "part": timing.part,
        "seed": seed,
        "milliseconds": milliseconds,
        "load": max(loads),
        "cores": os.cpu_count(),
        "threads": runner.scale.threads,
        "seconds": time.perf_counter() - began,
    }
    return runner.store.write(timing_name(runner, timing, seed), content)


def _predictions(runner: TaskRunner, timing: Timing, seed: int) -> Mapping[MethodVariant, Callable[[], float]]:
    """Return for each method what encodes and answers the rows once, and says how many milliseconds a row that took."""
    rows, _ = runner.rows_of(timing.part)
    rows = rows[: runner.scale.timed_rows]

    def prepared(variant: MethodVariant) -> Callable[[], float]:
        calibrator = fitted(runner, variant, seed)
        options = runner.encoding_of(variant, shared=False)
        encoder = runner.loaded(runner.training_of(variant), seed, **options)

        def run() -> float:
            started = time.perf_counter()
            calibrator.predict(encoder.encode(rows, with_labels=False))
            return 1000 * (time.perf_counter() - started) / len(rows)

        return run

    return {variant: prepared(variant) for variant in timing.variants}


def _searches(runner: TaskRunner, timing: Timing, seed: int) -> Mapping[MethodVariant, Callable[[], float]]:
    """Return for each index what searches it once, and says how many milliseconds a query that took."""

    def prepared(variant: MethodVariant) -> Callable[[], float]:
        calibrator = from_training(runner, variant, seed)
        (store,) = calibrator.stores.values()
        features = runner.outputs(variant, seed, timing.part).require_features("timing")[:_QUERIES]
        queries = np.ascontiguousarray(features)

        def run() -> float:
            started = time.perf_counter()
            for start in range(0, len(queries), _BATCH):
                store.search(queries[start : start + _BATCH], variant.n_neighbors)
            return 1000 * (time.perf_counter() - started) / len(queries)

        return run

    return {variant: prepared(variant) for variant in timing.variants}
