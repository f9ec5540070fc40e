"""Any calibrator with a verifier beside it: a small independent reader of the same texts joins the model's own score.

See `knn_ue.verifying.opened` for how the two become one score.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.beside import BesideReader, InsideState, arrays_under, open_inside
from knn_ue.calibrators.contract import Calibrator, Common, Found, Stores
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule, Part, as_written, check_arrays, from_plain
from knn_ue.folder.schema import Arrays
from knn_ue.types import Outputs
from knn_ue.verifying import LabelVerifier, Reader, read_outputs
from knn_ue.verifying.opened import Gain, Join, JoinParams, LearnedClasses, fit_join, measure_gain
from knn_ue.verifying.views import inner_views

_CLASSES = "classes."


class Verified(BesideReader):
    """The scores of `base`, joined with what a reader that `learned` the classes from training texts would answer."""

    kind: ClassVar[str] = "verified"

    @dataclass(frozen=True, kw_only=True)
    class State(InsideState):
        """What is saved beside arrays."""

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

    def _fit_verifier(self, validation: Outputs, found: Found) -> None:
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
        return self.State(
            **self._inside_state(),
            sharpness=self.learned.sharpness,
            join=self.join_.params,
            gain=self.gain_,
        )

    def _arrays(self) -> Arrays:
        learned = {f"{_CLASSES}{name}": array for name, array in self.learned.arrays().items()}
        return self._inside_arrays() | learned | {"said": self.join_.said}

    @classmethod
    def from_part(cls, part: Part, *, stores: Stores | None = None) -> Self:
        """Open what `to_part` described: the calibrator inside by its own rules, then what stands beside it."""
        with as_written(part.where, cls.kind):
            state = from_plain(_Read, part.state)
            check_arrays(part.arrays, {"said": ArrayRule(dtype=np.float64, shape=("classes", "classes"), least=0)})
            learned = LearnedClasses.from_arrays(arrays_under(part.arrays, _CLASSES), sharpness=state.sharpness)
            verified = cls(open_inside(part, state, stores), state.reader, learned)
            verified.join_, verified.gain_ = Join(params=state.join, said=part.arrays["said"]), state.gain
            if state.n_classes != len(verified.join_.said):
                raise ValueError(f"its reader learned {len(verified.join_.said)} classes, not {state.n_classes}")
            verified.n_classes_ = len(verified.join_.said)
        return verified.with_log_scales(state.log_scales) if state.log_scales else verified


class VerifiedInDomain(BesideReader):
    """The scores of `base` in a domain, joined with a verifier that learned from labels of it alone.

    A domain holds the verifier; this is made of both where a row asks for the domain, and is not saved itself.
    """

    kind: ClassVar[str] = "verified-in-domain"

    def __init__(self, base: Calibrator, reader: "str | Reader", verifier: LabelVerifier) -> None:
        super().__init__(base, reader)
        self.verifier = verifier

    def _fit_verifier(self, validation: Outputs, found: Found) -> None:
        del validation, found
        raise InvalidInputError("the verifier of a domain is fitted by adapt: call adapt(rows)")

    def _verdict(self, outputs: Outputs, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        inner = inner_views(self.verifier.views, read_outputs(self._reader(), outputs))
        return self.verifier.distribution_of(inner), self.verifier.verdict_of(inner, outputs.predicted, own)

    def _is_fitted(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class _Read(Verified.State, Common):
    """All that a folder holds of it, as one record."""
