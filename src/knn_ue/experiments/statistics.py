"""Is one method better than another? Paired tests on the same texts and the same seeds.

The bootstrap draws texts (sentences in tagging) and seeds, both with replacement, the same ones for all methods. Of S
seeds it draws S - 1, which makes the variance it shows that of the mean over S seeds: drawing S would be too sure. It
shows how far a difference scatters; the interval is put around the measured difference, since errors of calibration
grow when rows are drawn twice. With few seeds it decides; the t-test over seeds is the paper's, and is shown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.experiments.answers import Answers
from knn_ue.metrics.bootstrap import GroupRows

# What a method said with one seed: of one set, or of an in-domain set and another one.
Sample = tuple[Answers, ...]
Function = Callable[..., float]

LEVEL = 0.95
N_BOOTSTRAP = 2000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How much larger a number of the first method is than that of the second: mean over seeds, interval, p-values.

    `p` is the bootstrap's, two-sided and not corrected for other comparisons; `t_test` is NaN with a single seed.
    """

    difference: float
    low: float
    high: float
    p: float
    t_test: float
    n_seeds: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Replicates:
    """A measure of each method: `measured` (methods, seeds), and `drawn` (methods, seeds, draws) on drawn texts."""

    methods: tuple[str, ...]
    measured: FloatArray
    drawn: FloatArray

    def compare(self, first: str, second: str, *, seed: int = 0) -> Comparison:
        """Compare two methods."""
        a, b = self.methods.index(first), self.methods.index(second)
        n_seeds, n_draws = self.drawn.shape[1:]
        rng = np.random.default_rng(seed)
        chosen = rng.integers(n_seeds, size=(n_draws, max(1, n_seeds - 1)))
        by_seed = (self.drawn[a] - self.drawn[b]).T
        scattered = np.take_along_axis(by_seed, chosen, axis=1).mean(axis=1)
        scattered = scattered[~np.isnan(scattered)]
        difference = float(np.mean(self.measured[a] - self.measured[b]))
        t_test = paired_t_test(self.measured[a], self.measured[b])
        if not len(scattered) or math.isnan(difference):
            nan = math.nan
            return Comparison(difference=difference, low=nan, high=nan, p=nan, t_test=t_test, n_seeds=n_seeds)
        centered = scattered - scattered.mean() + difference
        low, high = np.quantile(centered, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Comparison(
            difference=difference,
            low=float(low),
            high=float(high),
            p=_two_sided(centered),
            t_test=t_test,
            n_seeds=n_seeds,
        )


def bootstrap(
    samples: Mapping[str, Sequence[Sample]],
    functions: Mapping[str, Function],
    *,
    n_groups: Sequence[int],
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> dict[str, Replicates]:
    """Return the replicates of each function: `samples` are by method and seed, `n_groups` the texts of each set."""
    methods = tuple(samples)
    n_seeds = len(next(iter(samples.values())))
    indexes = {
        name: [[GroupRows(one.group, size) for one, size in zip(sample, n_groups, strict=True)] for sample in by_seed]
        for name, by_seed in samples.items()
    }
    measured = {name: np.empty((len(methods), n_seeds)) for name in functions}
    drawn = {name: np.empty((len(methods), n_seeds, n_bootstrap)) for name in functions}
    rng = np.random.default_rng(seed)
    for number in range(-1, n_bootstrap):
        chosen = [np.arange(size) if number < 0 else rng.integers(size, size=size) for size in n_groups]
        for place, method in enumerate(methods):
            for which, sample in enumerate(samples[method]):
                found = [
                    one if number < 0 else one.take(rows(groups))
                    for one, rows, groups in zip(sample, indexes[method][which], chosen, strict=True)
                ]
                for name, function in functions.items():
                    value = function(*found)
                    if number < 0:
                        measured[name][place, which] = value
                    else:
                        drawn[name][place, which, number] = value
    return {name: Replicates(methods=methods, measured=measured[name], drawn=drawn[name]) for name in functions}


def paired_t_test(first: FloatArray, second: FloatArray) -> float:
    """Return the two-sided p-value of Student's paired t-test over seeds, NaN with fewer than two.

    >>> round(paired_t_test(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.5, 1.0])), 4)
    0.1885
    """
    difference = np.asarray(first) - np.asarray(second)
    if len(difference) < 2 or np.isnan(difference).any():
        return math.nan
    if np.ptp(difference) == 0:  # no spread: scipy would divide by zero
        return 1.0 if difference[0] == 0 else 0.0
    from scipy.stats import ttest_rel

    return float(ttest_rel(first, second).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that stay honest however many were looked at. Holm (1979). NaN stays NaN and counts as none.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [number for number, p in enumerate(p_values) if not math.isnan(p)]
    adjusted = list(p_values)
    largest = 0.0
    for place, number in enumerate(sorted(known, key=lambda number: p_values[number])):
        largest = max(largest, min(1.0, (len(known) - place) * p_values[number]))
        adjusted[number] = largest
    return adjusted


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample standard deviation, None with a single value."""
    mean = float(np.mean(values))
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else None


def _two_sided(centered: FloatArray) -> float:
    """Return how often the difference falls on the other side of zero, twice, never 0."""
    below, above = int((centered <= 0).sum()), int((centered >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(centered) + 1))
