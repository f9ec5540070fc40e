"""Labels of a domain -> a verifier that learned from them alone, used where it beats the scale.

The labeled inputs are kept as they are, so that labels that come later join them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from knn_ue import metrics
from knn_ue.adapting import GATE, Adaptation, CheckedVerifier, LabeledScores
from knn_ue.adapting.check import cross_validated
from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.calibrators import Calibrator, VerifiedInDomain
from knn_ue.errors import InvalidInputError
from knn_ue.folder import from_plain, to_plain
from knn_ue.folder.schema import Arrays
from knn_ue.folder.tensors import PackedTexts
from knn_ue.types import Outputs
from knn_ue.verifying import LabelParams, LabelVerifier, RawViews, Reader, fit_labels, open_reader, read_inputs
from knn_ue.verifying.labels import MIN_ROWS
from knn_ue.verifying.logistic import log_odds

MAX_LEARNED = 1000  # labeled rows; the time to learn grows with their cube
_PREFIX, _INPUTS = "verifier.", "input"
_LEAST = 1e-6
_NO_GAIN = "no significant gain"  # how the doubt about a scale begins, which is none about a verifier


@dataclass(frozen=True, kw_only=True, eq=False)
class DomainVerifier:
    """The labeled `inputs` of a domain, each a text or a pair, and the verifier, None where it is not used."""

    reader: "str | Reader"
    inputs: Sequence[tuple[str, ...]]
    verifier: LabelVerifier | None = None

    def beside(self, calibrator: Calibrator) -> Calibrator:
        """Return the calibrator with the verifier beside it, or as it is."""
        return calibrator if self.verifier is None else VerifiedInDomain(calibrator, self.reader, self.verifier)


@dataclass(frozen=True, kw_only=True)
class VerifierState:
    """What a folder holds of it beside arrays; `n_parts` is 2 where the inputs are pairs."""

    reader: str
    n_parts: Literal[1, 2]
    params: LabelParams | None


def inputs_of(labeled: Outputs) -> list[tuple[str, ...]]:
    """Return the texts or pairs of labeled rows; raise where a verifier cannot read them."""
    if labeled.pairs is not None:
        return [*labeled.pairs]
    if labeled.groups is not None or labeled.texts is None:
        raise InvalidInputError("a verifier reads texts or pairs, these rows have none: leave out verifier")
    return [(text,) for text in labeled.texts]


def learn_domain(
    reader: "str | Reader", inputs: Sequence[tuple[str, ...]], rows: LabeledScores, *, allowed: bool
) -> tuple[DomainVerifier, CheckedVerifier | None]:
    """Return the verifier of labeled `rows`, and what it does to them, None where they are too few.

    It learns from one copy of each input, and needs rows that count alike. Where it is not `allowed`, or a scale alone
    is as good, the inputs are kept and nothing else.
    """
    kept = DomainVerifier(reader=reader, inputs=tuple(inputs))
    first = np.unique(rows.groups, return_index=True)[1][:MAX_LEARNED]
    if len(first) < MIN_ROWS or np.ptp(rows.weights):
        return kept, None
    once = rows.take(first)
    before = once.confidence(0.0)
    verifier = fit_labels(
        _read(reader, [inputs[row] for row in first]),
        once.predicted,
        once.labels,
        log_odds(before),
        n_classes=rows.log_probs.shape[1],
        n_answers=rows.log_probs.shape[1],
    )
    scaled = once.confidence(cross_validated(once))
    checked = _checked(before, scaled, verifier.scores, once.correct)
    applied = allowed and checked.applied
    return replace(kept, verifier=verifier if applied else None), replace(checked, applied=applied)


def with_verifier(adaptation: Adaptation, checked: CheckedVerifier | None) -> Adaptation:
    """Return the adaptation with what a verifier does; where that is used, no scale has to gain anything."""
    if checked is None or not checked.applied:
        return replace(adaptation, verifier=checked)
    doubts = tuple(doubt for doubt in adaptation.doubts if not doubt.startswith(_NO_GAIN))
    return replace(adaptation, verifier=checked, doubts=doubts)


def to_state(learned: DomainVerifier) -> tuple[dict[str, Any], Arrays]:
    """Return what a folder holds of it."""
    flat = [part for parts in learned.inputs for part in parts]
    params, arrays = None, PackedTexts.pack(flat).to_arrays(_INPUTS)
    if learned.verifier is not None:
        params = learned.verifier.params
        arrays |= {f"{_PREFIX}{name}": array for name, array in learned.verifier.state()[1].items()}
    reader = learned.reader if isinstance(learned.reader, str) else learned.reader.name
    n_parts: Any = len(learned.inputs[0])
    return to_plain(VerifierState(reader=reader, n_parts=n_parts, params=params)), arrays


def from_state(plain: Mapping[str, Any], arrays: Arrays, *, n_rows: int, n_classes: int) -> DomainVerifier:
    """Read what `to_state` returned; ValueError where it is something else."""
    state = from_plain(VerifierState, plain)
    flat = [text or "" for text in PackedTexts.from_arrays(arrays, _INPUTS)]
    if len(flat) != state.n_parts * n_rows:
        raise ValueError("its inputs are not those of its labels")
    inputs = [tuple(flat[start : start + state.n_parts]) for start in range(0, len(flat), state.n_parts)]
    learned = DomainVerifier(reader=state.reader, inputs=inputs)
    if state.params is None:
        return learned
    kept = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    if state.params.n_classes != n_classes or state.params.n_answers != n_classes:
        raise ValueError(f"its verifier knows {state.params.n_classes} classes, not {n_classes}")
    if not all(np.isfinite(array).all() for array in kept.values()):
        raise ValueError("its verifier holds numbers that are not finite")
    found = replace(learned, verifier=LabelVerifier.restored(state.params, kept))
    assert found.verifier is not None
    scores = found.verifier.verdict(_read(state.reader, inputs[:1]), np.zeros(1, dtype=np.int64), np.zeros(1))
    if not np.isfinite(scores).all():
        raise ValueError("its verifier gives no probabilities")
    return found


def _read(reader: "str | Reader", inputs: Sequence[tuple[str, ...]]) -> RawViews:
    opened = open_reader(reader) if isinstance(reader, str) else reader
    pairs: Any = inputs if len(inputs[0]) == 2 else None
    return read_inputs(opened, [parts[0] for parts in inputs], pairs)


def _checked(before: FloatArray, scaled: FloatArray, after: FloatArray, right: BoolArray) -> CheckedVerifier:
    losses = [_log_losses(scores, right) for scores in (before, scaled, after)]
    gain = float(2.0 * (np.minimum(losses[0].sum(), losses[1].sum()) - losses[2].sum()))
    areas = [metrics.e_aurc(confidence=scores, correct=right) for scores in (before, after)]
    return CheckedVerifier(
        n=len(right),
        e_aurc_before=areas[0],
        e_aurc_after=areas[1],
        nll_before=float(losses[0].mean()),
        nll_after=float(losses[2].mean()),
        gain=gain,
        applied=gain > GATE,
    )


def _log_losses(scores: FloatArray, right: BoolArray) -> FloatArray:
    kept = np.clip(scores, _LEAST, 1.0 - _LEAST)
    return -np.log(np.where(right, kept, 1.0 - kept))
