"""The league: in how many comparisons each method does well, over test sets and measures, with every method in it.

A column is one measure of one test set. In a column, the rank of a method is the share of the other methods whose mean
is better, each pair over the seeds that both have: those with fewer seeds are neither helped nor harmed by which ones.
Methods that are equal in the digits of the tables count half, pairs without a common seed not at all. So 0 is the best
of all everywhere, 1 the worst, and columns with few methods count as much as others. The interval draws test sets, with
all their measures, and seeds, the same ones for all methods; of n it draws n - 1, since n drawn of n scatter less than
the mean of n does, and lies around the measured rank. A method wins against another one in a column where the paired
test of the tables says that it is better (p below 0.05 and an interval without zero, not corrected for how many there
are, and seen in the digits), loses where it is worse, ties elsewhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue_lab.reproduce.comparisons import pair_of
from knn_ue_lab.reproduce.few_seeds import LEVEL
from knn_ue_lab.reproduce.measures import VISIBLE
from knn_ue_lab.reproduce.statistics import FEWEST_SEEDS, PairedTest
from knn_ue_lab.reproduce.verdicts import ALPHA

_DRAWS = 1000
_BLOCK = 50  # draws at a time: (draws, columns, methods, methods) stays small
_DIGITS = 2  # of the tables
_ROUNDING = 1e-9  # what equal mean ranks may differ by


@dataclass(frozen=True, kw_only=True)
class Column:
    """One measure of one test set: `values` by method and seed, as tables show them.

    `tests` compare two methods by the measure, as fractions of `unit`; those that were not tested are not there.
    """

    setup: str
    part: str
    measure: str
    values: Mapping[str, Mapping[int, float]]
    higher_is_better: bool = False
    unit: float = 1.0
    tests: Mapping[tuple[str, str], PairedTest] = field(default_factory=dict)

    def mean(self, method: str, *others: str) -> float:
        """Return the mean over the seeds of the method that the others have too, NaN where there are none."""
        found = self.values.get(method, {})
        seeds = set(found).intersection(*(self.values.get(other, {}) for other in others))
        return sum(found[seed] for seed in seeds) / len(seeds) if seeds else math.nan

    def is_better(self, first: str, second: str) -> bool:
        """Say whether the mean of the first is better, over the seeds of both and in the digits of the tables."""
        sign = 1 if self.higher_is_better else -1
        ours, others = self.mean(first, second), self.mean(second, first)
        return sign * round(ours, _DIGITS) > sign * round(others, _DIGITS)


@dataclass(frozen=True)
class Record:
    """Wins, ties and losses; comparisons that were not tested are in none of them."""

    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def total(self) -> int:
        """How many comparisons were tested."""
        return self.wins + self.ties + self.losses

    def __add__(self, other: "Record") -> "Record":
        return Record(self.wins + other.wins, self.ties + other.ties, self.losses + other.losses)

    def __str__(self) -> str:
        return f"{self.wins} / {self.ties} / {self.losses}" if self.total else "–"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One method: its mean rank with both bounds, how many columns it is of, its comparisons, its fewest seeds.

    `first` is in which share of the bootstrap draws no method with as many columns has a better mean rank, NaN where
    there is nothing to draw.
    """

    method: str
    rank: float
    low: float
    high: float
    first: float
    n_columns: int
    record: Record
    n_seeds: int


def of_measure(columns: Iterable[Column], measure: str) -> list[Column]:
    """Return the columns of one measure."""
    return [column for column in columns if column.measure == measure]


def without_tags(columns: Iterable[Column], tagging: Sequence[str]) -> list[Column]:
    """Return the columns of texts, those of tags only where there are no others."""
    columns = list(columns)
    return [column for column in columns if column.setup not in tagging] or columns


def in_all(columns: Sequence[Column]) -> list[str]:
    """Return the methods that were measured in all columns."""
    names = list(columns[0].values) if columns else []
    return [name for name in names if all(name in column.values for column in columns)]


def league_of(columns: Sequence[Column]) -> list[Standing]:
    """Return the standings of all methods that were measured in a column with another one, the best first."""
    columns = [column for column in columns if len(column.values) > 1]
    methods = list(dict.fromkeys(method for column in columns for method in column.values))
    if not methods:
        return []
    values = _values(columns, methods)
    by_column = ranks(*_means(values, np.ones((len(columns), values.shape[2]))))
    measured = _mean_rank(by_column, np.ones(len(columns)))
    n_columns = (~np.isnan(by_column)).sum(axis=0)
    low, high, first = _bounds(columns, values, measured, n_columns == n_columns.max())
    standings = [
        Standing(
            method=method,
            rank=float(measured[place]),
            low=float(low[place]),
            high=float(high[place]),
            first=float(first[place]),
            n_columns=int(n_columns[place]),
            record=record_of(columns, method),
            n_seeds=min(len(column.values[method]) for column in columns if method in column.values),
        )
        for place, method in enumerate(methods)
    ]
    return sorted(standings, key=lambda one: one.rank)


def placed(standings: Sequence[Standing]) -> list[Standing]:
    """Return those that were measured in as many columns as any: only they can be compared by their mean rank."""
    most = max((one.n_columns for one in standings), default=0)
    return [one for one in standings if one.n_columns == most]


def numbers_of(ranks: Sequence[float]) -> list[int]:
    """Return the place of each mean rank, the best is 1; equal ones share a place.

    >>> numbers_of([0.1, 0.3, 0.1])
    [1, 3, 1]
    """
    return [1 + sum(other < one - _ROUNDING for other in ranks) for one in ranks]


