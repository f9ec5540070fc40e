"""What all calibrators share: p = softmax(weight * logits) with a positive weight, and how they are saved."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy.typing as npt

from knn_ue.arrays import FloatArray, softmax
from knn_ue.calibrators.contract import Calibrator, Found, prediction_of
from knn_ue.errors import InvalidInputError, KnnUeError, NotFittedError, StorageError
from knn_ue.storage import FolderContent, SubfolderWriter, parse_folder, write_folder
from knn_ue.stores import Datastore
from knn_ue.types import Neighbors, NeighborSearch, Outputs

__all__ = ["LogitScaling", "SavedState", "prediction_of", "search_for_fit"]


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """What a calibrator saves: `options` (plain JSON), `arrays`, and the datastores it refers to."""

    options: dict[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    stores: Mapping[str, NeighborSearch] = field(default_factory=dict)


class LogitScaling(Calibrator):
    """A calibrator that multiplies the logits of each row by one positive weight, and so keeps every prediction."""

    kind: ClassVar[str]

    n_classes_: int

    def fit(self, validation: Outputs) -> Self:
        """Learn from labelled `validation` outputs that the model was not trained on."""
        validation.require_labels(f"{type(self).__name__}.fit")
        self._fit(validation)
        self.n_classes_ = validation.n_classes
        return self

    def weight(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return the positive weight (n,) that multiplies the logits of each row."""
        self._check_ready(outputs)
        return self._weight(outputs, self.search(outputs) if found is None else found)

    def predict_proba(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return probabilities (n, classes), float64; rows sum to one and keep the logits' argmax."""
        return softmax(outputs.logits, self.weight(outputs, found=found))

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
    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray: ...

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
