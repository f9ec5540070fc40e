"""Rows and an encoder -> `Fitted`: everything is checked before the first row goes through the model."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, check_choice, check_positive
from knn_ue.calibrators import LogitScaling
from knn_ue.data.splits import half_of
from knn_ue.decisions.risk import check_risk, choose_threshold
from knn_ue.encoding.contract import Encoder, EncoderOptions
from knn_ue.encoding.inputs import Example, class_numbers
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS, make_calibrator
from knn_ue.pipeline.answers import scored_answers
from knn_ue.pipeline.fitted import Fitted, drift_quantiles
from knn_ue.pipeline.index_choice import check_index_of, choose_index, searches
from knn_ue.pipeline.rows import Rows, count_stored, labeled_examples
from knn_ue.stores import IndexOptions, balanced_rows
from knn_ue.tasks import TASKS
from knn_ue.types import Outputs, Progress, Step

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a pipeline is fitted; see `UncertaintyPipeline.fit`."""

    method: str = "knn-ue"
    index: str | IndexOptions = "auto"
    n_neighbors: int = 32
    max_stored: int | None = None
    target_risk: float | None = None
    delta: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.method, "method", tuple(METHODS))
        check_positive(self.n_neighbors, "n_neighbors")
        if self.index not in ("auto", "exact") and not searches(self.method):
            raise InvalidInputError(
                f"{self.method} looks at no neighbors, index {str(self.index)!r} would do nothing: leave it out, or "
                "choose knn-ue"
            )
        if self.max_stored is not None:
            self._check_max_stored(self.max_stored)
        if self.target_risk is not None:
            check_risk(self.target_risk, self.delta)

    def _check_max_stored(self, max_stored: int) -> None:
        if not searches(self.method):
            raise InvalidInputError(f"{self.method} stores no examples: leave out max_stored, or choose knn-ue")
        if max_stored < self.n_neighbors:
            raise InvalidInputError(
                f"max_stored={max_stored} must be at least n_neighbors={self.n_neighbors}: raise it, or lower the other"
            )


def fit_rows(
    encoder: Encoder,
    train_rows: Rows | Outputs,
    validation_rows: Rows | Outputs,
    options: FitOptions,
    progress: Progress | None,
) -> Fitted:
    """Encode both sets, make the calibrator of the method, fit it and choose the threshold."""
    train = _checked(encoder, train_rows, name="training")
    validation = _checked(encoder, validation_rows, name="validation")
    _check_neighbors(options, len(train) if isinstance(train, Outputs) else count_stored(train, encoder.task))
    if not isinstance(train, Outputs):
        check_index_of(options.method, options.index, encoder.encode([]))
    if not METHODS[options.method].reads_training:
        train = []  # checked like all others, but there is no need to run the model on them
    if options.max_stored is not None and not isinstance(train, Outputs) and not TASKS[encoder.task].is_tagging:
        # Texts that will not be stored need not go through the model; of a sentence some words may be.
        labels = class_numbers(train, encoder.class_names)
        train = [train[row] for row in balanced_rows(labels, options.max_stored, seed=options.seed)]
    stored = _encoded(encoder, train, stage(progress, "training"))
    if options.max_stored is not None:
        stored = stored.take(balanced_rows(stored.require_labels("max_stored"), options.max_stored, seed=options.seed))
    outputs = _encoded(encoder, validation, stage(progress, "validation"))
    held_out = np.zeros(len(outputs), dtype=bool)
    if options.target_risk is not None:
        held_out = _half(outputs, options.seed)
    index = choose_index(
        options.method,
        options.index,
        stored,
        outputs.take(~held_out),
        n_neighbors=options.n_neighbors,
        seed=options.seed,
        progress=progress,
    )
    calibrator = make_calibrator(options.method, stored, n_neighbors=options.n_neighbors, index=index)
    risk = None if options.target_risk is None else (options.target_risk, options.delta)
    return fit_outputs(options.method, calibrator, outputs, held_out, risk)


