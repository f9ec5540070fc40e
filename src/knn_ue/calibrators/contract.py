"""What every calibrator can do: fit, give probabilities, be saved and opened again, and name the stores it searches.

`LogitScaling` is the kind whose probabilities are softmax(weight * logits), with a positive weight for each row;
`OneStoreScaling` takes that weight from the neighbors of the row in one store.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import numpy as np
from annotated_types import Interval

from knn_ue.adapting import LARGEST, rescale
from knn_ue.arrays import MAX_CLASSES, BoolArray, FloatArray, check_positive, softmax
from knn_ue.entities import EntityExplanation, SentenceReading
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.folder import ArrayRule, Part, as_written, check_arrays, checked_plain, from_plain, open_as, write_folder
from knn_ue.folder.schema import Arrays, Plain
from knn_ue.shown import Shown
from knn_ue.stores import FolderStore, NeighborStore, open_store
from knn_ue.types import Neighbors, Outputs, Prediction, join_outputs
from knn_ue.verifying import Reader
from knn_ue.verifying.opened import Gain
from knn_ue.weighting import Explanation

Found = Mapping[str, Neighbors]  # what each store found, by the store's name
Stores = Mapping[str, NeighborStore]
STORE = "store"  # what `OneStoreScaling` calls its own
_SHOWN = 200
_MAX_NEIGHBORS = 1 << 16  # what a search returns grows with it


@dataclass(frozen=True, kw_only=True, eq=False)
class TaggedAnswer:
    """All that one search says of tagged sentences: the words, the entities and sentences, and why."""

    prediction: Prediction
    reading: SentenceReading
    explanations: list[EntityExplanation]


@dataclass(frozen=True, kw_only=True)
class Common:
    """What a folder holds of every calibrator; `n_classes` is None where it needed no fit."""

    n_classes: Annotated[int, Interval(ge=2, le=MAX_CLASSES)] | None
    log_scales: dict[str, Annotated[float, Interval(ge=-LARGEST, le=LARGEST)]] = field(default_factory=dict)


_COMMON = tuple(one.name for one in fields(Common))
_KINDS: dict[str, "type[Calibrator]"] = {}


def calibrator_kind(kind: str) -> "type[Calibrator]":
    """Return the calibrator of this kind; ValueError where there is none."""
    if kind not in _KINDS:
        raise ValueError(
            f"a {kind[:40]!r}, a calibrator that is not installed: upgrade knn-ue, or install the package that brings "
            "it, such as knn-ue-lab"
        )
    return _KINDS[kind]


class Calibrator(Shown, ABC):
    """Whatever turns `Outputs` into probabilities one can trust.

    To write one: `_fit` and `_predict_proba`, which are given what the stores found, and `State` and `ARRAYS`, which
    declare what is saved: options of the constructor by their names, and what `fit` learned, whose names end in _.
    One that looks at neighbors also has `stores`, `_take_stores` and `queries`. Methods that take `found` do not search
    again where it is given.
    """

    @dataclass(frozen=True, kw_only=True)
    class State:
        """The numbers that are saved, by the names of attributes; None where one was not learned."""

    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {}
    """The arrays that are saved, by the names of attributes, and their rules; a dot reaches into a record of arrays."""

    kind: ClassVar[str]
    keeps_prediction: ClassVar[bool] = True
    fitted_on_validation: ClassVar[bool] = True
    searches: ClassVar[bool] = False
    """Whether it looks for neighbors in stores."""
    many_stores: ClassVar[bool] = False
    """Whether it keeps several stores, which must change together."""
    explains: ClassVar[bool] = False
    """Whether `explain` has terms to show."""

    scores_entities: ClassVar[bool] = False
    """Whether it has scores of entities once it is fitted on tagged sentences."""
    judges_given: ClassVar[bool] = False
    """Whether it judges answers that somebody else gave, so that other labels may be likelier."""

    reader: "str | Reader | None" = None
    """What reads the inputs for a verifier beside it, if there is one."""
    n_neighbors: int = 0
    use_labels: bool = False
    """Whether the labels of neighbors count, not only their distances."""
    n_classes_: int
    log_scales: Mapping[str, float] = MappingProxyType({})
    """The log of what scores are scaled by in a domain: of "rows", "entities" and "sentences"; 0 where not named."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    @property
    def plain(self) -> "Calibrator":
        """The calibrator of the method: itself, unless a verifier stands beside it."""
        return self

    @property
    def gain(self) -> Gain | None:
        """What the verifier beside it gained in the fit, None where there is none."""
        return None

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
        changed = copy(self)
        changed._take_stores(stores)
        return changed

    def _take_stores(self, stores: Stores) -> None:
        """Search these stores from now on."""
        del stores

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

    def fit_robust(self, validation: Outputs, copies: Outputs) -> Self:
        """Learn from `copies` of validation outputs too, whose texts were perturbed."""
        return self.fit(join_outputs(validation, copies))

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

    def scores_as_new(self) -> FloatArray | None:
        """Return the scores (n,) of the rows it was fitted on as if they were new; None where it cannot tell."""
        return None

    def suggestion_gain(self) -> tuple[float, float] | None:
        """Return the share of given answers that is right, and with what would be suggested; None where none were."""
        return None

    def rivals(self) -> "Mapping[str, Calibrator]":
        """Return plain methods that were fitted on the same rows and that evaluations show beside it, by name."""
        return {}

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

    def save(self, path: str | Path) -> None:
        """Write everything to the folder `path` in one step; a store that lives in the folder stays as it is."""
        lives = [store.live for store in self.stores.values() if isinstance(store, FolderStore)]
        for live in lives:
            if live is not None and live.path.resolve() == Path(path).resolve():
                live.put("", *self.to_state())
                return
        write_folder(path, self.to_part())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a folder that `save` wrote."""
        return open_as(path, cls.from_part, kind=cls.kind)

    def to_part(self) -> Part:
        """Return what a folder holds of it, stores included."""
        state, arrays = self.to_state()
        parts = {name: store.to_part() for name, store in self.stores.items()}
        return Part(kind=self.kind, state=state, arrays=arrays, parts=parts)

    def to_state(self) -> tuple[Plain, Arrays]:
        """Return what was fitted, as plain JSON and arrays, by the rules by which it is read."""
        self._check_ready(None)
        common = Common(n_classes=getattr(self, "n_classes_", None), log_scales=dict(self.log_scales))
        arrays = self._arrays()
        try:
            check_arrays(arrays, self.ARRAYS)
            self._check_options()
            self._check_restored()
            return checked_plain(common) | checked_plain(self._own_state()), arrays
        except ValueError as error:
            raise InvalidInputError(f"this {self.kind} cannot be saved ({error}): fit it on other rows") from None

    @classmethod
    def from_part(cls, part: Part, *, stores: Stores | None = None) -> Self:
        """Open what `to_part` described, over `stores` that are open already, if they are given."""
        if stores is None:
            stores = {name: open_store(inner) for name, inner in part.parts.items()}
        with as_written(part.where, cls.kind):
            common = from_plain(Common, {name: part.state[name] for name in _COMMON if name in part.state})
            own = from_plain(cls.State, {name: value for name, value in part.state.items() if name not in _COMMON})
            check_arrays(part.arrays, cls.ARRAYS)
            calibrator = cls.__new__(cls)
            calibrator._restore(own, dict(part.arrays))
            calibrator._take_stores(stores)
            if list(calibrator.stores) != list(stores):
                raise ValueError(f"it should have the stores {list(calibrator.stores)}, not {list(stores)}")
            if common.n_classes is not None:
                calibrator.n_classes_ = common.n_classes
            calibrator._check_options()
            calibrator._check_restored()
            if not calibrator._is_fitted():
                raise ValueError("it was never fitted")
        return calibrator.with_log_scales(common.log_scales) if common.log_scales else calibrator

    def _own_state(self) -> Any:
        """Return its `State`."""
        return self.State(**{one.name: getattr(self, one.name, None) for one in fields(self.State)})

    def _arrays(self) -> Arrays:
        """Return its arrays by the names of `ARRAYS`."""
        return {name: np.ascontiguousarray(attrgetter(name)(self)) for name in self.ARRAYS}

    def _restore(self, state: Any, arrays: Arrays) -> None:
        """Take over what `_own_state` and `_arrays` gave, values of an enemy included."""
        for one in fields(state):
            value = getattr(state, one.name)
            if value is not None or not one.name.endswith("_"):
                setattr(self, one.name, value)
        records: dict[str, Arrays] = {}
        for name in self.ARRAYS:
            owner, dot, last = name.partition(".")
            if dot:
                records.setdefault(owner, {})[last] = arrays[name]
            else:
                setattr(self, name, arrays[name])
        for name, values in records.items():
            setattr(self, name, get_type_hints(type(self))[name](**values))

    def _check_restored(self) -> None:
        """Raise ValueError where what was restored does not go together."""

    @abstractmethod
    def _fit(self, validation: Outputs, found: Found, /) -> None: ...

    @abstractmethod
    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray: ...

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

    def _take_stores(self, stores: Stores) -> None:
        self.store = stores[STORE]

    @classmethod
    def queries(cls, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return the features (n, d)."""
        return {STORE: outputs.require_features(cls.__name__)}
