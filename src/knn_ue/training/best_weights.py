"""Early stopping that keeps the best weights, copied, in memory: no checkpoint touches the disk."""

from collections.abc import Mapping
from typing import Any


class BestWeights:
    """Remembers the weights of the highest score; `is_over` once `patience` scores in a row were no higher."""

    def __init__(self, model: Any, *, metric: str, patience: int) -> None:
        self.metric = metric
        self.history: list[Mapping[str, float]] = []
        self.best: float | None = None
        self._model = model
        self._patience = patience
        self._since_best = 0
        self._copy: dict[str, Any] = {}
        # What is frozen stays as it is and needs no copy; buffers may change.
        self._frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}

    @property
    def is_over(self) -> bool:
        """Whether training should stop."""
        return self._since_best >= self._patience

    def update(self, scores: Mapping[str, float]) -> None:
        """Take the scores of the model as it is now."""
        self.history.append(scores)
        self._since_best += 1
        if self.best is None or scores[self.metric] > self.best:
            self.best = scores[self.metric]
            self._since_best = 0
            state = self._model.state_dict()
            self._copy = {
                name: value.detach().cpu().clone() for name, value in state.items() if name not in self._frozen
            }

    def restore(self) -> None:
        """Put the best weights back into the model."""
        self._model.load_state_dict(self._copy, strict=False)
