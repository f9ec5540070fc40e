"""What `KnnUEClassifier.fit` hands from step to step: rows, a fitted part, and held-out rows with their neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.sklearn.reading import Features, dense, read_rows, texts_of
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors, Outputs


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows given to `fit`, their labels as given and as numbers, and the estimator's fit parameters."""

    X: Any
    y: npt.NDArray[Any]
    labels: IntArray
    fit_params: dict[str, Any]

    def take(self, rows: IntArray) -> tuple[Any, Any]:
        return _safe_indexing(self.X, rows), self.y[rows]

    def fit_params_of(self, rows: IntArray) -> dict[str, Any]:
        """Return the fit parameters, those with a value per row at `rows` only."""
        per_row = {
            name
            for name, value in self.fit_params.items()
            if hasattr(value, "__len__") and not isinstance(value, (str, dict)) and len(value) == len(self.y)
        }
        return {
            name: _safe_indexing(value, rows) if name in per_row else value for name, value in self.fit_params.items()
        }


def seeded(estimator: Any, seed: int) -> Any:
    """Return the estimator; those of its parts that have no seed are given one, so that two fits are equal."""
    unset = [name for name, value in estimator.get_params().items() if value is None and _is_seed(name)]
    return estimator.set_params(**dict.fromkeys(unset, seed)) if unset else estimator


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows to calibrate on, with neighbors from a store that does not hold them."""

    outputs: Outputs
    labels: IntArray
    neighbors: Neighbors


def joined(parts: Sequence[Neighbors]) -> Neighbors:
    """Return the neighbors of all rows to calibrate on, each found in the store of its own fold."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "distances", "labels")}
    return Neighbors(**columns, approximate=any(part.approximate for part in parts))


@dataclass(frozen=True, eq=False)
class Part:
    """A fitted estimator, the space its rows are compared in, and the rows stored there."""

    estimator: Any
    classes: npt.NDArray[Any]
    features: Features
    components: FloatArray | None
    store: Datastore
    stored_rows: IntArray

    def outputs(self, X: Any) -> Outputs:
        raw, logits = read_rows(self.estimator, self.features, X)
        if logits.shape[1] != len(self.classes):
            raise InvalidInputError(
                f"decision_function must have one column per class, got {logits.shape[1]} for {len(self.classes)} "
                'classes: with SVC use decision_function_shape="ovr"'
            )
        names = [str(name) for name in self.classes]
        return Outputs(logits=logits, features=dense(raw, self.components), class_names=names, texts=texts_of(X))

    def held_out(self, X: Any, labels: IntArray, n_neighbors: int) -> HeldOut:
        outputs = self.outputs(X)
        return HeldOut(outputs, labels, self.store.search(outputs.require_features("KnnUEClassifier"), n_neighbors))
