"""What all calibrators share: p = softmax(weight * logits) with a positive weight, and how they are saved."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, softmax
from knn_ue.calibrators.contract import Found
from knn_ue.entities import SentenceReading
from knn_ue.errors import InvalidInputError, KnnUeError, NotFittedError, StorageError
from knn_ue.storage import FolderContent, SubfolderWriter, parse_folder, write_folder
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors, NeighborSearch, Outputs, Prediction
from knn_ue.weighting import Explanation


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """What a calibrator saves: `options` (plain JSON), `arrays`, and the datastores it refers to."""

    options: dict[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    stores: Mapping[str, NeighborSearch] = field(default_factory=dict)


class LogitScaling(ABC):
    """A calibrator that multiplies the logits of each row by one positive weight, and so keeps every prediction."""

    kind: ClassVar[str]
    keeps_prediction: ClassVar[bool] = True
    fitted_on_validation: ClassVar[bool] = True
    explains: ClassVar[bool] = False

    n_classes_: int

    def fit(self, validation: Outputs) -> Self:
        """Learn from labelled `validation` outputs that the model was not trained on."""
        validation.require_labels(f"{type(self).__name__}.fit")
        self._fit(validation)
        self.n_classes_ = validation.n_classes
        return self

    def weight(self, outputs: Outputs) -> FloatArray:
        """Return the positive weight (n,) that multiplies the logits of each row."""
        self._check_ready(outputs)
        return self._weight(outputs)

    def search(self, outputs: Outputs) -> Found:
        """Return the nearest stored examples of each row, from one search for each store."""
        del outputs
        return {}

    @property
    def reads_entities(self) -> bool:
        """Whether `read` gives scores of entities."""
        return False

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of tagged `outputs`; raise unless it `reads_entities`."""
        del outputs, found
        raise InvalidInputError(f"entity scores need the method knn-ue-entity: {self.kind} has none")

    def explain(self, outputs: Outputs, *, top: int = 5) -> list[Explanation]:
        """Return for each row the terms of its weight and its `top` nearest examples; raise unless it `explains`."""
        del outputs, top
        raise InvalidInputError(f"explain needs a method with terms to show, such as knn-ue: {self.kind} has none")

    def predict_proba(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return probabilities (n, classes), float64; rows sum to one and keep the logits' argmax."""
        del found
        return softmax(outputs.logits, self.weight(outputs))

    def predict(self, outputs: Outputs) -> Prediction:
        """Return the model's answers with their calibrated and raw confidence."""
        return prediction_of(outputs, self.predict_proba(outputs))

    def save(self, path: str | Path) -> None:
        """Write everything to the folder `path` in one step; a datastore already living in it stays where it is."""
        self._check_ready(None)
        state = self._state()
        folders = {name: _store_writer(store, Path(path)) for name, store in state.stores.items()}
        options = {"n_classes": getattr(self, "n_classes_", None), **state.options}
        write_folder(path, kind=self.kind, options=options, arrays=state.arrays, folders=folders)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a folder that `save` wrote."""
        return parse_folder(path, cls._parse, kind=cls.kind)

    @classmethod
    def _parse(cls, stored: FolderContent) -> Self:
        stores = {name: Datastore.load(folder) for name, folder in stored.folders.items()}
        try:
            calibrator = cls._from_stored(stored, stores)
            n_classes = stored.options["n_classes"]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, KnnUeError) and not isinstance(error, InvalidInputError):
                raise
            raise StorageError(
                f"{stored.path} does not hold a {cls.kind!r} as we write it ({error}): restore it from a copy"
            ) from None
        if n_classes is not None:
            calibrator.n_classes_ = n_classes
        return calibrator

    @abstractmethod
    def _fit(self, validation: Outputs) -> None: ...

    @abstractmethod
    def _weight(self, outputs: Outputs) -> FloatArray: ...

    @abstractmethod
    def _state(self) -> SavedState: ...

    @classmethod
    @abstractmethod
    def _from_stored(cls, stored: FolderContent, stores: dict[str, Datastore]) -> Self: ...

    def _is_fitted(self) -> bool:
        return hasattr(self, "n_classes_")

    def _check_ready(self, outputs: Outputs | None) -> None:
        if not self._is_fitted():
            raise NotFittedError(type(self).__name__)
        n_classes = getattr(self, "n_classes_", None)
        if outputs is not None and n_classes is not None and outputs.n_classes != n_classes:
            raise InvalidInputError(
                f"{type(self).__name__} was fitted on {n_classes} classes, these logits have {outputs.n_classes}: "
                "use outputs of the same model"
            )


def prediction_of(outputs: Outputs, probs: FloatArray) -> Prediction:
    """Return the model's answers with the confidence that `probs` give them."""
    rows = np.arange(len(outputs))
    return Prediction(
        predicted=outputs.predicted,
        confidence=probs[rows, outputs.predicted],
        raw_confidence=softmax(outputs.logits)[rows, outputs.predicted],
        probs=probs,
    )


def search_for_fit(store: NeighborSearch, features: FloatArray, n_neighbors: int) -> Neighbors:
    """Search, refusing more neighbors than there are examples: the fit would learn what missing ones look like."""
    if n_neighbors > len(store):
        raise InvalidInputError(
            f"n_neighbors={n_neighbors} exceeds the {len(store)} stored examples: lower it or add more"
        )
    return store.search(features, n_neighbors)


def _store_writer(store: NeighborSearch, target: Path) -> SubfolderWriter | Path:
    if not isinstance(store, Datastore):
        raise InvalidInputError(
            f"only a Datastore can be saved, got a {type(store).__name__}: build one with Datastore.build"
        )
    if store.path is not None and store.path.parent.resolve() == target.resolve():
        return store.path
    return store.save
