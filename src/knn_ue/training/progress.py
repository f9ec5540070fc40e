"""What training tells while it runs, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """Where training stands: after every step, and once more after every epoch, then with `scores`.

    `loss` is the mean training loss since it was last taken, None before the first time; `scores` are those on the
    validation rows; `best` is the highest score so far of the kind that decides. A method may train several candidates,
    one after the other.
    """

    step: int
    total_steps: int
    epoch: float
    loss: float | None = None
    scores: Mapping[str, float] | None = None
    best: float | None = None
    candidate: int = 1
    n_candidates: int = 1


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What came of it: `best` is the validation score `metric` ("accuracy" or "f1") of the weights that were kept.

    `history` holds the validation scores after each epoch; `n_truncated` training texts were cut at the maximal length;
    `candidates` are the options and the best score of each variant of the method that was trained.
    """

    class_names: tuple[str, ...]
    metric: str
    best: float
    history: tuple[Mapping[str, float], ...]
    n_train: int
    n_validation: int
    n_truncated: int
    n_steps: int
    seconds: float
    candidates: tuple[Mapping[str, Any], ...] = ()
