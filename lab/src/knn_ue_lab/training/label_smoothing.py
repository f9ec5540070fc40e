"""Label smoothing: a little of the target goes to every class. Szegedy et al. (2016), Pereyra et al. (2017)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from knn_ue.errors import InvalidInputError
from knn_ue.training.method import TrainingMethod

_GRID = (0.01, 0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True, kw_only=True)
class LabelSmoothing(TrainingMethod):
    """(1 - epsilon) times the cross-entropy, and epsilon times its mean over all classes.

    Without `epsilon`, one model is trained for each of 0.01, 0.05, 0.1, 0.2, 0.3, and the validation score (accuracy;
    F1 in tagging) chooses; the smaller of equals.
    """

    name: ClassVar[str] = "label-smoothing"

    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None and not 0 <= self.epsilon < 1:
            raise InvalidInputError(f"epsilon must lie within [0, 1), got {self.epsilon}")

    def candidates(self) -> Sequence[Self]:
        """Return one method for each epsilon of the grid, or this one where it is given."""
        return (self,) if self.epsilon is not None else tuple(replace(self, epsilon=epsilon) for epsilon in _GRID)

    def loss(self, answers: Any, labels: Any, done: float) -> Any:
        """Return the smoothed cross-entropy."""
        from torch.nn import functional

        del done
        return functional.cross_entropy(answers, labels, label_smoothing=self.epsilon or 0.0)