def fit_outputs(
    method: str, calibrator: LogitScaling, validation: Outputs, held_out: BoolArray, risk: tuple[float, float] | None
) -> Fitted:
    """Fit the calibrator on the validation rows that are not held out, and with `risk`, a target risk and a delta,
    choose the threshold on those that are."""
    calibrator.fit(validation.take(~held_out))
    threshold = None
    if risk is not None:
        confidence, correct = scored_answers(validation.take(held_out), calibrator)
        threshold = choose_threshold(confidence=confidence, correct=correct, target_risk=risk[0], delta=risk[1])
    return Fitted(
        method=method,
        calibrator=calibrator,
        validation=validation,
        held_out=held_out,
        threshold=threshold,
        drift=drift_quantiles(calibrator, validation),
    )


def encoder_for(encoder: Encoder, chosen: EncoderOptions, method: str) -> Encoder:
    """Return the encoder as the user chose it, but for what the method needs; raise unless its training fits."""
    training, tasks = METHODS[method].training, METHODS[method].tasks
    if encoder.task not in tasks:
        raise InvalidInputError(f"{method} is for {' and '.join(tasks)} only, got task {encoder.task!r}")
    if encoder.training != training.name:
        raise InvalidInputError(
            f"{method} needs a model with {training.name} training, this one has {encoder.training}: "
            f"run knn-ue train --method {method} ..., or choose another method"
        )
    needed = dict(METHODS[method].encoding)
    if getattr(chosen, "passes", 1) > 1:  # by the user, who may want another number of them
        needed.pop("passes", None)
    wanted = {field.name: getattr(chosen, field.name) for field in fields(chosen)} | needed
    changes = {name: value for name, value in wanted.items() if getattr(encoder.options, name, _ABSENT) != value}
    changed = encoder.with_options(**changes) if changes else encoder
    return encoder if changed.options == encoder.options else changed


def check_outputs(made: EncoderOptions, needed: EncoderOptions, method: str) -> None:
    """Raise where outputs of an encoder with the options `made` are not those the method will see when it predicts.

    Layers that are missing are named by the method that reads them.
    """
    for name in METHODS[method].encoding.keys() - {"all_layers"}:
        has, wanted = getattr(made, name), getattr(needed, name)
        if has != wanted:
            raise InvalidInputError(
                f"{method} needs outputs made with {name}={wanted}, these have {name}={has}: pass the rows, or make "
                f"the pipeline with {name}={wanted!r}"
            )


def chosen_options(options: EncoderOptions, method: str) -> EncoderOptions:
    """Return the options of a fitted encoder without what only its method needed."""
    needed = METHODS[method].encoding
    defaults: Any = {field.name: field.default for field in fields(options) if field.name in needed}
    return replace(options, **defaults)


def stage(progress: Progress | None, name: str) -> Step | None:
    """Return what the encoder calls: it does not know which rows it is reading."""
    return None if progress is None else lambda done, total: progress(name, done, total)


def _checked(encoder: Encoder, rows: Rows | Outputs, *, name: str) -> list[Example] | Outputs:
    if not isinstance(rows, Outputs):
        return labeled_examples(rows, encoder.task, encoder.class_names, name=name)
    rows.require_labels(f"the {name} set of fit")
    if rows.n_classes != len(encoder.class_names):
        raise InvalidInputError(
            f"the {name} outputs have {rows.n_classes} classes, the model has {len(encoder.class_names)}: "
            "use outputs of this model"
        )
    return rows


def _encoded(encoder: Encoder, rows: list[Example] | Outputs, progress: Step | None) -> Outputs:
    return rows if isinstance(rows, Outputs) else encoder.encode(rows, progress=progress)


def _check_neighbors(options: FitOptions, n_stored: int) -> None:
    # The calibrator checks it too, but only after every row went through the model.
    if searches(options.method) and options.n_neighbors > n_stored:
        raise InvalidInputError(
            f"n_neighbors={options.n_neighbors} exceeds the {n_stored} stored examples: lower it or add more"
        )


def _half(outputs: Outputs, seed: int) -> BoolArray:
    """Mark one half of the rows, at random; the words of one sentence stay together."""
    groups = np.arange(len(outputs)) if outputs.groups is None else outputs.groups
    numbers = np.unique(groups)
    if len(numbers) < 2:
        raise InvalidInputError("target_risk needs at least 2 validation rows, one to fit and one to choose: add rows")
    return np.isin(groups, numbers[sorted(half_of(len(numbers), second=True, seed=seed))])
