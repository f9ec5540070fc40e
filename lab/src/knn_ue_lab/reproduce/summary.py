"""What a reader should see first: the sentences that matter, the leagues, a picture for each task, what is missing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from knn_ue.tasks import TASKS
from knn_ue_lab.reproduce.columns import DETECTED, SCORED, LeftOut, columns_of
from knn_ue_lab.reproduce.grids import Grid
from knn_ue_lab.reproduce.league import Column, without_tags
from knn_ue_lab.reproduce.league_grids import (
    detected_grid,
    detection_grid,
    league_grid,
    loss_grid,
    measure_grid,
    rival_grid,
)
from knn_ue_lab.reproduce.lengths import LengthAurocs
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.scales import Scale
from knn_ue_lab.reproduce.sentences import Evidence, sentences_of
from knn_ue_lab.reproduce.setups import Role, Setup
from knn_ue_lab.reproduce.statistics import FEWEST_SEEDS
from knn_ue_lab.reproduce.tables import FilledTable
from knn_ue_lab.reproduce.task_pictures import caption_of, picture_of
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant

_PLAIN = MethodVariant(method="softmax")
_CHANCE = 50.0  # AUROC, in percent

# How to read the leagues, a line each.
RULES = (
    "Rank: the share of the other methods that do better in a column (one measure of one test set), as a mean over "
    "columns. 0 is the best of all everywhere, 100 the worst. It says how many are better, not by how much.",
    "Order: by the mean of both ranks. Every test set counts the same, so a task with more sets counts more. Two "
    "methods are compared by their means over the seeds that both have, and not at all where they share none.",
    "In brackets: the 95 % interval of the rank, by a bootstrap over test sets and seeds. With few sets or "
    "seeds the true uncertainty is larger. The points above say in how many of its draws the first method stays first.",
    "Wins, ties and losses: against every other method in every column, ours among them, by the paired test of the "
    "tables. A win is significant, here and above: p < 0.05 and an interval without zero. What could not be tested is "
    "not counted.",
    "With many comparisons, some are significant by chance: they are not corrected for their number, so about one in "
    "forty comparisons of equal methods is a win and one in forty a loss. The measures of one set are not independent, "
    "nor are methods that are nearly the same, as vector and matrix scaling are with two classes.",
    "A tie is no significant difference, which is not the same as none.",
    "Methods that were not measured in every column come last and have no number: their ranks are of other columns.",
)

# What sets the numbers of a method apart from what its name promises, or from the numbers of others.
CAVEATS = {
    "sdm": "the activation alone, on the features of our models. With the adaptor network that its authors also train, "
    "it is better calibrated in domain, but less than temperature (docs/methods_results.md). With many classes and few "
    "validation rows of each, it has next to no confidence in any answer",
    "knn-ue-entity": "fitted on whole entities. The others, but for platt-entity, are fitted on words, and the "
    "confidences of the words are multiplied",
    "platt-entity": "Platt scaling of the product of the words' softmax confidences, fitted on entities: the simplest "
    "method of its kind",
    "familiarity": "reads several layers of the model, as dac does. All others read the last one",
}


@dataclass(frozen=True, kw_only=True)
class TaskPicture:
    """The picture of a task as SVG, and what it shows."""

    setup: str
    svg: str
    caption: str

    @property
    def file(self) -> str:
        """The picture as a file of its own, which must name what it is."""
        spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f"{self.svg.replace('<svg ', f'<svg {spaces} ', 1)}\n"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The first page: `grids` are the leagues, `details` more of them.

    `caveats` say what to know of single methods, `unranked` which methods and sets are in no league and why, `missing`
    which cells are not measured, `only_times` that these are times.
    """

    sentences: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    details: tuple[Grid, ...] = ()
    pictures: tuple[TaskPicture, ...] = ()
    caveats: tuple[str, ...] = ()
    unranked: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    only_times: bool = False