def record_of(columns: Iterable[Column], method: str, other: str | None = None) -> Record:
    """Return the wins, ties and losses of a method against another one, or against every one."""
    record = Record()
    for column in columns:
        if method in column.values:
            for rival in column.values if other is None else (other,):
                if rival != method and rival in column.values:
                    record += _result(column, method, rival)
    return record


def ranks(mine: FloatArray, others: FloatArray) -> FloatArray:
    """Return the share of the other methods that are better (..., methods), where lower is better.

    Both are (..., methods, methods): the mean of the first method and that of the second, over the seeds of both, NaN
    where they have none. Equal ones count half.

    >>> means = np.broadcast_to([0.1, 0.3, 0.1, np.nan], (4, 4))
    >>> ranks(means.T, means).tolist()
    [0.25, 1.0, 0.25, nan]
    """
    compared = ~np.isnan(mine + others) & ~np.eye(mine.shape[-1], dtype=bool)
    better = np.where(compared, (others < mine) + 0.5 * (others == mine), 0.0).sum(axis=-1)
    n_others = compared.sum(axis=-1)
    found: FloatArray = np.divide(better, n_others, out=np.full(better.shape, np.nan), where=n_others > 0)
    return found


def _values(columns: Sequence[Column], methods: Sequence[str]) -> FloatArray:
    """Return numbers where lower is better (columns, methods, seeds), NaN where there are none."""
    seeds = sorted({seed for column in columns for found in column.values.values() for seed in found})
    values = np.full((len(columns), len(methods), len(seeds)), np.nan)
    for row, column in enumerate(columns):
        sign = -1.0 if column.higher_is_better else 1.0
        for method, found in column.values.items():
            for seed, value in found.items():
                values[row, methods.index(method), seeds.index(seed)] = sign * value
    return values


def _means(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of both of two methods over the seeds that both have, twice (..., columns, methods, methods).

    They are in the digits of tables; `counts` (..., columns, seeds) says how often a seed was drawn.
    """
    known = (~np.isnan(values)).astype(np.float64)
    drawn = counts[..., None, :] * known  # (..., columns, methods, seeds)
    n_shared = np.einsum("...cms,cns->...cmn", drawn, known)
    total = np.einsum("...cms,cns->...cmn", drawn * np.where(np.isnan(values), 0.0, values), known)
    mine: FloatArray = np.divide(total, n_shared, out=np.full(total.shape, np.nan), where=n_shared > 0)
    mine = np.round(mine, _DIGITS)
    return mine, np.swapaxes(mine, -1, -2)


def _mean_rank(ranked: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the mean over columns (..., methods) drawn so often, `counts` (..., columns); NaN where there are none."""
    known = ~np.isnan(ranked)
    total = np.einsum("...c,...cm->...m", counts, np.where(known, ranked, 0.0))
    n_drawn = np.einsum("...c,...cm->...m", counts, known.astype(np.float64))
    mean: FloatArray = np.divide(total, n_drawn, out=np.full(total.shape, np.nan), where=n_drawn > 0)
    return mean


def _bounds(
    columns: Sequence[Column], values: FloatArray, measured: FloatArray, placed: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both bounds of the mean ranks (methods,), and how often each of those that are `placed` is the best."""
    if len({(column.setup, column.part) for column in columns}) == 1 and values.shape[2] == 1:
        return np.zeros(len(measured)), np.ones(len(measured)), np.full(len(measured), math.nan)
    rng = np.random.default_rng(0)
    seeds = np.empty((_DRAWS, len(columns), values.shape[2]))
    for rows in _rows_by([column.setup for column in columns]):
        present = np.flatnonzero(~np.isnan(values[rows]).all(axis=(0, 1)))
        seeds[:, rows] = _drawn(present, values.shape[2], rng)[:, None]
    sets = _rows_by([(column.setup, column.part) for column in columns])
    drawn_sets = _drawn(np.arange(len(sets)), len(sets), rng)
    chosen = np.empty((_DRAWS, len(columns)))
    for number, rows in enumerate(sets):
        chosen[:, rows] = drawn_sets[:, [number]]
    blocks = [slice(start, start + _BLOCK) for start in range(0, _DRAWS, _BLOCK)]
    drawn = np.concatenate([_mean_rank(ranks(*_means(values, seeds[block])), chosen[block]) for block in blocks])
    scattered = drawn - np.nanmean(drawn, axis=0) + measured
    low, high = np.nanquantile(scattered, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    compared = np.where(placed & ~np.isnan(scattered), scattered, np.inf)  # a draw may have no column of a method
    first: FloatArray = (compared <= compared.min(axis=1, keepdims=True) + _ROUNDING).mean(axis=0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0), first


def _rows_by(keys: Sequence[object]) -> list[IntArray]:
    """Return the places of each key, in the order of the first ones."""
    return [np.array([row for row, key in enumerate(keys) if key == one]) for one in dict.fromkeys(keys)]


def _drawn(known: IntArray, n_all: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each of `n_all` is in each draw (draws, n_all): of the known ones one fewer than there are."""
    chosen = rng.choice(known, size=(_DRAWS, max(1, len(known) - 1)))
    counts: FloatArray = (chosen[:, :, None] == np.arange(n_all)).sum(axis=1).astype(np.float64)
    return counts


def _result(column: Column, method: str, rival: str) -> Record:
    found = pair_of(column.tests, method, rival)
    if found is None or math.isnan(found.p) or found.n_seeds < FEWEST_SEEDS:
        return Record()
    if found.p >= ALPHA or found.low <= 0 <= found.high or abs(column.unit * found.difference) < VISIBLE:
        return Record(ties=1)
    return Record(wins=1) if (found.difference > 0) == column.higher_is_better else Record(losses=1)
