"""Cells of time: how long each method takes to answer the same rows, in one process, in turn and over again.

Times are no part of any other cell, so that those can be repeated to the last digit, and these on an idle machine.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from knn_ue.demo.cache import key_of
from knn_ue.experiments.bench import Bench
from knn_ue.experiments.cells import REVISION, CellName, Content
from knn_ue.experiments.score import fitted, from_training
from knn_ue.experiments.specs import PASSES, Spec

_QUERIES = 512
_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class TimingSpec:
    """Which methods are timed on which test set; the first is the one others are compared with.

    With `search_only` the model is left out: what is timed is the search for neighbors, in batches of 256.
    """

    part: str
    specs: tuple[Spec, ...]
    name: str = "time"
    search_only: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.part}".replace(" ", "_")


def timing_name(bench: Bench, timing: TimingSpec, seed: int) -> CellName:
    """Return the name of the cell."""
    models = [bench.model_name(bench.training_of(spec), seed).key for spec in timing.specs]
    options = [spec.options() for spec in timing.specs]
    scale = bench.scale
    parts = (bench.material.scores_key, timing.part, timing.search_only, scale.timed_rows, scale.repeats, _QUERIES)
    return CellName(bench.setup.name, f"{timing}.seed{seed}", key_of(REVISION, models, options, *parts))


def timing_cell(bench: Bench, timing: TimingSpec, seed: int) -> Content:
    """Time every method in turn, and keep milliseconds a row (a query) of each round.

    `load` is the highest number of processes that wanted a core meanwhile, as the system counts them: 1 is this one.
    """
    began = time.perf_counter()
    loads = [os.getloadavg()[0]]
    with bench.fixed_threads():
        runs = _searches(bench, timing, seed) if timing.search_only else _predictions(bench, timing, seed)
        milliseconds: dict[str, list[float]] = {str(spec): [] for spec in timing.specs}
        for round_number in range(bench.scale.repeats):
            for spec, run in runs.items():
                if spec.method != PASSES or not round_number:  # so many passes that one round tells all
                    milliseconds[str(spec)].append(run())
            loads.append(os.getloadavg()[0])
    content: Content = {
        "kind": "timing",
        "part": timing.part,
        "seed": seed,
        "milliseconds": milliseconds,
        "load": max(loads),
        "cores": os.cpu_count(),
        "threads": bench.scale.threads,
        "seconds": time.perf_counter() - began,
    }
    return bench.store.write(timing_name(bench, timing, seed), content)


def _predictions(bench: Bench, timing: TimingSpec, seed: int) -> Mapping[Spec, Callable[[], float]]:
    """Return for each method what encodes and answers the rows once, and says how many milliseconds a row that took."""
    rows, _ = bench.rows_of(timing.part)
    rows = rows[: bench.scale.timed_rows]

    def prepared(spec: Spec) -> Callable[[], float]:
        calibrator = fitted(bench, spec, seed)
        options = bench.encoding_of(spec, shared=False)
        encoder = bench.loaded(bench.training_of(spec), seed, **options)

        def run() -> float:
            started = time.perf_counter()
            calibrator.predict(encoder.encode(rows, with_labels=False))
            return 1000 * (time.perf_counter() - started) / len(rows)

        return run

    return {spec: prepared(spec) for spec in timing.specs}


def _searches(bench: Bench, timing: TimingSpec, seed: int) -> Mapping[Spec, Callable[[], float]]:
    """Return for each index what searches it once, and says how many milliseconds a query that took."""

    def prepared(spec: Spec) -> Callable[[], float]:
        calibrator = from_training(bench, spec, seed)
        (store,) = calibrator.stores.values()
        features = bench.outputs(spec, seed, timing.part).require_features("timing")[:_QUERIES]
        queries = np.ascontiguousarray(features)

        def run() -> float:
            started = time.perf_counter()
            for start in range(0, len(queries), _BATCH):
                store.search(queries[start : start + _BATCH], spec.n_neighbors)
            return 1000 * (time.perf_counter() - started) / len(queries)

        return run

    return {spec: prepared(spec) for spec in timing.specs}
