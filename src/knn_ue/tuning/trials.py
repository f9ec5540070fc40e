"""What tuning is allowed to lose, what it measured, and what it chose."""

from dataclasses import dataclass

from knn_ue.errors import InvalidInputError
from knn_ue.stores import IndexOptions


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
