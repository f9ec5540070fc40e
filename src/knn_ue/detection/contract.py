"""What every detector can do: look at training outputs once, then say how much other rows are like them."""

from abc import ABC, abstractmethod
from typing import Self

from knn_ue.arrays import FloatArray
from knn_ue.errors import NotFittedError
from knn_ue.types import Outputs


class Detector(ABC):
    """A score for out-of-domain detection. It is no probability: only its order means something.

    To write one: `_fit`, which looks at the training outputs, and `_score`.
    """

    _is_fitted = False

    def fit(self, train: Outputs) -> Self:
        """Look at the training outputs."""
        self._fit(train)
        self._is_fitted = True
        return self

    def score(self, outputs: Outputs) -> FloatArray:
        """Return the score (n,) of each row: higher is more like the training rows."""
        if not self._is_fitted:
            raise NotFittedError(type(self).__name__)
        return self._score(outputs)

    @abstractmethod
    def _fit(self, train: Outputs, /) -> None: ...

    @abstractmethod
    def _score(self, outputs: Outputs, /) -> FloatArray: ...