def summarize(
    setups: Sequence[Setup],
    scale: Scale,
    outcome: Outcome,
    tables: Sequence[FilledTable],
    unlearned: LeftOut,
    asked: Sequence[Job] = (),
    n_texts: Mapping[str, int] | None = None,
    lengths: LengthAurocs | None = None,
) -> Summary:
    """Return the first page of what was measured of all cells that were `asked` for.

    `n_texts` is how many texts the largest test set of a setup has, where that is known; `lengths` is how well the
    number of words alone detects.
    """
    left_out = _left_out(setups, scale, outcome, unlearned, n_texts or {})

    def columns(measures: Sequence[str], *roles: Role) -> list[Column]:
        return columns_of(setups, outcome, tables, measures=measures, roles=roles, left_out=left_out)

    inside, outside = columns(SCORED, "in"), columns(SCORED, "out")
    detected = columns(DETECTED, "out", "outside")
    tagging = {setup.name for setup in setups if TASKS[setup.task].is_tagging}
    learned = [one for one in columns(("right", "f1"), "in") if (one.measure == "f1") == (one.setup in tagging)]
    evidence = Evidence(
        scale=scale.name,
        learned=learned,
        inside=inside,
        outside=outside,
        detected=detected,
        tables=tables,
        verdicts=[verdict for filled in tables for verdict in filled.verdicts],
        unlearned=[setup.name for setup in setups if _PLAIN in unlearned.get(setup.name, {})],
        tagging=sorted(tagging),
        voted=columns(SCORED, "human"),
        lengths=lengths or {},
        other_seeds=_other_seeds(outcome),
    )
    drawn = find_spec("matplotlib") is not None  # the page without pictures is better than none
    names = dict.fromkeys(one.setup for one in inside) if drawn else ()
    found = [(name, picture_of(name, inside, outside)) for name in names]
    ranked = {method for column in (*inside, *outside, *detected) for method in column.values}
    details = [measure_grid(inside, outside), rival_grid(inside, outside)]
    texts_inside, texts_outside = (without_tags(columns, evidence.tagging) for columns in (inside, outside))
    if tagging and tagging != {column.setup for column in (*inside, *outside)}:
        details += [
            league_grid(texts_inside, texts_outside, "Texts alone: league"),
            rival_grid(texts_inside, texts_outside, "Texts alone: ours against each method"),
        ]
    grids = (
        league_grid(inside, outside),
        loss_grid([*inside, *outside, *evidence.voted]),
        detection_grid(detected),
        detected_grid(detected, evidence.lengths),
    )
    return Summary(
        sentences=tuple(sentences_of(evidence)),
        grids=tuple(grid for grid in grids if grid.lines),
        details=tuple(grid for grid in details if grid.lines),
        pictures=tuple(
            TaskPicture(setup=name, svg=svg, caption=caption_of(name)) for name, svg in found if svg is not None
        ),
        caveats=(
            *(f"{name}: {text}" for name, text in _caveats(scale).items() if name in ranked),
            *_worse_than_chance(columns(("auroc",), "in", "out", "human")),
        ),
        unranked=(
            *_unranked(outcome, left_out),
            *_unmeasured(asked, outcome),
            *_unranked_sets(evidence.voted),
        ),
        missing=tuple(_missing(asked, outcome)),
        only_times=all(isinstance(job.what, Timing) for job in asked if job not in outcome.found),
    )


def _caveats(scale: Scale) -> dict[str, str]:
    """Return the caveats of a scale: where a pass keeps no other layers, familiarity reads the last one too."""
    return {name: text for name, text in CAVEATS.items() if name != "familiarity" or scale.shared_layers}


def _worse_than_chance(columns: Iterable[Column]) -> Iterable[str]:
    """Yield the sets on which no method is more confident of its right answers than of its wrong ones."""
    for column in columns:
        best = max(column.values, key=column.mean)
        if column.mean(best) < _CHANCE:
            yield (
                f"{column.part}: no method is more confident of its right answers there than of its wrong ones (AUROC "
                f"at most {column.mean(best):.0f} %), so a lower E-AURC means less than elsewhere"
            )


