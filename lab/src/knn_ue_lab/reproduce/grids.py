"""Filled tables -> grids of text, which Markdown, LaTeX and HTML print alike."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import get_args

from knn_ue_lab.reproduce.claims import Topic
from knn_ue_lab.reproduce.measures import OURS, measure_of
from knn_ue_lab.reproduce.tables import FilledBlock, FilledTable, TimeBlock
from knn_ue_lab.reproduce.verdicts import ClaimVerdict, Word

EMPTY = "–"
_TOPICS = {
    "softmax": "kNN-UE better than the plain softmax",
    "existing": "kNN-UE better than the best existing method",
    "others ahead": "the softmax or an existing method better than kNN-UE",
    "labels help": "kNN-UE better than without labels",
    "labels hurt": "kNN-UE worse than without labels",
    "neighbors": "weights and the number of neighbors",
    "search": "approximate search: loss and coverage",
    "time": "time",
    "": "arithmetic",
}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A heading and lines of text, all equally long; `strong` are the (line, column) set in bold.

    Of the columns some are `text_columns` and not numbers, and of those some are `sentences`, which a page may break.
    `details` are columns that a page writes beneath another one.
    """

    title: str
    heading: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()
    text_columns: frozenset[int] = frozenset({0})
    sentences: frozenset[int] = frozenset()
    details: Mapping[int, int] = field(default_factory=dict)


def grids_of(filled: FilledTable) -> list[Grid]:
    """Return one grid for each test set of a table."""
    return [*map(_scores, filled.blocks), *map(_times, filled.times)]


def overview_grid(tables: Sequence[FilledTable]) -> Grid:
    """Return how many claims of each table hold, and how many do not."""
    counts = []
    for filled in tables:
        words = [one.word for one in filled.verdicts]
        counts.append((filled.table.name, str(len(words)), *(str(words.count(word)) for word in get_args(Word))))
    return Grid(
        title="Claims by table",
        heading=("table", "claims", "hold", "do not hold", "undecided", "cannot be tested here"),
        lines=tuple(counts),
    )


def topic_grid(verdicts: Sequence[ClaimVerdict]) -> Grid:
    """Return the verdicts by what the claims are about, with our gain as a share of the paper's."""
    lines = []
    for topic in get_args(Topic):
        chosen = [one for one in verdicts if one.topic == topic]
        if chosen:
            words = [one.word for one in chosen]
            effects = [[x for x in found if not math.isnan(x)] for found in zip(*_effects(chosen), strict=True)]
            medians = [f"{median(found):.2f}" if found else EMPTY for found in effects]
            counts = [str(len(words)), *(str(words.count(word)) for word in get_args(Word))]
            lines.append((_TOPICS.get(topic, topic), *counts, *medians))
    heading = ("claims on", "claims", "hold", "do not hold", "undecided", "cannot be tested here")
    return Grid(
        title="Claims by topic",
        heading=(*heading, "median gain, × the paper's", "median 95 % interval, ± × the paper's gain"),
        lines=tuple(lines),
    )


def _effects(verdicts: Iterable[ClaimVerdict]) -> list[tuple[float, float]]:
    return [(one.effect, one.precision) for one in verdicts]


def verdict_grid(verdicts: Sequence[ClaimVerdict]) -> Grid:
    """Return the claims of a table with the paper's numbers, ours and what became of them."""
    heading = ("claim", "set", "measure", "verdict", "why", "paper", "ours", "gain [95 %]", "of the paper's gain")
    return Grid(
        title="Verdicts",
        heading=(*heading, "p of no gain (Holm)", "p against (Holm)", "p (t-test)", "by our definition"),
        lines=tuple(
            (
                one.claim,
                one.place,
                one.measure,
                one.word,
                one.reason or EMPTY,
                one.paper,
                one.ours,
                one.interval,
                EMPTY if math.isnan(one.effect) else f"{one.effect:.2f}",
                _p(one.p),
                _p(one.p_against),
                _p(one.t_test),
                one.by_our_definition or EMPTY,
            )
            for one in verdicts
        ),
        text_columns=frozenset({0, 1, 2, 3, 4, 12}),
        sentences=frozenset({0, 3}),
        details={1: 0, 2: 0, 4: 3},
    )


def _scores(block: FilledBlock) -> Grid:
    shown = [
        name
        for name in block.measures
        if any(row[name].mean is not None or row[name].published is not None for row in block.rows.values())
    ]
    heading = ["method"]
    for name in shown:
        heading += [f"{_title(name)} paper", f"{_title(name)} ours"] if block.has_published(name) else [_title(name)]
    lines, strong = [], set()
    for number, (method, row) in enumerate(block.rows.items()):
        remark = block.remarks.get(method)
        line = [f"{method} ({remark})" if remark else method]
        for name in shown:
            if block.has_published(name):
                line.append(EMPTY if row[name].published is None else str(row[name].published))
            if row[name].best:
                strong.add((number, len(line)))
            line.append(str(row[name]))
        lines.append(tuple(line))
    return Grid(title=block.title, heading=tuple(heading), lines=tuple(lines), strong=frozenset(strong))


def _title(name: str) -> str:
    measure = measure_of(name)
    ours = " (our definition)" if name in OURS.values() and name not in ("auroc",) else ""
    ours = " right / wrong" if name == "auroc" else ours
    unit = "" if measure.unit == 1 else " %" if measure.unit == 100 else " ×1000"
    return f"{measure.title}{ours}{unit} {measure.arrow}"


def _times(block: TimeBlock) -> Grid:
    lines = [
        (
            name,
            EMPTY if row.published is None else str(row.published),
            EMPTY if row.published_ratio is None else f"{row.published_ratio:.2f}",
            f"{row.milliseconds:.3g}",
            f"{row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}]",
        )
        for name, row in block.rows.items()
    ]
    title = f"{block.title}; {'measured while other jobs ran' if block.busy else 'on an idle machine'}"
    heading = ("method", "paper, s", "paper, × first", "ours, ms", "ours, × first [rounds]")
    return Grid(title=title, heading=heading, lines=tuple(lines))


def _p(value: float) -> str:
    if math.isnan(value):
        return EMPTY
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def counted(verdicts: Iterable[ClaimVerdict]) -> str:
    """Return how many claims hold, do not hold, are undecided, are untestable, and what limits that.

    One seed decides nothing. Arithmetic (the toy table) holds without any. Where the second side leaves no room for
    half the paper's gain, a claim would fail whatever the first method does.
    """
    verdicts = list(verdicts)
    held, refuted, undecided, untested = ([one for one in verdicts if one.word == word] for word in get_args(Word))
    limits = (
        _limits(len(held), {"arithmetic": sum(not one.setup for one in held)}),
        "",
        _limits(len(undecided), {"with one seed only": sum(one.one_seed for one in undecided)}),
        _limits(
            len(untested),
            {
                "without room for the paper's gain": sum(one.no_room for one in untested),
                "not measured": sum(not one.measured for one in untested),
            },
        ),
    )
    words = (("holds", "hold"), ("does not hold", "do not hold"), ("is undecided", "are undecided"))
    lists = (held, refuted, undecided, untested)
    return ", ".join(
        f"{len(found)} {one if len(found) == 1 else many}{limit}"
        for found, (one, many), limit in zip(lists, (*words, ("cannot be tested here",) * 2), limits, strict=True)
    )


def _limits(n_all: int, counts: Mapping[str, int]) -> str:
    """Return how many are of which kind, in parentheses, nothing where none is."""
    found = [words if number == n_all else f"{number} of them {words}" for words, number in counts.items() if number]
    return f" ({', '.join(found)})" if found else ""
