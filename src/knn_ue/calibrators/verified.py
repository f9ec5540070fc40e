"""Any calibrator with a verifier beside it: a small independent reader of the same texts joins the model's own score.

See `knn_ue.verifying.opened` for how the two become one score.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Interval

from knn_ue.answers import Explanation
from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Calibrator, Common, Found, Stores, calibrator_kind
from knn_ue.calibrators.top_label import with_top
from knn_ue.folder import ArrayRule, Part, as_written, check_arrays, from_plain
from knn_ue.folder.schema import Arrays
from knn_ue.types import Outputs
from knn_ue.verifying import Reader, open_reader, read_outputs
from knn_ue.verifying.logistic import log_odds
from knn_ue.verifying.opened import Gain, Join, JoinParams, LearnedClasses, fit_join, measure_gain

_BASE, _CLASSES = "base.", "classes."


class Verified(Calibrator):
    """The scores of `base`, joined with what a reader that `learned` the classes from texts would answer.

    Predictions stay the model's own; another class may be likelier. What a score leaves is shared as `base` does it.
    """

    kind: ClassVar[str] = "verified"
    keeps_prediction: ClassVar[bool] = False
    explains: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays: the calibrator inside, by its kind and its own state, and the reader."""

        base: str
        base_state: dict[str, Any]
        reader: str
        sharpness: Annotated[float, Interval(ge=0.1, le=1000)]
        join: JoinParams
        gain: Gain

    join_: Join
    gain_: Gain

    def __init__(self, base: Calibrator, reader: "str | Reader", learned: LearnedClasses) -> None:
        self._take_base(base)
        self.reader = reader
        self.learned = learned

    @property
    def plain(self) -> Calibrator:
        """The calibrator inside."""
        return self.base

    @property
    def gain(self) -> Gain:
        """What the verifier gained in the fit."""
        return self.gain_

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        return self.base.facts() | {"verifier": self._reader().name}

    @property
    def stores(self) -> Stores:
        """Those of the calibrator inside."""
        return self.base.stores

    def _take_stores(self, stores: Stores) -> None:
        self._take_base(self.base.with_stores(stores))

    def _take_base(self, base: Calibrator) -> None:
        self.base = base
        self.n_neighbors, self.use_labels = base.n_neighbors, base.use_labels

    def queries(self, outputs: Outputs) -> Mapping[str, FloatArray]:  # type: ignore[override]  # asks the one inside
        """Return what each store of the calibrator inside is searched with."""
        return self.base.queries(outputs)

    def searched(self, outputs: Outputs) -> Any:
        """Return which rows the calibrator inside looks up."""
        return self.base.searched(outputs)

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return the reasons of the calibrator inside, where it has some, and what the verifier would answer."""
        self._check_ready(outputs)
        found = self._neighbors(outputs, found)
        inside = (
            self.base.explain(outputs, top=top, found=found) if self.base.explains else self._without_terms(outputs)
        )
        scores, probs = self.predict(outputs, found=found).confidence, self._probs(outputs)
        names = outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]
        return [
            replace(
                one,
                score=float(scores[row]),
                unverified_score=one.score,
                verifier={names[n]: float(probs[row, n]) for n in (int(probs[row].argmax()), outputs.predicted[row])},
            )
            for row, one in enumerate(inside)
        ]

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        self.base = copy(self.base).fit(validation, found=found)
        labels, answers = validation.require_labels("Verified.fit"), validation.predicted
        own, started = self._own(validation, found), perf_counter()
        probs = self._probs(validation)
        milliseconds = 1000 * (perf_counter() - started) / len(validation)
        self.gain_ = replace(measure_gain(probs, answers, labels, own), milliseconds=milliseconds)
        self.join_ = fit_join(probs, answers, labels, own)

    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray:
        probs = self.base.predict_proba(outputs, found=found)
        if not len(outputs):
            return probs
        answers = outputs.predicted
        own = log_odds(probs[np.arange(len(outputs)), answers])
        return with_top(probs, answers, self.join_.scores(self._probs(outputs), answers, own))

    def _own(self, outputs: Outputs, found: Found | None) -> FloatArray:
        return log_odds(self.base.predict(outputs, found=found).confidence)

    def _probs(self, outputs: Outputs) -> FloatArray:
        return self.learned.probs(read_outputs(self._reader(), outputs))

    def _reader(self) -> Reader:
        return open_reader(self.reader) if isinstance(self.reader, str) else self.reader

    def _is_fitted(self) -> bool:
        return hasattr(self, "join_")

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

    def _own_state(self) -> State:
        state, _ = self.base.to_state()
        return self.State(
            base=self.base.kind,
            base_state=state,
            reader=self._reader().name,
            sharpness=self.learned.sharpness,
            join=self.join_.params,
            gain=self.gain_,
        )

    def _arrays(self) -> Arrays:
        arrays = {f"{_BASE}{name}": array for name, array in self.base.to_state()[1].items()}
        arrays |= {f"{_CLASSES}{name}": array for name, array in self.learned.arrays().items()}
        return arrays | {"said": self.join_.said}

    @classmethod
    def from_part(cls, part: Part, *, stores: Stores | None = None) -> Self:
        """Open what `to_part` described: the calibrator inside by its own rules, then what stands beside it."""
        with as_written(part.where, cls.kind):
            state = from_plain(_Read, part.state)
            check_arrays(part.arrays, {"said": ArrayRule(dtype=np.float64, shape=("classes", "classes"), least=0)})
            inside = replace(part, kind=state.base, state=state.base_state, arrays=_under(part.arrays, _BASE))
            base = calibrator_kind(state.base).from_part(inside, stores=stores)
            learned = LearnedClasses.from_arrays(_under(part.arrays, _CLASSES), sharpness=state.sharpness)
            verified = cls(base, state.reader, learned)
            verified.join_, verified.gain_ = Join(params=state.join, said=part.arrays["said"]), state.gain
            if state.n_classes != len(verified.join_.said):
                raise ValueError(f"its reader learned {len(verified.join_.said)} classes, not {state.n_classes}")
            verified.n_classes_ = len(verified.join_.said)
        return verified.with_log_scales(state.log_scales) if state.log_scales else verified


_NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")


@dataclass(frozen=True, kw_only=True)
class _Read(Verified.State, Common):
    """All that a folder holds of it, as one record."""


def _under(arrays: Mapping[str, Any], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
