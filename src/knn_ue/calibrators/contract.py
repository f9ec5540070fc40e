"""What every calibrator can do: fit, give probabilities, be saved and opened again, and name the stores it searches.

`LogitScaling` is the kind whose probabilities are softmax(weight * logits), with a positive weight for each row;
`OneStoreScaling` takes that weight from the neighbors of the row in one store.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from knn_ue.adapting import LARGEST, rescale
from knn_ue.arrays import BoolArray, FloatArray, check_positive, softmax
from knn_ue.entities import EntityExplanation, SentenceReading
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.shown import Shown
from knn_ue.storage import FolderContent, SubfolderWriter, parse_folder, write_folder
from knn_ue.storage.schema import MAX_CLASSES, Within, as_written, read_plain
from knn_ue.stores import NeighborStore, folder_of, open_store
from knn_ue.types import Neighbors, Outputs, Prediction
from knn_ue.weighting import Explanation

Found = Mapping[str, Neighbors]  # what each store found, by the store's name
Stores = Mapping[str, NeighborStore]
STORE = "store"  # what `OneStoreScaling` calls its own
_SHOWN = 200
_MAX_NEIGHBORS = 1 << 16  # what a search returns grows with it


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """What a calibrator saves beside its stores: `options` (plain JSON) and `arrays`."""

    options: dict[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaggedAnswer:
    """All that one search says of tagged sentences: the words, the entities and sentences, and why."""

    prediction: Prediction
    reading: SentenceReading
    explanations: list[EntityExplanation]


@dataclass(frozen=True, kw_only=True)
class _CommonOptions:
    """What a folder holds of every calibrator; `n_classes` is None where it needed no fit."""

    n_classes: Annotated[int, Within(2, MAX_CLASSES)] | None
    log_scales: dict[str, Annotated[float, Within(-LARGEST, LARGEST)]] = field(default_factory=dict)


_COMMON = ("n_classes", "log_scales")


class Calibrator(Shown, ABC):
    """Whatever turns `Outputs` into probabilities one can trust.

    To write one: `_fit` and `_predict_proba`, which are given what the stores found; `_state` and `_from_stored`, which
    save and restore what was fitted. One that looks at neighbors also has `stores`, `with_stores` and `queries`.
    Methods that take `found` do not search again where it is given.
    """

    kind: ClassVar[str]
    keeps_prediction: ClassVar[bool] = True
    fitted_on_validation: ClassVar[bool] = True
    searches: ClassVar[bool] = False
    """Whether it looks for neighbors in stores."""
    many_stores: ClassVar[bool] = False
    """Whether it keeps several stores, which must change together."""
    explains: ClassVar[bool] = False
    """Whether `explain` has terms to show."""

    n_neighbors: int = 0
    use_labels: bool = False
    """Whether the labels of neighbors count, not only their distances."""
    n_classes_: int
    log_scales: Mapping[str, float] = MappingProxyType({})
    """The log of what scores are scaled by in a domain: of "rows", "entities" and "sentences"; 0 where not named."""

    def facts(self) -> dict[str, object]:
        """Return a summary, by name: its stores, and what was fitted."""
        facts: dict[str, object] = {"method": self.kind}
        if self.searches:
            facts |= {"n_neighbors": self.n_neighbors, **self.stores}
        if not self._is_fitted():
            return facts | {"fitted": "no: call fit(validation)"}
        learned = {name.rstrip("_"): value for name, value in vars(self).items() if name.endswith("_")}
        return facts | {name: _short(value) for name, value in learned.items()}

    @property
    def stores(self) -> Stores:
        """What it searches, by name; answers show the neighbors found by the last one."""
        return {}

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy that searches these stores; what was fitted is kept."""
        if stores.keys() != self.stores.keys():
            raise InvalidInputError(
                f"{type(self).__name__} has the stores {list(self.stores)}, got {list(stores)}: pass one for each"
            )
        return copy(self)

    def with_log_scales(self, log_scales: Mapping[str, float]) -> Self:
        """Return a copy that answers for a domain: its log-probabilities are multiplied by e^t (see `adapting`)."""
        changed = copy(self)
        changed.log_scales = MappingProxyType(dict(log_scales))
        return changed

    @classmethod
    def queries(cls, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return what each store is searched with, (n, d) by the store's name."""
        del outputs
        return {}

    def searched(self, outputs: Outputs) -> BoolArray | None:
        """Return which rows (n,) `search` looks up, None for all: the others get along without neighbors."""
        del outputs
        return None

    def search(self, outputs: Outputs) -> Found:
        """Return the `n_neighbors` nearest stored examples of each row that needs them, from one search per store."""
        queries, stores = self.queries(outputs), self.stores
        if queries.keys() != stores.keys():
            raise InvalidInputError(f"there are {len(stores)} stores but {len(queries)} layers: pass the same layers")
        rows = self.searched(outputs)
        if rows is None:
            return {name: store.search(queries[name], self.n_neighbors) for name, store in stores.items()}
        return {
            name: store.search(queries[name][rows], self.n_neighbors).spread(rows) for name, store in stores.items()
        }

    def fit(self, validation: Outputs, *, found: Found | None = None) -> Self:
        """Learn from labeled `validation` outputs that the model was not trained on."""
        validation.require_labels(f"{type(self).__name__}.fit")
        self._check_options()
        for store in self.stores.values():
            # Search pads what is missing; a fit would learn what missing neighbors look like.
            if self.n_neighbors > len(store):
                raise InvalidInputError(
                    f"n_neighbors={self.n_neighbors} exceeds the {len(store)} stored examples: lower it or add more"
                )
        self._fit(validation, self._neighbors(validation, found))
        self.n_classes_ = validation.n_classes
        return self

    def predict_proba(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return probabilities (n, classes), float64, whose rows sum to one."""
        self._check_ready(outputs)
        probs = self._predict_proba(outputs, self._neighbors(outputs, found))
        return rescale(probs, self.log_scales.get("rows", 0.0)) if self.log_scales else probs

    def predict(self, outputs: Outputs, *, found: Found | None = None) -> Prediction:
        """Return the model's answers with their calibrated and raw confidence."""
        probs, rows = self.predict_proba(outputs, found=found), np.arange(len(outputs))
        return Prediction(
            predicted=outputs.predicted,
            confidence=probs[rows, outputs.predicted],
            raw_confidence=softmax(outputs.logits)[rows, outputs.predicted],
            probs=probs,
        )

    def weight(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray | None:
        """Return the weight (n,) that multiplies the logits of each row; None where it does something else."""
        del outputs, found
        return None

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return for each row the terms of its weight and its `top` nearest examples; raise unless it `explains`."""
        del outputs, top, found
        raise InvalidInputError(f"explain needs a method with terms to show, such as knn-ue: {self.kind} has none")

    @property
    def reads_entities(self) -> bool:
        """Whether `read` and `answer` give scores of entities."""
        return False

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of tagged `outputs`; raise unless it `reads_entities`."""
        del outputs, found
        raise InvalidInputError(self._no_entities())

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return words, entities and why, from one search; raise unless it `reads_entities`."""
        del outputs, top, found
        raise InvalidInputError(self._no_entities())

    def save(self, path: str | Path) -> str:
        """Write everything to the folder `path` in one step, and return its identity.

        A store that already lives in the folder stays where it is.
        """
        self._check_ready(None)
        state = self._state()
        folders: dict[str, SubfolderWriter | Path] = {}
        for name, store in self.stores.items():
            folder = folder_of(store)
            inside = folder is not None and folder.parent.resolve() == Path(path).resolve()
            folders[name] = folder if folder is not None and inside else store.save
        options = {"n_classes": getattr(self, "n_classes_", None), **state.options}
        if self.log_scales:
            options["log_scales"] = dict(self.log_scales)
        return write_folder(path, kind=self.kind, options=options, arrays=state.arrays, folders=folders)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a folder that `save` wrote."""
        return parse_folder(path, cls._parse, kind=cls.kind)

    @classmethod
    def _parse(cls, stored: FolderContent) -> Self:
        stores = {name: open_store(folder) for name, folder in stored.folders.items()}
        with as_written(stored.path, cls.kind):
            common = read_plain(_CommonOptions, {key: stored.options[key] for key in _COMMON if key in stored.options})
            own = {key: value for key, value in stored.options.items() if key not in _COMMON}
            calibrator = cls._from_stored(replace(stored, options=own), stores)
            calibrator._check_options()
            if list(calibrator.stores) != list(stores):
                raise ValueError(f"it should have the stores {list(calibrator.stores)}, not {list(stores)}")
            if common.n_classes is not None:
                calibrator.n_classes_ = common.n_classes
            if not calibrator._is_fitted():
                raise ValueError("it was never fitted")
        return calibrator.with_log_scales(common.log_scales) if common.log_scales else calibrator

    @abstractmethod
    def _fit(self, validation: Outputs, found: Found, /) -> None: ...

    @abstractmethod
    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray: ...

    @abstractmethod
    def _state(self) -> SavedState: ...

    @classmethod
    @abstractmethod
    def _from_stored(cls, stored: FolderContent, stores: Stores, /) -> Self:
        """Restore what `_state` gave, values of an enemy included.

        Read `stored.options` by a schema (`knn_ue.storage.schema.read_plain`); ValueError, TypeError or KeyError
        where they cannot be used.
        """
        ...

    def _check_options(self) -> None:
        """Raise where an option given to the constructor is not allowed; called by `fit`."""
        if self.searches:
            check_n_neighbors(self.n_neighbors)

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

    def _no_entities(self) -> str:
        return f"entity scores need the method knn-ue-entity: {self.kind} has none"

    def _neighbors(self, outputs: Outputs, found: Found | None) -> Found:
        if found is None:
            return self.search(outputs)
        shape = (len(outputs), self.n_neighbors)
        if found.keys() != self.stores.keys() or any(near.ids.shape != shape for near in found.values()):
            raise InvalidInputError(
                f"found must hold the {self.n_neighbors} neighbors of these {len(outputs)} rows in each store "
                f"({', '.join(self.stores) or 'there is none'}): pass what search returned for them"
            )
        return found


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())
    text = re.sub(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.4g}", text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def check_n_neighbors(value: int) -> None:
    """Raise unless so many neighbors can be asked for."""
    check_positive(value, "n_neighbors")
    if value > _MAX_NEIGHBORS:
        raise InvalidInputError(f"n_neighbors must be at most {_MAX_NEIGHBORS}, got {value}: lower it")


def take_found(found: Found, rows: object) -> Found:
    """Return what was found for the rows at `rows` (numbers, a slice or a boolean mask)."""
    return {name: neighbors.take(rows) for name, neighbors in found.items()}


class LogitScaling(Calibrator):
    """A calibrator that multiplies the logits of each row by one positive weight, and so keeps every prediction."""

    def weight(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return the positive weight (n,) that multiplies the logits of each row."""
        self._check_ready(outputs)
        scale = float(np.exp(self.log_scales.get("rows", 0.0)))
        return scale * self._weight(outputs, self._neighbors(outputs, found))

    @abstractmethod
    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray: ...

    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray:
        return softmax(outputs.logits, self._weight(outputs, found))


class OneStoreScaling(LogitScaling):
    """A weight for each row from its nearest examples in `store`."""

    searches: ClassVar[bool] = True

    store: NeighborStore

    @property
    def stores(self) -> Stores:
        """Its one store."""
        return {STORE: self.store}

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy that searches this store; what was fitted is kept."""
        changed = super().with_stores(stores)
        changed.store = stores[STORE]
        return changed

    @classmethod
    def queries(cls, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the features (n, d)."""
        return {STORE: outputs.require_features(cls.__name__)}
