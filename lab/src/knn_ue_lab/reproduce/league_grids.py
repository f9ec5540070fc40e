"""Leagues as grids of text: all measures together, each measure, OOD detection, and ours against each other method."""

import math
from collections.abc import Mapping, Sequence

from knn_ue_lab.reproduce.grids import EMPTY, Grid
from knn_ue_lab.reproduce.league import Column, Standing, league_of, numbers_of, placed, record_of
from knn_ue_lab.reproduce.measures import measure_of
from knn_ue_lab.reproduce.ours import DETECTOR, LOST, OURS, better_than_ours, others_in

_MAIN, _PLAIN = "knn-ue", "softmax"


def league_grid(
    inside: Sequence[Column], outside: Sequence[Column], title: str = "League: ECE, E-AURC and Brier score"
) -> Grid:
    """Return the league of all measures, in domain beside out of domain, sorted by the mean of both ranks.

    Methods without a number, whose ranks are of fewer columns, come last: they were not measured against the others
    where those may be better.
    """
    both = [league_of(inside), league_of(outside)]
    by_method = [{one.method: one for one in standings} for standings in both]
    numbered = {one.method for one in placed(both[0])} & {one.method for one in placed(both[1])} or {
        one.method for standings in both for one in placed(standings)
    }
    methods = sorted(
        dict.fromkeys(name for found in by_method for name in found),
        key=lambda name: (name not in numbered, _mean(by_method, name)),
    )
    ranked = [name for name in methods if name in numbered]
    places = dict(zip(ranked, numbers_of([_mean(by_method, name) for name in ranked]), strict=True))
    lines = []
    for name in methods:
        found = [standings.get(name) for standings in by_method]
        known = [one for one in found if one is not None]
        lines.append(
            (
                str(places.get(name, EMPTY)),
                name,
                *(text for one in found for text in (_rank(one), EMPTY if one is None else str(one.record))),
                str(sum(one.n_columns for one in known)),
                str(min(one.n_seeds for one in known)),
            )
        )
    record = "wins / ties / losses"
    return Grid(
        title=title,
        heading=("", "method", "in domain, rank % ↓", record, "out of domain, rank % ↓", record, "columns", "seeds"),
        lines=tuple(lines),
        strong=_strong(methods, 1),
        text_columns=frozenset({1}),
    )


def detection_grid(columns: Sequence[Column]) -> Grid:
    """Return the league of OOD detection, with the mean of each measure over sets."""
    found = league_of(columns)
    numbered = placed(found)
    standings = [*numbered, *(one for one in found if one not in numbered)]
    places = dict(zip((one.method for one in numbered), numbers_of([one.rank for one in numbered]), strict=True))
    measures = list(dict.fromkeys(column.measure for column in columns))
    lines = [
        (
            str(places.get(one.method, EMPTY)),
            one.method,
            _rank(one),
            str(one.record),
            *(_over_sets([column for column in columns if column.measure == name], one.method) for name in measures),
            str(one.n_columns),
            str(one.n_seeds),
        )
        for one in standings
    ]
    titles = [f"{measure_of(name).title} % {measure_of(name).arrow}, mean" for name in measures]
    return Grid(
        title="League of OOD detection",
        heading=("", "method", "rank % ↓", "wins / ties / losses", *titles, "columns", "seeds"),
        lines=tuple(lines),
        strong=_strong([one.method for one in standings], 1),
        text_columns=frozenset({1}),
    )


def detected_grid(columns: Sequence[Column], lengths: Mapping[tuple[str, str], float]) -> Grid:
    """Return the AUROC on each set: our detector, the best method of others, the softmax, and the length of texts."""
    shown = [name for name in (DETECTOR, _MAIN, _PLAIN) if any(name in one.values for one in columns)]
    lines = []
    for one in columns:
        if one.measure != "detection_auroc":
            continue
        # A mean over fewer seeds than the others have could flatter either.
        seeds = max((found.keys() for found in one.values.values()), key=len)
        others = [name for name in others_in(one) if name != _PLAIN and one.values[name].keys() == seeds]
        best = max(others, key=one.mean, default=None)
        length = lengths.get((one.setup, one.part))
        lines.append(
            (
                one.part,
                one.setup,
                *(f"{one.mean(name):.1f}" if name in one.values else EMPTY for name in shown),
                EMPTY if best is None else f"{one.mean(best):.1f} ({best})",
                EMPTY if length is None else f"{length:.1f}",
            )
        )
    words = "number of words alone, its better direction"
    return Grid(
        title="OOD detection by set: AUROC %",
        heading=("set", "task", *shown, "best other method", words),
        lines=tuple(lines),
        text_columns=frozenset({0, 1}),
    )


