"""Paired comparisons of all methods of a table on one test set: computed once from the kept answers, then kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import Any

from knn_ue.demo.cache import key_of
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.cells import CellName, file_name
from knn_ue_lab.reproduce.measures import DETECTION, MEASURES, AnswerMeasure, DetectionMeasure, measure_of
from knn_ue_lab.reproduce.plan import Block
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.score import read_answers, score_name
from knn_ue_lab.reproduce.statistics import (
    N_BOOTSTRAP,
    PairedTest,
    Replicates,
    Resampled,
    Sample,
    redrawn,
    replicates_of,
)
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant

# Raised when a change of ours changes comparisons of the same cells.
_REVISION = 3
# By how much a difference of kept answers may be off that of the table: in its unit, or a share of half the interval.
_APART, _SHARE = 0.05, 0.25
_KEPT = ("first", "second", "difference", "low", "high", "p", "t_test", "share")

# By measure, then by pair of methods.
PairedTests = dict[str, dict[tuple[str, str], PairedTest]]


def compare_block(
    runner: TaskRunner,
    table: str,
    block: Block,
    variants: Sequence[MethodVariant],
    outcome: Outcome,
    n_bootstrap: int = N_BOOTSTRAP,
) -> PairedTests:
    """Return every pair of methods compared by every measure of the block that can be tested.

    mc-dropout saw fewer texts: it is compared with the others on those, with its own draws.
    """
    measures = measures_of(block.measures)
    found: PairedTests = {name: {} for name in measures}
    measured = [variant for variant in variants if found_jobs(outcome, block.setup, variant)]
    others = [variant for variant in measured if variant.method != PASSES]
    groups = [(others, None)] + [([*others, variant], PASSES) for variant in measured if variant.method == PASSES]
    for group, only in groups:
        if len(group) < 2 or not measures:
            continue
        seeds = {variant: sorted(found_jobs(outcome, block.setup, variant)) for variant in group}
        for name, pairs in _kept(runner, table, block, seeds, measures, only, n_bootstrap).items():
            # mc-dropout is compared on fewer texts than its cells are of.
            found[name] |= pairs if only else _as_in_the_table(name, pairs, block, seeds, outcome)
    return found


def _as_in_the_table(
    measure: str,
    pairs: Mapping[tuple[str, str], PairedTest],
    block: Block,
    seeds: Mapping[MethodVariant, Sequence[int]],
    outcome: Outcome,
) -> dict[tuple[str, str], PairedTest]:
    """Return the pairs whose kept answers differ as the cells do: rounding them may merge confidences, or move some."""
    scores = {
        str(variant): {
            seed: outcome.found[job]["sets"].get(block.part, {}).get(measure)
            for seed, job in found_jobs(outcome, block.setup, variant).items()
        }
        for variant in seeds
    }
    unit = measure_of(measure).unit

    def agree(first: str, second: str, found: PairedTest) -> bool:
        both = [(scores[first][seed], scores[second][seed]) for seed in scores[first].keys() & scores[second].keys()]
        known = [a - b for a, b in both if a is not None and b is not None]
        if not known or len(known) < len(both):
            return True
        apart = abs(fmean(known) - found.difference)
        return not apart > max(_APART / unit, _SHARE * (found.high - found.low) / 2)

    return {pair: found for pair, found in pairs.items() if agree(*pair, found)}


def measures_of(names: Sequence[str]) -> dict[str, Resampled]:
    """Return how the measures are computed, for those that a test can be made of."""
    known: dict[str, AnswerMeasure | DetectionMeasure] = {**MEASURES, **DETECTION}
    found = {name: known[name] for name in names if name in known and known[name].tested}
    return {
        name: Resampled(function=one.function, drawn=one.drawn, computes=_computes(name))
        for name, one in found.items()
        if one.function is not None
    }


def _computes(name: str) -> str:
    """Return what a measure computes: published AUPR-In is our AUPR-Out, and the other way round."""
    return DETECTION[name].field if name in DETECTION else name


def _kept(
    runner: TaskRunner,
    table: str,
    block: Block,
    seeds: Mapping[MethodVariant, Sequence[int]],
    measures: Mapping[str, Resampled],
    only: str | None,
    n_bootstrap: int,
) -> PairedTests:
    """Return the comparisons of the methods with the seeds each has, made now or before.

    Those of other cells are replaced; those of fewer seeds or draws (a short trial) have their own names.
    """
    cells = {
        str(variant): [score_name(runner, variant, seed).key for seed in known] for variant, known in seeds.items()
    }
    key = key_of(_REVISION, cells, block.part, sorted(measures), only, n_bootstrap)
    n_seeds = max(map(len, seeds.values()))
    words = [table, file_name(block.part), *([only] if only else []), f"{n_seeds}x{n_bootstrap}"]
    name = CellName(runner.setup.name, "-".join(["compared", *words]), key)
    content = runner.store.read(name)
    parts, sizes, n_texts = _texts(runner, block, only)
    if content is None:
        replicates = _replicates(runner, seeds, parts, sizes, measures, n_bootstrap)
        if replicates is None:
            return {measure: {} for measure in measures}
        content = {"kind": "comparison", "seeds": sorted(set().union(*seeds.values()))}
        content["pairs"] = _pairs(replicates, only)
        content = runner.store.write(name, content, only=True)
    return {
        measure: {(first, second): replace(_comparison(numbers), n_texts=n_texts) for first, second, numbers in pairs}
        for measure, pairs in content["pairs"].items()
    }


def _texts(runner: TaskRunner, block: Block, only: str | None) -> tuple[list[str], list[int], int | None]:
    """Return the sets a sample has, how many texts of each, and the number where it is not that of all.

    Texts without an answer (sentences without entities) count.
    """
    detects = any(name in DETECTION for name in block.measures)
    parts = [runner.setup.sets[0].name, block.part] if detects else [block.part]
    whole = [len(runner.data.sets[part].rows) for part in parts]
    cap = runner.scale.passes_rows if only else None
    sizes = [size if cap is None else min(cap, size) for size in whole]
    return parts, sizes, cap if sizes != whole else None


def _replicates(
    runner: TaskRunner,
    seeds: Mapping[MethodVariant, Sequence[int]],
    parts: Sequence[str],
    sizes: Sequence[int],
    measures: Mapping[str, Resampled],
    n_bootstrap: int,
) -> dict[str, Replicates] | None:
    """Return the replicates of each measure; None where answers are on another machine.

    Draws take most of a report's time, and one more seed or method needs only its own: those of each cell are kept in
    the work folder, for all tables with this set.
    """
    keys = {(one, seed): score_name(runner, one, seed).key for one, known in seeds.items() for seed in known}
    name = CellName(runner.setup.name, "drawn", key_of(_REVISION, parts, sizes, n_bootstrap))
    computed = {one.computes: one for one in measures.values()}
    kept = runner.store.read_arrays(name, parts[-1]) or {}
    lacking = {cell: key for cell, key in keys.items() if any(f"{key}/{what}" not in kept for what in computed)}
    if lacking:
        samples = [_sample(runner, variant, seed, parts, sizes) for variant, seed in lacking]
        known = [sample for sample in samples if sample is not None]
        if len(known) < len(samples):
            return None
        wanted = {
            what: one for what, one in computed.items() if any(f"{key}/{what}" not in kept for key in lacking.values())
        }
        made = redrawn(known, wanted, n_groups=sizes, n_bootstrap=n_bootstrap)
        for key, values in zip(lacking.values(), made, strict=True):
            kept |= {f"{key}/{what}": numbers for what, numbers in values.items()}
        runner.store.write_arrays(name, parts[-1], kept)
    every = sorted(set().union(*seeds.values()))
    return {
        measure: replicates_of(
            one.computes,
            {
                str(variant): [
                    {one.computes: kept[f"{keys[variant, seed]}/{one.computes}"]} if seed in known else None
                    for seed in every
                ]
                for variant, known in seeds.items()
            },
        )
        for measure, one in measures.items()
    }


def _sample(
    runner: TaskRunner, variant: MethodVariant, seed: int, parts: Sequence[str], sizes: Sequence[int]
) -> Sample | None:
    """Return the answers of a method and seed to the first texts of each set; None where they are not here."""
    read = [read_answers(runner, variant, seed, part) for part in parts]
    kept: list[Answers] = [one for one in read if one is not None]
    return tuple(one.first(size) for one, size in zip(kept, sizes, strict=True)) if len(kept) == len(parts) else None


def _pairs(replicates: Mapping[str, Replicates], only: str | None) -> dict[str, list[Any]]:
    return {
        measure: [
            [first, second, _numbers(found.compare(first, second))]
            for first, second in combinations(found.methods, 2)
            if only is None or only in (first, second)
        ]
        for measure, found in replicates.items()
    }


def _numbers(found: PairedTest) -> list[float]:
    return [getattr(found, field) for field in (*_KEPT, "n_seeds")]


def _comparison(numbers: Sequence[float | None]) -> PairedTest:
    *known, n_seeds = (float("nan") if number is None else number for number in numbers)
    values: dict[str, Any] = dict(zip(_KEPT, known, strict=True))
    return PairedTest(**values, n_seeds=int(n_seeds))


def pair_of(found: Mapping[tuple[str, str], PairedTest], first: str, second: str) -> PairedTest | None:
    """Return how the first compares with the second, whichever way round it is kept."""
    if (first, second) in found:
        return found[first, second]
    kept = found.get((second, first))
    return None if kept is None else kept.reversed()


def found_jobs(outcome: Outcome, setup: str, variant: MethodVariant) -> dict[int, Job]:
    """Return the measured cells of a method by seed."""
    return {job.seed: job for job in outcome.found if job.setup == setup and job.what == variant}
