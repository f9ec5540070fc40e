"""What all calibrators with a verifier share: a calibrator inside, which goes on as before, and a reader beside it."""

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from knn_ue.answers import Explanation
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators.contract import Calibrator, Found, Stores, calibrator_kind
from knn_ue.calibrators.top_label import with_top
from knn_ue.folder import Part
from knn_ue.folder.schema import Arrays
from knn_ue.types import Outputs
from knn_ue.verifying import Reader, open_reader
from knn_ue.verifying.logistic import log_odds
from knn_ue.verifying.opened import Gain

_BASE = "base."


@dataclass(frozen=True, kw_only=True)
class InsideState:
    """What is saved of the calibrator inside, its kind and its own state, and the reader's name."""

    base: str
    base_state: dict[str, Any]
    reader: str


class BesideReader(Calibrator):
    """What both kinds share: a calibrator inside, and a reader whose verdict joins its score.

    Predictions stay the model's own; another class may be likelier. What a score leaves is shared as `base` does it.
    """

    keeps_prediction: ClassVar[bool] = False
    explains: ClassVar[bool] = True
    base: Calibrator
    reader: "str | Reader"

    def __init__(self, base: Calibrator, reader: "str | Reader") -> None:
        self._take_base(base)
        self.reader = reader

    @property
    def plain(self) -> Calibrator:
        """The calibrator inside, without any verifier."""
        return self.base.plain

    @property
    def gain(self) -> Gain | None:
        """What the verifier gained in the fit."""
        return self.base.gain

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        return self.base.facts() | {"verifier": self._reader().name}

    @property
    def stores(self) -> Stores:
        """Those of the calibrator inside."""
        return self.base.stores

    def fit_robust(self, validation: Outputs, copies: Outputs) -> Self:
        """Fit the calibrator inside on perturbed copies too; the verifier sees the validation rows alone."""
        self.base = copy(self.base).fit_robust(validation, copies)
        self._fit_verifier(validation, self.base.search(validation))
        self.n_classes_ = validation.n_classes
        return self

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        self.base = copy(self.base).fit(validation, found=found)
        self._fit_verifier(validation, found)

    @abstractmethod
    def _fit_verifier(self, validation: Outputs, found: Found) -> None:
        """Learn what stands beside the calibrator inside, which is fitted."""

    def _take_stores(self, stores: Stores) -> None:
        self._take_base(self.base.with_stores(stores))

    def _take_base(self, base: Calibrator) -> None:
        self.base = base
        self.n_neighbors, self.use_labels = base.n_neighbors, base.use_labels

    def queries(self, outputs: Outputs) -> Mapping[str, FloatArray]:  # type: ignore[override]  # asks the one inside
        """Return what each store of the calibrator inside is searched with."""
        return self.base.queries(outputs)

    def searched(self, outputs: Outputs) -> BoolArray | None:
        """Return which rows the calibrator inside looks up."""
        return self.base.searched(outputs)

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return the reasons of the calibrator inside, where it has some, and what the verifier would answer."""
        self._check_ready(outputs)
        found = self._neighbors(outputs, found)
        explains, base = self.base.explains, self.base
        inside = base.explain(outputs, top=top, found=found) if explains else self._without_terms(outputs)
        probs, scores = self._verdict(outputs, self._own(outputs, found))
        names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
        likeliest = probs.argmax(axis=1)
        return [
            replace(
                one,
                score=float(scores[row]),
                unverified_score=one.score if one.unverified_score is None else one.unverified_score,
                verifier={names[n]: float(probs[row, n]) for n in (likeliest[row], outputs.predicted[row])},
            )
            for row, one in enumerate(inside)
        ]

    @abstractmethod
    def _verdict(self, outputs: Outputs, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the reader would answer (n, classes), and the scores (n,) joined with `own` log-odds (n,)."""

    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray:
        probs = self.base.predict_proba(outputs, found=found)
        if not len(outputs):
            return probs
        own = log_odds(probs[np.arange(len(outputs)), outputs.predicted])
        return with_top(probs, outputs.predicted, self._verdict(outputs, own)[1])

    def _own(self, outputs: Outputs, found: Found | None) -> FloatArray:
        return log_odds(self.base.predict(outputs, found=found).confidence)

    def _reader(self) -> Reader:
        return open_reader(self.reader) if isinstance(self.reader, str) else self.reader

    def _without_terms(self, outputs: Outputs) -> list[Explanation]:
        names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
        prediction = self.base.predict(outputs)
        return [
            Explanation(
                text=None if outputs.texts is None else outputs.texts[row],
                label=names[predicted],
                score=float(prediction.confidence[row]),
                raw_score=float(prediction.raw_confidence[row]),
                **dict.fromkeys(_NO_TERMS),
                n_neighbors=0,
                raised_by=(),
                lowered_by=(),
                neighbors=(),
            )
            for row, predicted in enumerate(prediction.predicted.tolist())
        ]

    def _inside_state(self) -> dict[str, Any]:
        """Return the fields of `InsideState`."""
        return {"base": self.base.kind, "base_state": self.base.to_state()[0], "reader": self._reader().name}

    def _inside_arrays(self) -> Arrays:
        return {f"{_BASE}{name}": array for name, array in self.base.to_state()[1].items()}


def open_inside(part: Part, state: InsideState, stores: Stores | None) -> Calibrator:
    """Open the calibrator inside by its own rules."""
    arrays = arrays_under(part.arrays, _BASE)
    inside = replace(part, kind=state.base, state=state.base_state, arrays=arrays)
    return calibrator_kind(state.base).from_part(inside, stores=stores)


def arrays_under(arrays: Mapping[str, Any], prefix: str) -> Arrays:
    """Return the arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


_NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")