def loss_grid(columns: Sequence[Column]) -> Grid:
    """Return the sets on which a method of others is significantly better than all of ours, by measure."""
    measures = list(dict.fromkeys(column.measure for column in columns))
    by_set: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        better = better_than_ours(column)
        if better:
            by_set.setdefault((column.part, column.setup), {})[column.measure] = ", ".join(better)
    return Grid(
        title=f"{LOST}: methods that are significantly better than all of ours, the best first",
        heading=("set", "task", *(measure_of(name).title for name in measures)),
        lines=tuple((*one, *(lost.get(name, EMPTY) for name in measures)) for one, lost in by_set.items()),
        text_columns=frozenset(range(2 + len(measures))),
    )


def measure_grid(inside: Sequence[Column], outside: Sequence[Column]) -> Grid:
    """Return the mean rank of each method by each measure, in domain and out of domain."""
    measures = list(dict.fromkeys(column.measure for column in (*inside, *outside)))
    leagues = {
        f"{measure_of(name).title}, {where}": {
            one.method: one for one in league_of([column for column in columns if column.measure == name])
        }
        for name in measures
        for where, columns in (("in domain", inside), ("out of domain", outside))
    }
    methods = dict.fromkeys(method for column in (*outside, *inside) for method in column.values)
    lines = [(method, *(_rank(found.get(method)) for found in leagues.values())) for method in methods]
    return Grid(
        title="Mean rank % by measure [95 %]",
        heading=("method", *leagues),
        lines=tuple(line for line in lines if set(line[1:]) != {EMPTY}),
        strong=_strong([line[0] for line in lines if set(line[1:]) != {EMPTY}], 0),
    )


def rival_grid(inside: Sequence[Column], outside: Sequence[Column], title: str = "Ours against each method") -> Grid:
    """Return the wins, ties and losses of ours against each method, in domain and out of domain."""
    methods = dict.fromkeys(method for column in (*outside, *inside) for method in column.values)
    ours = [method for method in OURS if method in methods]
    places = (("in domain", inside), ("out of domain", outside))
    lines = [
        (
            rival,
            *(EMPTY if one == rival else str(record_of(columns, one, rival)) for one in ours for _, columns in places),
        )
        for rival in methods
    ]
    return Grid(
        title=f"{title}: wins / ties / losses of ours",
        heading=("against", *(f"{one}, {where}" for one in ours for where, _ in places)),
        lines=tuple(line for line in lines if set(line[1:]) - {EMPTY}),
    )


def _rank(one: Standing | None) -> str:
    return EMPTY if one is None else f"{100 * one.rank:.0f} [{100 * one.low:.0f}, {100 * one.high:.0f}]"


def _mean(by_method: Sequence[dict[str, Standing]], name: str) -> float:
    known = [found[name].rank for found in by_method if name in found]
    return sum(known) / len(known)


def _over_sets(columns: Sequence[Column], method: str) -> str:
    """Return the mean over all sets, nothing where the method lacks one, or a seed that some other method has."""
    seeds = [{seed for found in column.values.values() for seed in found} for column in columns]
    if any(column.values.get(method, {}).keys() != known for column, known in zip(columns, seeds, strict=True)):
        return EMPTY
    means = [column.mean(method) for column in columns]
    return EMPTY if not means or math.isnan(sum(means)) else f"{sum(means) / len(means):.1f}"


def _strong(methods: Sequence[str], place: int) -> frozenset[tuple[int, int]]:
    return frozenset((row, place) for row, method in enumerate(methods) if method in OURS)
