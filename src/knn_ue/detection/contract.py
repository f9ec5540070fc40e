"""What every detector can do: look at training outputs once, then say how much other rows are like them."""

from abc import ABC, abstractmethod
from typing import Self

from knn_ue.arrays import FloatArray, check_not_empty
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.types import Outputs


class Detector(ABC):
    """A score for out-of-domain detection. It is no probability: only its order means something.

    To write one: `_fit`, which looks at the training outputs, at least one row of them, and `_score`, which is given
    outputs with as many classes and feature columns as those.
    """

    _is_fitted = False

    def fit(self, train: Outputs) -> Self:
        """Look at the training outputs."""
        check_not_empty(len(train), f"the training Outputs given to {type(self).__name__}")
        self._fit(train)
        self._n_classes, self._n_columns = train.n_classes, _columns_of(train)
        self._is_fitted = True
        return self

    def score(self, outputs: Outputs) -> FloatArray:
        """Return the score (n,) of each row: higher is more like the training rows."""
        if not self._is_fitted:
            raise NotFittedError(type(self).__name__, call="fit(train)")
        self._check_same(self._n_classes, outputs.n_classes, "classes")
        self._check_same(self._n_columns, _columns_of(outputs), "feature columns")
        return self._score(outputs)

    def _check_same(self, fitted: int | None, given: int | None, what: str) -> None:
        # Without features on one side there is nothing to compare: a detector that needs them asks for them itself.
        if fitted is not None and given is not None and fitted != given:
            raise InvalidInputError(
                f"{type(self).__name__} was fitted on {fitted} {what}, these Outputs have {given}: "
                "use outputs of the same model"
            )

    @abstractmethod
    def _fit(self, train: Outputs, /) -> None: ...

    @abstractmethod
    def _score(self, outputs: Outputs, /) -> FloatArray: ...


def _columns_of(outputs: Outputs) -> int | None:
    return None if outputs.features is None else int(outputs.features.shape[1])
