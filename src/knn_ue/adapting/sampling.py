"""Which rows of a pool to label: at random, or more of the doubtful ones, with weights that undo the uneven draw."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_choice, check_positive, probability_vector
from knn_ue.errors import InvalidInputError

Strategy = Literal["random", "stratified"]

_STRATA = 5
# A stratum of sure answers still holds errors, and they weigh most: none is drawn less than half as often as by chance.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """The rows (n,) to label, in a random order, and the weight (n,) of each: its stratum's share of the pool over its
    share of the draw. All weights are 1 in a draw at random."""

    rows: IntArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.rows)


def draw_rows(scores: FloatArray, n: int, *, strategy: Strategy = "random", seed: int = 0) -> Drawn:
    """Return which `n` rows of a pool with these `scores` to label; all of them where the pool is not larger.

    "random" gives every row the same chance. "stratified" cuts the pool into fifths by score, draws at random within
    each, and more where answers are doubtful: in proportion to sqrt(p (1 - p)) of the stratum's mean score, which is
    what estimates the accuracy best from few labels (Neyman, 1934). Both leave the fit unbiased, if the weights are
    given to it.

    >>> drawn = draw_rows(np.linspace(0.5, 1.0, 1000), 50, strategy="stratified")
    >>> len(drawn), len(set(drawn.rows.tolist())), round(float(drawn.weights.sum()))
    (50, 50, 50)
    """
    check_choice(strategy, "strategy", get_args(Strategy))
    check_positive(n, "n")
    checked = probability_vector(scores, "scores")
    if not len(checked):
        raise InvalidInputError("the pool is empty: give at least one row")
    rng = np.random.default_rng(seed)
    n = min(n, len(checked))
    if strategy == "random" or n < 2 * _STRATA:
        rows = rng.choice(len(checked), size=n, replace=False)
        return Drawn(rows=rows.astype(np.int64), weights=np.ones(n))
    order = rng.permutation(len(checked))
    order = order[np.argsort(checked[order], kind="stable")]  # ties in a random order
    strata = np.array_split(order, _STRATA)
    sizes = _allocation([len(stratum) for stratum in strata], [float(checked[x].mean()) for x in strata], n)
    parts = [rng.choice(stratum, size=size, replace=False) for stratum, size in zip(strata, sizes, strict=True)]
    weights = [
        np.full(size, len(stratum) / len(checked) * n / size) for stratum, size in zip(strata, sizes, strict=True)
    ]
    mixed = rng.permutation(n)  # whoever labels only the first half still has a sample of everything
    return Drawn(rows=np.concatenate(parts)[mixed].astype(np.int64), weights=np.concatenate(weights)[mixed])


def _allocation(sizes: list[int], means: list[float], n: int) -> list[int]:
    """Return how many rows to draw of each stratum: at least one, at most all, `n` together."""
    spread = np.sqrt(np.maximum(np.array(means) * (1 - np.array(means)), 1e-6))
    share = np.array(sizes) * spread
    even = np.array(sizes) / sum(sizes)
    share = np.maximum(share / share.sum(), _LEAST_SHARE * even)
    wanted = n * share / share.sum()
    found = np.clip(np.floor(wanted).astype(int), 1, sizes)
    while found.sum() != n:
        step = 1 if found.sum() < n else -1
        room = found < sizes if step > 0 else found > 1
        behind = np.where(room, step * (wanted - found), -np.inf)
        found[int(np.argmax(behind))] += step
    return [int(size) for size in found]
