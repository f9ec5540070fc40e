"""Is one method better than another? Paired tests on the same texts and the same seeds.

The mean difference of S seeds has two errors. One is shared by all seeds: another test set would have other texts. Its
variance is the covariance of two seeds over bootstrap draws of texts (sentences in tagging), the same ones for all
methods and seeds. The other is of each seed: its training, and how the texts happen to suit its model. Its variance is
that of the S measured differences, divided by S. A bootstrap of texts and seeds together would count what the texts do
to single seeds several times. `few_seeds` adds both errors; the t-test over seeds is the paper's, and is shown. Two
methods are compared on the seeds that both have: a cell that failed costs no other method a seed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue_lab.reproduce import few_seeds
from knn_ue_lab.reproduce.answers import Answers

# What a method said with one seed: of one set, or of an in-domain set and another one.
Sample = tuple[Answers, ...]
# Values of one sample by measure: as it is, then of each draw, (1 + draws,).
Redrawn = Mapping[str, FloatArray]

FEWEST_SEEDS = 2  # one says nothing of how much the next training differs
_ROUNDING = 1e-12  # what equal numbers may differ by when they are computed in another order
N_BOOTSTRAP = 2000
_BLOCK = 1 << 16  # counts of texts at a time: what is made of them stays near the processor


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """One measure: `function` of a sample, and `drawn`, its values for many draws of the sample's texts.

    Measures that compute the same have the same `computes`.
    """

    function: Callable[..., float]
    drawn: Callable[..., FloatArray]
    computes: str = ""


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """How much larger a number of the first method is than that of the second: mean over seeds, interval, p-values.

    `first` and `second` are the two means, of the seeds and texts that both methods saw. `p` is two-sided and not
    corrected for other comparisons; with a single seed it is that of texts alone, and `t_test` is NaN. `n_texts` is how
    many of the first texts were compared, None where all were. `share` is the seeds' part of the standard error.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    t_test: float
    n_seeds: int
    n_texts: int | None = None
    share: float = 0.0

    def reversed(self) -> "PairedTest":
        """Return how the second compares with the first."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Replicates:
    """A measure of each method: `measured` (methods, seeds), and `drawn` (methods, seeds, draws) on drawn texts.

    `present` (methods, seeds) says which seeds a method was measured with; all where it is not given.
    """

    methods: tuple[str, ...]
    measured: FloatArray
    drawn: FloatArray
    present: BoolArray | None = None

    def compare(self, first: str, second: str) -> PairedTest:
        """Compare two methods on the seeds that both have."""
        a, b = self.methods.index(first), self.methods.index(second)
        present = np.ones(self.measured.shape, bool) if self.present is None else self.present
        shared = np.flatnonzero(present[a] & present[b])
        one, other = self.measured[a, shared], self.measured[b, shared]
        difference = float(np.mean(one - other)) if len(shared) else math.nan
        of_texts, of_seeds = self._errors(a, b, shared)
        bound, p, share = few_seeds.bound_and_p(difference, of_texts, of_seeds, len(shared))
        return PairedTest(
            first=float(np.mean(one)) if len(shared) else math.nan,
            second=float(np.mean(other)) if len(shared) else math.nan,
            difference=difference,
            low=difference - bound,
            high=difference + bound,
            p=p,
            t_test=paired_t_test(one, other),
            n_seeds=len(shared),
            share=share,
        )

    def _errors(self, a: int, b: int, shared: IntArray) -> tuple[float, float]:
        """Return the standard errors of the mean difference: of texts, which all seeds share, and of seeds."""
        drawn = self.drawn[a, shared] - self.drawn[b, shared]
        n_seeds, n_draws = drawn.shape
        drawn = drawn[:, ~np.isnan(drawn).any(axis=0)]
        if not n_seeds or drawn.shape[1] < max(2, n_draws / 2):  # a number that few draws have is not known
            return math.nan, math.nan
        variances = drawn.var(axis=1, ddof=1)
        if n_seeds == 1:
            return math.sqrt(float(variances[0])), 0.0
        # The mean covariance of two seeds, from the variance of their mean.
        of_mean = float(drawn.mean(axis=0).var(ddof=1))
        common = max(0.0, (n_seeds * of_mean - float(variances.mean())) / (n_seeds - 1))
        measured = self.measured[a, shared] - self.measured[b, shared]
        return math.sqrt(common), float(np.std(measured, ddof=1)) / math.sqrt(n_seeds)


def redrawn(
    samples: Sequence[Sample],
    measures: Mapping[str, Resampled],
    *,
    n_groups: Sequence[int],
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> list[Redrawn]:
    """Return the values of each sample by measure: of the sample as it is, then of each draw, (1 + draws,).

    The draws depend on `n_groups`, `n_bootstrap` and `seed` alone: samples may also be given one after the other.
    """
    values: list[Redrawn] = [{name: np.full(1 + n_bootstrap, np.nan) for name in measures} for _ in samples]
    for sample, by_measure in zip(samples, values, strict=True):
        for name, measure in measures.items():
            by_measure[name][0] = measure.function(*sample)
    for draws, texts in _drawn_texts(n_groups, n_bootstrap, seed):
        places = slice(1 + draws.start, 1 + draws.stop)
        for sample, by_measure in zip(samples, values, strict=True):
            counts = [drawn_of[one.group] for one, drawn_of in zip(sample, texts, strict=True)]
            for name, measure in measures.items():
                by_measure[name][places] = measure.drawn(*sample, *counts)
    return values


def replicates_of(measure: str, by_method: Mapping[str, Sequence[Redrawn | None]]) -> Replicates:
    """Return the replicates of a measure: what `redrawn` returned of each method and seed, None where it has none."""
    present = np.array([[one is not None for one in by_seed] for by_seed in by_method.values()], dtype=bool)
    length = next(len(one[measure]) for by_seed in by_method.values() for one in by_seed if one is not None)
    values = np.full((*present.shape, length), np.nan)
    for place, by_seed in enumerate(by_method.values()):
        for which, one in enumerate(by_seed):
            if one is not None:
                values[place, which] = one[measure]
    return Replicates(methods=tuple(by_method), measured=values[..., 0], drawn=values[..., 1:], present=present)


def _drawn_texts(n_groups: Sequence[int], n_draws: int, seed: int) -> Iterator[tuple[slice, list[FloatArray]]]:
    """Yield some draws at a time: which ones, and how often each text of each set is in them, (texts, draws)."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // max(*n_groups, 1))
    for start in range(0, n_draws, at_once):
        draws = slice(start, min(start + at_once, n_draws))
        texts: list[FloatArray] = [np.zeros((size, draws.stop - start)) for size in n_groups]
        for column in range(draws.stop - start):
            for size, counts in zip(n_groups, texts, strict=True):
                counts[:, column] = np.bincount(rng.integers(size, size=size), minlength=size)
        yield draws, texts


def paired_t_test(first: FloatArray, second: FloatArray) -> float:
    """Return the two-sided p-value of Student's paired t-test over seeds, NaN with fewer than two.

    >>> round(paired_t_test(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.5, 1.0])), 4)
    0.1885
    """
    difference = np.asarray(first) - np.asarray(second)
    if len(difference) < 2 or np.isnan(difference).any():
        return math.nan
    if np.abs(difference).max() < _ROUNDING:
        return 1.0
    if np.ptp(difference) < _ROUNDING:  # no spread: scipy would divide by zero
        return 0.0
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
