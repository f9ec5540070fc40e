"""Indexes, measured: how long each takes, what it holds, and what kNN-UE makes of the neighbors it finds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.calibrators import Calibrator, Found, KnnUE
from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.stores.faiss_index import FaissIndex
from knn_ue.stores.segment import Index
from knn_ue.types import Neighbors, Outputs

# (confidence, correct) of the answers that a user is given: rows, or whole entities in tagging
Scored = Callable[[Outputs, Calibrator, Found], tuple[FloatArray, BoolArray]]

_BATCH = 256
_TIMED_QUERIES = 2048
_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How much an index may lose: `nll` as a share of the exact search's log-loss, `ece` in points of probability.

    `level` is that of the one-sided interval of the paired difference in log-loss; `max_bytes` bounds what the search
    keeps in memory.
    """

    nll: float = 0.001
    ece: float = 0.003
    level: float = 0.95
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("nll", "ece"):
            if not getattr(self, name) >= 0:
                raise InvalidInputError(f"the tolerance of {name} must be at least 0, got {getattr(self, name)}")
        if not 0.5 <= self.level < 1:
            raise InvalidInputError(f"level must lie within [0.5, 1), got {self.level}")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise InvalidInputError(f"max_bytes must be at least 1, got {self.max_bytes}")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One index measured on validation rows.

    `milliseconds` a query in batches of 256, the best of three rounds; `n_bytes` that a search reads, vectors included
    where it reads them; `coverage` the share of the exact neighbors that it finds; `nll` and `ece` of kNN-UE fitted on
    what it finds; `nll_increase` the upper end of the interval of the paired difference to the exact search.
    """

    options: IndexOptions
    milliseconds: float
    n_bytes: int
    coverage: float
    nll: float
    ece: float
    nll_increase: float
    good_enough: bool


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What was tried, the exact search first (nothing for a small store), and what was chosen."""

    chosen: IndexOptions
    trials: tuple[Trial, ...]
    n_queries: int

    @property
    def frontier(self) -> tuple[Trial, ...]:
        """The trials that no other one beats in both time and log-loss, fastest first."""
        kept: list[Trial] = []
        for trial in sorted(self.trials, key=lambda trial: (trial.milliseconds, trial.nll)):
            if not kept or trial.nll < kept[-1].nll:
                kept.append(trial)
        return tuple(kept)


@dataclass(frozen=True, eq=False)
class Exact:
    """What the exact search found and made of it: all others are compared with it."""

    trial: Trial
    rows: IntArray
    losses: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexTrials:
    """The stored `vectors` and `labels`, and the `validation` rows that are asked for."""

    vectors: FloatArray
    labels: IntArray
    validation: Outputs
    n_neighbors: int
    use_labels: bool
    tolerance: Tolerance
    scored: Scored

    def measure_exact(self, index: Index) -> Exact:
        """Measure the exact search."""
        found, losses, ece = self._answers(index)
        trial = Trial(
            options=IndexOptions(),
            milliseconds=self._milliseconds(index),
            n_bytes=self.vectors.nbytes,
            coverage=1.0,
            nll=float(losses.mean()),
            ece=ece,
            nll_increase=0.0,
            good_enough=self.fits(self.vectors.nbytes),
        )
        return Exact(trial, found.ids, losses)

    def measure(self, index: FaissIndex, options: IndexOptions, index_bytes: int, exact: Exact) -> Trial:
        """Measure an index with these settings, against the exact search."""
        found, losses, ece = self._answers(index)
        increase = self._upper_end(losses - exact.losses)
        n_bytes = index_bytes + (self.vectors.nbytes if options.recompute else 0)
        return Trial(
            options=options,
            milliseconds=self._milliseconds(index),
            n_bytes=n_bytes,
            coverage=metrics.neighbor_coverage(exact_ids=exact.rows, found_ids=found.ids),
            nll=float(losses.mean()),
            ece=ece,
            nll_increase=increase,
            good_enough=self.fits(n_bytes)
            and increase <= self.tolerance.nll * exact.trial.nll
            and ece <= exact.trial.ece + self.tolerance.ece,
        )

    def _answers(self, index: Index) -> tuple[Neighbors, FloatArray, float]:
        """Return the neighbors found, the log-loss of each row and the ECE of the answers that kNN-UE gives by them."""
        distances, rows = index.search(self._queries, self.n_neighbors)
        labels = np.where(rows >= 0, self.labels[rows], -1)
        neighbors = Neighbors(distances=distances, ids=rows, labels=labels)
        calibrator = KnnUE(self._store, n_neighbors=self.n_neighbors, use_labels=self.use_labels)
        found = dict.fromkeys(calibrator.stores, neighbors)
        calibrator.fit(self.validation, found=found)
        truth = self.validation.require_labels("tune_index")
        probs = calibrator.predict_proba(self.validation, found=found)[np.arange(len(truth)), truth]
        confidence, correct = self.scored(self.validation, calibrator, found)
        ece = metrics.expected_calibration_error(confidence=confidence, correct=correct) if len(correct) else 0.0
        return neighbors, -np.log(np.maximum(probs, np.finfo(np.float64).tiny)), ece

    def _milliseconds(self, index: Index) -> float:
        queries = self._queries[:_TIMED_QUERIES]
        best = np.inf
        for _ in range(_ROUNDS):  # the best of them: what else the machine does only ever adds
            began = time.perf_counter()
            for start in range(0, len(queries), _BATCH):
                index.search(queries[start : start + _BATCH], self.n_neighbors)
            best = min(best, time.perf_counter() - began)
        return 1000 * float(best) / len(queries)

    def _upper_end(self, differences: FloatArray) -> float:
        """Return the upper end of the one-sided interval of the mean; the words of a sentence count as one draw."""
        groups = self.validation.groups
        numbers = np.arange(len(differences)) if groups is None else np.unique(groups, return_inverse=True)[1]
        sums = np.bincount(numbers, weights=differences)
        mean = float(differences.mean())
        spread = sums - mean * np.bincount(numbers)
        n_draws = max(2, len(sums))
        error = float(np.sqrt((spread**2).sum() * n_draws / (n_draws - 1))) / len(differences)
        return mean + NormalDist().inv_cdf(self.tolerance.level) * error

    def fits(self, n_bytes: int) -> bool:
        """Say whether so many bytes are within the memory limit, if there is one."""
        return self.tolerance.max_bytes is None or n_bytes <= self.tolerance.max_bytes

    @cached_property
    def _store(self) -> Datastore:
        """What the neighbors are rows of; nobody searches it."""
        return Datastore.build(self.vectors, self.labels)

    @cached_property
    def _queries(self) -> FloatArray:
        return np.ascontiguousarray(self.validation.require_features("tune_index"), dtype=np.float32)
