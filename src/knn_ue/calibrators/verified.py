"""Any calibrator with a verifier beside it: a small independent reader of the same texts joins the model's own score.

See `knn_ue.verifying.opened` for how the two become one score.
"""

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Interval

from knn_ue.answers import Explanation
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators.contract import Calibrator, Common, Found, Stores, calibrator_kind
from knn_ue.calibrators.top_label import with_top
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule, Part, as_written, check_arrays, from_plain
from knn_ue.folder.schema import Arrays
from knn_ue.types import Outputs
from knn_ue.verifying import LabelVerifier, Reader, open_reader, read_outputs
from knn_ue.verifying.logistic import log_odds
from knn_ue.verifying.opened import Gain, Join, JoinParams, LearnedClasses, fit_join, measure_gain
from knn_ue.verifying.views import inner_views

_BASE, _CLASSES = "base.", "classes."


class _BesideReader(Calibrator):
    """What both kinds share: a calibrator inside, and a reader whose verdict joins its score.

    Predictions stay the model's own; another class may be likelier. What a score leaves is shared as `base` does it.
    """

    keeps_prediction: ClassVar[bool] = False
    explains: ClassVar[bool] = True
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


class Verified(_BesideReader):
    """The scores of `base`, joined with what a reader that `learned` the classes from training texts would answer."""

    kind: ClassVar[str] = "verified"

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
        super().__init__(base, reader)
        self.learned = learned

    @property
    def gain(self) -> Gain:
        """What the verifier gained in the fit."""
        return self.gain_

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        self.base = copy(self.base).fit(validation, found=found)
        labels, answers = validation.require_labels("Verified.fit"), validation.predicted
        own, started = self._own(validation, found), perf_counter()
        probs = self._probs(validation)
        milliseconds = 1000 * (perf_counter() - started) / len(validation)
        self.gain_ = replace(measure_gain(probs, answers, labels, own), milliseconds=milliseconds)
        self.join_ = fit_join(probs, answers, labels, own)

    def _verdict(self, outputs: Outputs, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        probs = self._probs(outputs)
        return probs, self.join_.scores(probs, outputs.predicted, own)

    def _probs(self, outputs: Outputs) -> FloatArray:
        return self.learned.probs(read_outputs(self._reader(), outputs))

    def _is_fitted(self) -> bool:
        return hasattr(self, "join_")

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


class VerifiedInDomain(_BesideReader):
    """The scores of `base` in a domain, joined with a verifier that learned from labels of it alone.

    A domain holds the verifier; this is made of both where a row asks for the domain, and is not saved itself.
    """

    kind: ClassVar[str] = "verified-in-domain"

    def __init__(self, base: Calibrator, reader: "str | Reader", verifier: LabelVerifier) -> None:
        super().__init__(base, reader)
        self.verifier = verifier

    def _fit(self, _validation: Outputs, _found: Found, /) -> None:
        raise InvalidInputError("the verifier of a domain is fitted by adapt: call adapt(rows)")

    def _verdict(self, outputs: Outputs, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        inner = inner_views(self.verifier.views, read_outputs(self._reader(), outputs))
        return self.verifier.distribution_of(inner), self.verifier.verdict_of(inner, outputs.predicted, own)

    def _is_fitted(self) -> bool:
        return True


_NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")


@dataclass(frozen=True, kw_only=True)
class _Read(Verified.State, Common):
    """All that a folder holds of it, as one record."""


def _under(arrays: Mapping[str, Any], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
