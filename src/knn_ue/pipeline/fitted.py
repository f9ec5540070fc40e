"""What `fit` leaves behind, which is what a UE folder holds beside the model; and what it says of inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from knn_ue.adapting import Adaptation, LabeledScores
from knn_ue.answers import NeighborExample, nearest_examples
from knn_ue.arrays import BoolArray, FloatArray, IntArray, read_only
from knn_ue.calibrators.contract import Calibrator, Found
from knn_ue.decisions import Decision, RiskThreshold, Scored
from knn_ue.decisions.contract import ABSTAINED, SET
from knn_ue.encoding.contract import Encoder
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.familiarity import ROWS, Familiarity
from knn_ue.methods import METHODS
from knn_ue.pipeline.domain_verifier import DomainVerifier
from knn_ue.shown import Shown
from knn_ue.stores import NeighborStore, RemoteStore, add_to_all, folder_of
from knn_ue.types import Neighbors, Outputs
from knn_ue.verifying.opened import Gain

N_QUANTILES = 101
_SHOWN_NAMES = 12
_LEVELS = np.linspace(0.0, 1.0, N_QUANTILES)


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftQuantiles:
    """How near and how agreeing the neighbors of the validation rows are: what later inputs are compared with.

    `distance` (101,) and `agreement` (101,) are the percentiles 0 .. 100 of the mean distance to the neighbors found,
    infinite where none was, and of the share of all neighbors asked for that carry the predicted label.
    """

    distance: FloatArray
    agreement: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Domain:
    """A domain beside the general one: what its labels lead to, and the labeled scores, to which more may be added.

    `learned` is the verifier of the domain, None where there is no reader.
    """

    adaptation: Adaptation
    labeled: Mapping[str, LabeledScores]
    learned: DomainVerifier | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A fitted pipeline without its model.

    `validation` are the outputs of all validation rows; `held_out` (n,) marks those kept for the `decisions`, which the
    calibrator has not seen. `drift` is None where the method has no neighbors, `familiarity` where the encoder has no
    views. `domains` are those it was adapted to, by name. `copies` are the outputs of perturbed validation rows that a
    robust fit saw too. `verifier_gain` is what a verifier did, right after a fit that tried one.
    """

    method: str
    calibrator: Calibrator
    validation: Outputs
    held_out: BoolArray
    decisions: tuple[Decision, ...]
    drift: DriftQuantiles | None
    domains: Mapping[str, Domain] = field(default_factory=dict)
    familiarity: Familiarity | None = None
    copies: Outputs | None = None
    verifier_gain: Gain | None = None

    @property
    def threshold(self) -> RiskThreshold | None:
        """The decision that keeps a target risk; None where no risk was named."""
        return next((found for found in self.decisions if isinstance(found, RiskThreshold)), None)


