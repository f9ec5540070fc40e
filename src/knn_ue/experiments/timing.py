"""One cell: how long each method takes to answer the same rows, in one process, one after the other and over again."""

import os
import time
from dataclasses import dataclass

from knn_ue.calibrators import LogitScaling
from knn_ue.demo.cache import key_of
from knn_ue.experiments.bench import Bench
from knn_ue.experiments.cells import REVISION, CellName, Content
from knn_ue.experiments.score import fitted
from knn_ue.experiments.specs import PASSES, Spec

# Passes with dropout cost so much that fewer rows, once, tell all.
_PASSES_ROWS = 32


@dataclass(frozen=True, kw_only=True)
class TimingSpec:
    """Which methods are timed on which test set; the first is the one others are compared with."""

    part: str
    specs: tuple[Spec, ...]
    name: str = "timing"

    def __str__(self) -> str:
        return f"{self.name}-{self.part}".replace(" ", "_")


def timing_name(bench: Bench, timing: TimingSpec, seed: int) -> CellName:
    """Return the name of the cell."""
    models = [bench.model_name(bench.training_of(spec, seed), seed).key for spec in timing.specs]
    options = [spec.options() for spec in timing.specs]
    scale = bench.scale
    key = key_of(REVISION, models, options, bench.material.scores_key, timing.part, scale.timed_rows, scale.repeats)
    return CellName(bench.setup.name, f"{timing}.seed{seed}", key)


def timing_cell(bench: Bench, timing: TimingSpec, seed: int) -> Content:
    """Time encoding and answering of every method, in turn, and keep milliseconds a row of each round.

    `busy` is how many other processes wanted a core while it ran, as the system counts them: times measured while
    other work goes on are told as such.
    """
    rows, _ = bench.rows_of(timing.part)
    rows = rows[: bench.scale.timed_rows]
    began = time.perf_counter()
    loads = [os.getloadavg()[0]]
    milliseconds: dict[str, list[float]] = {str(spec): [] for spec in timing.specs}
    with bench.fixed_threads():
        ready: dict[Spec, LogitScaling] = {spec: fitted(bench, spec, seed) for spec in timing.specs}
        for round_number in range(bench.scale.repeats):
            for spec in timing.specs:
                if spec.method == PASSES and round_number:
                    continue
                chosen = rows[:_PASSES_ROWS] if spec.method == PASSES else rows
                options = bench.encoding_of(spec) if spec.method in (PASSES, "mdsn", "dac") else {}
                encoder = bench.loaded(bench.training_of(spec, seed), seed, **options)
                started = time.perf_counter()
                ready[spec].predict(encoder.encode(chosen, with_labels=False))
                milliseconds[str(spec)].append(1000 * (time.perf_counter() - started) / len(chosen))
            loads.append(os.getloadavg()[0])
    content: Content = {
        "kind": "timing",
        "part": timing.part,
        "seed": seed,
        "rows": len(rows),
        "milliseconds": milliseconds,
        "load": max(loads),
        "threads": bench.scale.threads,
        "seconds": time.perf_counter() - began,
    }
    return bench.store.write(timing_name(bench, timing, seed), content)
