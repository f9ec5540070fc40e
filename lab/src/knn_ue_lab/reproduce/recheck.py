"""How far a cell that was measured again is from the one that is kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, stdev
from typing import Any

from knn_ue_lab.reproduce.cells import Content

_SAME = 1e-6  # cells keep seven digits
# In standard deviations over seeds: another processor rounds differently, another recipe gives other models. The
# median of all numbers of a cell must be below the first, each of them below the second. Of many numbers of few seeds
# some have next to no scatter by chance, so the second takes `_ENOUGH` of them.
_CLOSE, _NEVER_BEYOND, _ENOUGH = 0.5, 4.0, 4


@dataclass(frozen=True, kw_only=True)
class Difference:
    """`largest` is relative, over all numbers of a cell; `spreads` are standard deviations over seeds.

    `spreads` is the median of all numbers, `most_spreads` the most; both are NaN with fewer than two of the `n_seeds`.
    """

    largest: float
    spreads: float = math.nan
    most_spreads: float = math.nan
    n_seeds: int = 0

    @property
    def is_judged(self) -> bool:
        """Whether it can be said if it is close: not with one seed, unless nothing differs at all."""
        return self.largest == 0 or math.isinf(self.largest) or not math.isnan(self.spreads)

    @property
    def is_close(self) -> bool:
        """Whether it is the same cell, or one that differs as little as rounding makes models of one seed differ."""
        if self.largest == 0:
            return True
        within = self.n_seeds < _ENOUGH or self.most_spreads <= _NEVER_BEYOND
        return math.isfinite(self.largest) and self.spreads <= _CLOSE and within

    def __str__(self) -> str:
        if self.largest == 0:
            return "the same"
        if math.isinf(self.largest):
            return "could not be compared"
        told = f"differs by up to {100 * self.largest:.2g} %"
        if not self.is_judged:
            return f"{told}; one seed does not tell how much that is"
        return f"{told}; in standard deviations over seeds: median {self.spreads:.2g}, most {self.most_spreads:.2g}"


def difference_of(
    kept: Content, again: Content, of_seeds: Sequence[Content], of_plain: Sequence[Content] = ()
) -> Difference:
    """Return how far a cell is from the kept one; `of_seeds` are the kept cells of all seeds, this one among them.

    Where those are few, `of_plain`, the cells of the plain model, show how far seeds scatter.
    """
    if len(of_seeds) < _ENOUGH:
        of_seeds = max(of_seeds, of_plain, key=len)
    seeds = [dict(_numbers(one)) for one in of_seeds]
    first, second = dict(_numbers(kept)), dict(_numbers(again))
    scatter = {name: stdev(known) for name in first if len(known := [one[name] for one in seeds if name in one]) > 1}
    gaps = {name: abs(first[name] - second[name]) for name in scatter if name in second}
    spreads = [gap / scatter[name] if scatter[name] else math.inf for name, gap in gaps.items() if gap or scatter[name]]
    largest = largest_difference(kept, again)
    return (
        Difference(largest=largest, spreads=median(spreads), most_spreads=max(spreads), n_seeds=len(seeds))
        if spreads
        else Difference(largest=largest)
    )


def largest_difference(first: object, second: object) -> float:
    """Return the largest relative difference between the numbers of two cells; seconds, which differ, are left out.

    >>> largest_difference({"sets": {"a": {"ece": 0.5}}, "seconds": 1.0}, {"sets": {"a": {"ece": 0.5}}, "seconds": 2.0})
    0.0
    """
    if isinstance(first, dict) and isinstance(second, dict):
        keys = {key for key in first if not str(key).endswith("seconds")}  # measures that came later are no difference
        if any(key not in second for key in keys):
            return math.inf
        return max((largest_difference(first[key], second[key]) for key in keys), default=0.0)
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return max((largest_difference(a, b) for a, b in zip(first, second, strict=True)), default=0.0)
    if isinstance(first, float | int) and isinstance(second, float | int):
        difference = abs(first - second) / max(abs(first), abs(second), _SAME)
        return difference if difference > _SAME else 0.0
    return 0.0 if first == second else math.inf


def _numbers(content: Content) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the numbers of a cell with the set and the name of each."""
    sets: dict[str, dict[str, Any]] = content.get("sets", {})
    for part, measured in sets.items():
        for name, value in measured.items():
            if isinstance(value, float | int):
                yield (part, name), float(value)