def _left_out(
    setups: Iterable[Setup], scale: Scale, outcome: Outcome, unlearned: LeftOut, n_texts: Mapping[str, int]
) -> dict[str, dict[MethodVariant, str]]:
    """Return whose numbers are not compared: models that did not learn, mc-dropout where it saw fewer texts, one seed.

    Where all have one seed only, all are compared.
    """
    cap = scale.passes_rows
    few = {MethodVariant(method=PASSES): f"saw the first {cap} texts only"}
    return {
        setup.name: _with_one_seed(outcome, setup.name)
        | (few if cap and cap < n_texts.get(setup.name, math.inf) else {})
        | dict(unlearned.get(setup.name, {}))
        for setup in setups
    }


def _with_one_seed(outcome: Outcome, setup: str) -> dict[MethodVariant, str]:
    """Return the methods that have fewer seeds in common with the plain model than a comparison takes."""
    seeds: dict[MethodVariant, set[int]] = {}
    for job in outcome.found:
        if job.setup == setup and isinstance(job.what, MethodVariant):
            seeds.setdefault(job.what, set()).add(job.seed)
    plain = seeds.get(_PLAIN, set())
    if len(plain) < FEWEST_SEEDS:
        return {}
    return {variant: "one seed only" for variant, found in seeds.items() if len(found & plain) < FEWEST_SEEDS}


def _other_seeds(outcome: Outcome) -> int | None:
    """Return with how many seeds mc-dropout and other ways to search were measured, None where all have as many."""
    seeds: dict[tuple[str, MethodVariant], set[int]] = {}
    for job in outcome.found:
        if isinstance(job.what, MethodVariant):
            seeds.setdefault((job.setup, job.what), set()).add(job.seed)
    others = [len(found) for (_, one), found in seeds.items() if one.method == PASSES or one.varies_search]
    most = max(map(len, seeds.values()), default=0)
    return min(others) if others and min(others) < most else None


def _unranked(outcome: Outcome, left_out: LeftOut) -> Iterable[str]:
    """Yield who is in no league though it was measured, and why; those with the same reason together."""
    found: dict[tuple[MethodVariant, str], list[str]] = {}
    for setup, methods in left_out.items():
        for variant, why in methods.items():
            if not variant.varies_search and any(job.setup == setup and job.what == variant for job in outcome.found):
                found.setdefault((variant, why), []).append(setup)
    together: dict[tuple[str, str], list[str]] = {}
    for (variant, why), names in found.items():
        together.setdefault((", ".join(names), why), []).append(str(variant))
    for (places, why), methods_of_one in together.items():
        yield f"{', '.join(methods_of_one)} ({places}): {why}"


def _unranked_sets(columns: Iterable[Column]) -> Iterable[str]:
    """Yield the sets that are scored, but neither in domain nor out of it."""
    for setup, part in dict.fromkeys((column.setup, column.part) for column in columns):
        yield f"the set {part} ({setup}): scored for its human votes, neither in domain nor another domain"


def _unmeasured(asked: Iterable[Job], outcome: Outcome) -> Iterable[str]:
    """Yield which methods have not been measured at all, in one line, and in another those whose cells failed."""
    known, failed = ({str(job.what) for job in jobs} for jobs in (outcome.found, outcome.failed))
    methods = [job.what for job in asked if isinstance(job.what, MethodVariant) and not job.what.varies_search]
    names = [name for name in dict.fromkeys(map(str, methods)) if name not in known]
    for why, chosen in (
        ("failed, with the reasons listed at the end", [name for name in names if name in failed]),
        ("not measured yet", [name for name in names if name not in failed]),
    ):
        if chosen:
            yield f"{', '.join(chosen)}: {why}"


def _missing(asked: Iterable[Job], outcome: Outcome) -> Iterable[str]:
    """Yield for each task which methods have fewer seeds than were asked for, and how many."""
    by_setup: dict[str, dict[str, list[Job]]] = {}
    for job in asked:
        by_setup.setdefault(job.setup, {}).setdefault(str(job.what), []).append(job)
    for setup, methods in by_setup.items():
        counts = {name: (sum(job in outcome.found for job in jobs), len(jobs)) for name, jobs in methods.items()}
        by_count: dict[tuple[int, int], list[str]] = {}
        for name, count in counts.items():
            if count[0] < count[1]:
                by_count.setdefault(count, []).append(name)
        for (n_found, n_asked), names in sorted(by_count.items()):
            yield f"{setup}, {n_found} of {n_asked} seeds: {', '.join(names)}"
