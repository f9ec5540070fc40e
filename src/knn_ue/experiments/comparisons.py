"""Paired comparisons of all methods of a table on one test set: computed once from the kept answers, then kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations
from typing import Any

from knn_ue.demo.cache import key_of
from knn_ue.experiments.answers import Answers
from knn_ue.experiments.bench import Bench
from knn_ue.experiments.cells import REVISION, CellName
from knn_ue.experiments.measures import DETECTION, MEASURES
from knn_ue.experiments.plan import Block
from knn_ue.experiments.run import Job, Outcome
from knn_ue.experiments.score import read_answers, score_name
from knn_ue.experiments.specs import PASSES, Spec
from knn_ue.experiments.statistics import N_BOOTSTRAP, Comparison, Function, Replicates, Sample, bootstrap

# By measure, then by pair of methods.
Comparisons = dict[str, dict[tuple[str, str], Comparison]]


def common_seeds(outcome: Outcome, setup: str, specs: Sequence[Spec]) -> tuple[list[Spec], list[int]]:
    """Return the methods that were measured with the first seed, and the seeds that all of them were measured with."""
    seeds = {spec: {job.seed for job in outcome.found if job.setup == setup and job.what == spec} for spec in specs}
    measured = [spec for spec in specs if 0 in seeds[spec]]
    return measured, sorted(set.intersection(*(seeds[spec] for spec in measured))) if measured else []


def compare_block(
    bench: Bench, table: str, block: Block, specs: Sequence[Spec], outcome: Outcome, n_bootstrap: int = N_BOOTSTRAP
) -> Comparisons:
    """Return every pair of methods compared by every measure of the block that can be tested.

    mc-dropout saw fewer texts: it is compared with the others on those, with its own draws.
    """
    functions = functions_of(block.measures)
    found: Comparisons = {name: {} for name in functions}
    others = [spec for spec in specs if spec.method != PASSES]
    groups = [others] + [[*others, spec] for spec in specs if spec.method == PASSES]
    for group in groups:
        measured, seeds = common_seeds(outcome, block.setup, group)
        only = PASSES if any(spec.method == PASSES for spec in measured) else None
        if len(measured) < 2 or not functions or (only is None and group is not groups[0]):
            continue
        for name, pairs in _kept(bench, table, block, measured, seeds, functions, only, n_bootstrap).items():
            found[name] |= pairs
    return found


def functions_of(measures: Sequence[str]) -> dict[str, Function]:
    """Return how the measures are computed, for those that a test can be made of."""
    plain = {name: MEASURES[name].function for name in measures if name in MEASURES}
    found: dict[str, Function] = {name: function for name, function in plain.items() if function is not None}
    return found | {name: DETECTION[name].function for name in measures if name in DETECTION}


def _kept(
    bench: Bench,
    table: str,
    block: Block,
    specs: Sequence[Spec],
    seeds: Sequence[int],
    functions: Mapping[str, Function],
    only: str | None,
    n_bootstrap: int,
) -> Comparisons:
    cells = {str(spec): [score_name(bench, spec, seed).key for seed in seeds] for spec in specs}
    key = key_of(REVISION, cells, block.part, sorted(functions), only, n_bootstrap)
    part = block.part.replace(" ", "_")
    name = CellName(bench.setup.name, f"compared-{table}-{part}{f'-{only}' if only else ''}", key)
    content = bench.store.read(name)
    if content is None:
        samples = _samples(bench, block, specs, seeds, only)
        if samples is None:
            return {measure: {} for measure in functions}
        sizes = _sizes(bench, block, samples, only)
        replicates = bootstrap(samples, functions, n_groups=sizes, n_bootstrap=n_bootstrap)
        content = {"kind": "comparison", "seeds": list(seeds), "pairs": _pairs(replicates, only)}
        content = bench.store.write(name, content, only=True)
    return {
        measure: {(first, second): _comparison(numbers) for first, second, numbers in pairs}
        for measure, pairs in content["pairs"].items()
    }


def _samples(
    bench: Bench, block: Block, specs: Sequence[Spec], seeds: Sequence[int], only: str | None
) -> dict[str, list[Sample]] | None:
    """Return the answers of each method and seed; None where some are on another machine."""
    inside = bench.setup.sets[0].name
    parts = [inside, block.part] if any(name in DETECTION for name in block.measures) else [block.part]
    limit = bench.scale.passes_rows if only else None
    samples: dict[str, list[Sample]] = {}
    for spec in specs:
        samples[str(spec)] = []
        for seed in seeds:
            read = [read_answers(bench, spec, seed, part) for part in parts]
            kept: list[Answers] = [one for one in read if one is not None]
            if len(kept) < len(parts):
                return None
            samples[str(spec)].append(tuple(one if limit is None else one.first(limit) for one in kept))
    return samples


def _sizes(bench: Bench, block: Block, samples: Mapping[str, Sequence[Sample]], only: str | None) -> list[int]:
    """Return how many texts each set has, also those without an answer (a sentence without entities)."""
    limit = partial(min, bench.scale.passes_rows) if only and bench.scale.passes_rows else int
    parts = [block.part] if len(next(iter(samples.values()))[0]) == 1 else [bench.setup.sets[0].name, block.part]
    return [limit(len(bench.material.sets[part].rows)) for part in parts]


def _pairs(replicates: Mapping[str, Replicates], only: str | None) -> dict[str, list[Any]]:
    return {
        measure: [
            [first, second, list(asdict(found.compare(first, second)).values())]
            for first, second in combinations(found.methods, 2)
            if only is None or only in (first, second)
        ]
        for measure, found in replicates.items()
    }


def _comparison(numbers: Sequence[float | None]) -> Comparison:
    *values, n_seeds = (float("nan") if number is None else number for number in numbers)
    difference, low, high, p, t_test = values
    return Comparison(difference=difference, low=low, high=high, p=p, t_test=t_test, n_seeds=int(n_seeds))


def pair_of(found: Mapping[tuple[str, str], Comparison], first: str, second: str) -> Comparison | None:
    """Return how the first compares with the second, whichever way round it is kept."""
    if (first, second) in found:
        return found[first, second]
    kept = found.get((second, first))
    if kept is None:
        return None
    return Comparison(
        difference=-kept.difference,
        low=-kept.high,
        high=-kept.low,
        p=kept.p,
        t_test=kept.t_test,
        n_seeds=kept.n_seeds,
    )


def found_jobs(outcome: Outcome, setup: str, spec: Spec) -> dict[int, Job]:
    """Return the measured cells of a method by seed."""
    return {job.seed: job for job in outcome.found if job.setup == setup and job.what == spec}