class WithFitted(Shown):
    """The part of `UncertaintyPipeline` that holds what was fitted, and tells it."""

    encoder: Encoder
    fitted_: Fitted

    def facts(self) -> dict[str, object]:
        """Return a summary, by name: the model, and how it was fitted."""
        encoder = self.encoder
        names = ", ".join(encoder.class_names[:_SHOWN_NAMES]) + (", ..." if encoder.class_names[_SHOWN_NAMES:] else "")
        facts: dict[str, object] = {"task": encoder.task, "labels": names, "encoder": encoder.kind}
        if not hasattr(self, "fitted_"):
            return facts | {"fitted": "no: call fit(train_rows, validation_rows)"}
        fitted = self.fitted_
        facts |= {"method": fitted.method, "fitted on": f"{int((~fitted.held_out).sum())} validation rows"}
        if fitted.calibrator.stores:
            *_, store = fitted.calibrator.stores.values()
            facts["stored"] = f"{len(store)} examples ({store.where})"
        if fitted.decisions:
            facts["decisions"] = "; ".join(map(str, fitted.decisions))
        if fitted.domains:
            facts["domains"] = ", ".join(fitted.domains)
        return facts | {"familiarity": "measured" if fitted.familiarity is not None else "not measured"}

    @property
    def method_(self) -> str:
        """The name of the method that was fitted."""
        return self._ready().method

    @property
    def calibrator_(self) -> Calibrator:
        """The fitted calibrator."""
        return self._ready().calibrator

    @property
    def threshold_(self) -> RiskThreshold | None:
        """What came of `target_precision` or `target_risk`; None where none was named."""
        return self._ready().threshold

    @property
    def decisions_(self) -> tuple[Decision, ...]:
        """The fitted decisions; `threshold_` is one of them."""
        return self._ready().decisions

    @property
    def promises(self) -> tuple[str, ...]:
        """What each decision promises, or why it cannot: one sentence each."""
        return tuple(map(str, self._ready().decisions))

    @property
    def validation_(self) -> Outputs:
        """The outputs of all validation rows."""
        return self._ready().validation

    @property
    def drift_(self) -> DriftQuantiles | None:
        """Distance and agreement of the validation rows' neighbors; None where the method has none."""
        return self._ready().drift

    def patient(self) -> Self:
        """Wait for minutes where the examples are on a server that is slow or restarts: for batch work."""
        fitted = self._ready()
        stores = fitted.calibrator.stores
        remote = {name: store.patient() for name, store in stores.items() if isinstance(store, RemoteStore)}
        if remote:
            self.fitted_ = replace(fitted, calibrator=fitted.calibrator.with_stores({**stores, **remote}))
        return self

    def _ready(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(type(self).__name__, call="fit(train_rows, validation_rows)")
        return self.fitted_


def check_consistent(fitted: Fitted) -> None:
    """Raise ValueError where the parts of a fitted pipeline, read from a folder, do not go together.

    The last check is an answer: whatever else is wrong with the numbers is found before a user meets it.
    """
    method, calibrator, validation = fitted.method, fitted.calibrator, fitted.validation
    if method not in METHODS or METHODS[method].calibrator.kind != calibrator.plain.kind:
        raise ValueError(f"the method {method[:40]!r} does not have the calibrator {calibrator.kind!r}")
    validation.require_labels("a UE folder")
    if fitted.copies is not None:
        fitted.copies.require_labels("the perturbed copies in a UE folder")
    if (fitted.drift is None) != (not calibrator.stores):
        raise ValueError("drift quantiles go with stores")
    if fitted.familiarity is not None and len(fitted.familiarity.reference_[ROWS]) != len(validation):
        raise ValueError("familiarity was not fitted on its validation rows")
    queries = calibrator.queries(validation)
    widths = {name: store.n_columns for name, store in calibrator.stores.items()}
    if {name: features.shape[1] for name, features in queries.items()} != widths:
        raise ValueError(f"its stores have the columns {widths}, the model has others")
    if all(folder_of(store) is not None for store in calibrator.stores.values()):  # no server is asked here
        probs = calibrator.predict_proba(validation.take([0]))
        if not np.isfinite(probs).all() or not np.allclose(probs.sum(axis=1), 1.0):
            raise ValueError("its calibrator gives no probabilities")


def store_of(calibrator: Calibrator) -> NeighborStore | None:
    """Return the store in which answers find their neighbors, None where the method has none."""
    return next(reversed(list(calibrator.stores.values())), None)


def add_rows(calibrator: Calibrator, outputs: Outputs) -> IntArray:
    """Store labeled outputs in every store of a calibrator and return their ids."""
    if not calibrator.stores:
        raise InvalidInputError(f"{calibrator.kind} stores no examples: fit with knn-ue to store some")
    texts = None if outputs.texts is None else list(outputs.texts)
    return add_to_all(calibrator.stores, calibrator.queries(outputs), outputs.require_labels("adding examples"), texts)


def shown_neighbors(found: Found) -> Neighbors | None:
    """Return the neighbors that answers show, of all that was `found`: those of the last store."""
    return next(reversed(list(found.values())), None)


def closeness(neighbors: Neighbors, predicted: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what drift is measured by: the mean distance (n,) to the neighbors found, inf where none was, and the
    share (n,) of all neighbors asked for that carry the `predicted` label."""
    found = neighbors.ids >= 0
    total = np.where(found, neighbors.distances, 0.0).sum(axis=1)
    n_found = found.sum(axis=1)
    distance = np.divide(total, n_found, out=np.full(len(total), np.inf), where=n_found > 0)
    return distance, (neighbors.labels == predicted[:, None]).mean(axis=1)


def drift_quantiles(
    calibrator: Calibrator, validation: Outputs, *, found: Found | None = None
) -> DriftQuantiles | None:
    """Return the percentiles over the validation rows, None where the method uses no neighbors."""
    if found is None:
        found = calibrator.search(validation)
    if not found:
        return None
    *_, neighbors = found.values()
    distance, agreement = closeness(neighbors, validation.predicted)
    searched = calibrator.searched(validation)
    if searched is not None and searched.any():
        distance, agreement = distance[searched], agreement[searched]
    # Percentiles are values of rows, without interpolation, which between two infinite ones is undefined.
    return DriftQuantiles(
        distance=read_only(np.quantile(distance, _LEVELS, method="inverted_cdf")),
        agreement=read_only(np.quantile(agreement, _LEVELS, method="inverted_cdf")),
    )


def nearest(
    calibrator: Calibrator,
    found: Found,
    predicted: IntArray,
    *,
    names: Sequence[str],
    top: int,
    rows: IntArray | slice = slice(None),
) -> list[tuple[NeighborExample, ...]]:
    """Return the `top` nearest training examples of each of the `rows`; none where the method has no store.

    They are those of the last store; their texts are fetched in one call.
    """
    wanted = predicted[rows]
    if not found or not top:
        return [() for _ in range(len(wanted))]
    name, store = list(calibrator.stores.items())[-1]
    return nearest_examples(found[name].take(rows), wanted, store.texts_of, names=names, top=top)


def most_likely(probs: FloatArray, names: Sequence[str], top_k: int | None) -> Sequence[dict[str, float] | None]:
    """Return the `top_k` most likely labels of each row with their probabilities, None where `top_k` is None."""
    if top_k is None:
        return [None] * len(probs)
    order = np.argsort(-probs, axis=1, kind="stable")[:, :top_k]
    return [
        {names[column]: float(row[column]) for column in columns} for row, columns in zip(probs, order, strict=True)
    ]


def class_names(outputs: Outputs) -> Sequence[str]:
    """Return the names of the classes, or "class 0", "class 1", ... where they have none."""
    return outputs.class_names or [f"class {number}" for number in range(outputs.n_classes)]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What was decided about one answer: whether to withhold it, its set of labels, and what decisions add to it."""

    abstained: bool
    fields: Mapping[str, Any] | None
    labels: tuple[str, ...] | None = None

    def about(self, value: str) -> tuple[str | None, str | None]:
        """Return the label, tag or type to give, and the one it would have been.

        >>> Decided(abstained=True, fields=None).about("pos")
        (None, 'pos')
        """
        return (None, value) if self.abstained else (value, None)


def decide(scored: Scored, decisions: Sequence[Decision], abstain_below: Sequence[float | None]) -> list[Decided]:
    """Return what is decided about each of the n answers.

    Any decision may abstain. Where `abstain_below` (n) is a number, it alone decides on that.
    """
    n_answers = len(scored.confidence)
    added: list[dict[str, Any]] = [{} for _ in range(n_answers)]
    abstained = [False] * n_answers
    sets: list[tuple[str, ...] | None] = [None] * n_answers
    for decision in decisions if n_answers else ():
        for row, fields in zip(range(n_answers), decision.fields(scored), strict=True):
            added[row] |= fields
            abstained[row] |= bool(added[row].pop(ABSTAINED, False))
            if SET in added[row]:
                sets[row] = tuple(added[row].pop(SET))
    return [
        Decided(abstained=by_decision if least is None else score < least, fields=fields or None, labels=labels)
        for score, least, by_decision, fields, labels in zip(
            scored.confidence.tolist(), abstain_below, abstained, added, sets, strict=True
        )
    ]
