"""Scores for out-of-domain detection that are no probabilities: only their order counts. `DETECTORS` names them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Self

import numpy as np

from knn_ue.arrays import FloatArray, check_not_empty, check_positive
from knn_ue.calibrators import ClassStatistics
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.familiarity import TrainingSpace
from knn_ue.stores import Datastore
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


class FamiliarityDetector(Detector):
    """Minus the familiarity score, which is high for unusual rows."""

    def _fit(self, train: Outputs, /) -> None:
        self._space = TrainingSpace.measure(train)

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return -self._space.score(outputs)


class Energy(Detector):
    """log sum_c exp(logit_c): minus the free energy at temperature 1.

    >>> float(Energy().fit(Outputs(logits=[[0.0, 0.0]])).score(Outputs(logits=[[0.0, 0.0]]))[0].round(4))
    0.6931
    """

    def _fit(self, _train: Outputs, /) -> None:
        """Need nothing of the training rows."""

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return log_sum_exp(outputs.logits)


class MaxLogit(Detector):
    """The largest logit of each row."""

    def _fit(self, _train: Outputs, /) -> None:
        """Need nothing of the training rows."""

    def _score(self, outputs: Outputs, /) -> FloatArray:
        largest: FloatArray = outputs.logits.max(axis=1).astype(np.float64)
        return largest


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """Return log sum exp of each row (n,)."""
    largest = logits.max(axis=1).astype(np.float64)
    total: FloatArray = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    return total


class MahalanobisPlus(Detector):
    """Minus the Mahalanobis distance of the normalized features, with one covariance for all classes."""

    def _fit(self, train: Outputs, /) -> None:
        features, labels = train.require_features("MahalanobisPlus"), train.require_labels("MahalanobisPlus")
        self._statistics = ClassStatistics.estimate(unit_rows(features), labels)

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return -self._statistics.distance(unit_rows(outputs.require_features("MahalanobisPlus")))


class NearestNeighbor(Detector):
    """Minus the distance to the `n_neighbors`-th nearest training row, of all of them where there are fewer."""

    def __init__(self, *, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _fit(self, train: Outputs, /) -> None:
        check_positive(self.n_neighbors, "n_neighbors")
        features = unit_rows(train.require_features("NearestNeighbor"))
        self._store = Datastore.build(features, np.zeros(len(features), dtype=np.int64), index="exact")

    def _score(self, outputs: Outputs, /) -> FloatArray:
        queries = unit_rows(outputs.require_features("NearestNeighbor"))
        found = self._store.search(queries, min(self.n_neighbors, len(self._store)))
        return -np.asarray(found.distances[:, -1])


def unit_rows(features: FloatArray) -> FloatArray:
    """Return the rows (n, d) with length 1; a row of zeros stays."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    scaled: FloatArray = np.divide(features, length, out=np.zeros_like(features), where=length > 0)
    return scaled


class VirtualLogit(Detector):
    """The ViM score; a row outside the training features' subspace has a low one."""

    def _fit(self, train: Outputs, /) -> None:
        features = train.require_features("VirtualLogit").astype(np.float64)
        self._center = features.mean(axis=0)
        covariance = np.cov(features - self._center, rowvar=False, bias=True).reshape(features.shape[1], -1)
        _, directions = np.linalg.eigh(covariance)  # variances rise
        self._rest = directions[:, : features.shape[1] - features.shape[1] // 2]
        residual = float(self._residual(train).mean())
        largest = float(np.abs(train.logits.max(axis=1)).mean())
        self._factor = largest / residual if residual > 0 else 0.0

    def _score(self, outputs: Outputs, /) -> FloatArray:
        return log_sum_exp(outputs.logits) - self._factor * self._residual(outputs)

    def _residual(self, outputs: Outputs) -> FloatArray:
        centered = outputs.require_features("VirtualLogit") - self._center
        length: FloatArray = np.linalg.norm(centered @ self._rest, axis=1)
        return length


DETECTORS: Mapping[str, Callable[[], Detector]] = MappingProxyType(
    {
        "energy": Energy,
        "max-logit": MaxLogit,
        "nearest-neighbor": NearestNeighbor,
        "mahalanobis++": MahalanobisPlus,
        "vim": VirtualLogit,
        "familiarity": FamiliarityDetector,
    }
)
