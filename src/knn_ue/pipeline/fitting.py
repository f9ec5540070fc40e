"""Rows and an encoder -> `Fitted`: everything is checked before the first row goes through the model.

The index is chosen by the validation rows: index="auto" when a pipeline is fitted, `tune_fitted` afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, check_choice, check_positive
from knn_ue.calibrators import Calibrator, Found, take_found
from knn_ue.data import Columns
from knn_ue.data.perturb import perturbed_rows
from knn_ue.data.splits import half_of
from knn_ue.decisions import Decision
from knn_ue.encoding.contract import Encoder, EncoderOptions
from knn_ue.encoding.inputs import Example, class_numbers
from knn_ue.errors import InvalidInputError
from knn_ue.familiarity import FALSE_ALARM_RATE, check_rate
from knn_ue.methods import METHODS, make_calibrator
from knn_ue.pipeline.answers import score_answers, scored_answers
from knn_ue.pipeline.familiarity import (
    MAX_MEASURED,
    SampledViews,
    ScoredViews,
    encode_looking,
    has_views,
)
from knn_ue.pipeline.fitted import Fitted, drift_quantiles
from knn_ue.pipeline.rows import (
    Rows,
    check_leakage,
    check_vectors,
    count_stored,
    labeled_examples,
    warn_if_weak,
    warn_of_absent_classes,
)
from knn_ue.stores import IndexOptions, balanced_rows, check_address, index_options, is_small, tunable
from knn_ue.stores.segment import check_index
from knn_ue.tasks import TASKS
from knn_ue.tuning import Tolerance, Tuning, tune_index
from knn_ue.types import Outputs, Progress, Step, join_outputs


def check_index_of(method: str, index: str | IndexOptions, empty: Outputs) -> None:
    """Raise where `index` could not be built or saved over features like those of `empty` outputs, without rows."""
    for n_columns in {queries.shape[1] for queries in METHODS[method].calibrator.queries(empty).values()}:
        check_index(index_options(index, 1, n_columns), n_columns)


def tune_calibrator(
    calibrator: Calibrator,
    validation: Outputs,
    *,
    tolerance: Tolerance,
    thorough: bool,
    seed: int,
    progress: Progress | None,
) -> tuple[Calibrator, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet.

    Where there are several stores, all take what suits the last one.
    """
    name, store = list(calibrator.stores.items())[-1]
    vectors, labels = tunable(store).arrays()
    tuning = tune_index(
        vectors,
        labels,
        replace(validation, features=calibrator.queries(validation)[name], layers=None),
        n_neighbors=calibrator.n_neighbors,
        use_labels=calibrator.use_labels,
        tolerance=tolerance,
        scored=scored_answers,
        thorough=thorough,
        seed=seed,
        progress=progress,
    )
    return _reindexed(calibrator, tuning.chosen), tuning


def tune_fitted(
    fitted: Fitted, *, tolerance: Tolerance, thorough: bool, progress: Progress | None
) -> tuple[Calibrator, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet."""
    _check_searches(fitted)
    validation = fitted.validation.take(~fitted.held_out)
    return tune_calibrator(
        fitted.calibrator, validation, tolerance=tolerance, thorough=thorough, seed=0, progress=progress
    )


def with_index(fitted: Fitted, index: str | IndexOptions) -> Calibrator:
    """Return a calibrator over the same stored examples that is searched by another index, not fitted yet."""
    _check_searches(fitted)
    return _reindexed(fitted.calibrator, index)


def _reindexed(calibrator: Calibrator, index: str | IndexOptions) -> Calibrator:
    return calibrator.with_stores({name: tunable(x).reindexed(index) for name, x in calibrator.stores.items()})


def _check_searches(fitted: Fitted) -> None:
    if not fitted.calibrator.stores:
        raise InvalidInputError(f"{fitted.method} uses no neighbors, so there is no index to tune")


_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a pipeline is fitted; see `UncertaintyPipeline.fit`."""

    method: str = "knn-ue"
    index: str | IndexOptions = "auto"
    store: str | None = None
    n_neighbors: int = 32
    max_stored: int | None = None
    decisions: tuple[Decision, ...] = ()
    false_alarm_rate: float = FALSE_ALARM_RATE
    robust: bool = False
    seed: int = 0
    allow_leakage: bool = False

    def __post_init__(self) -> None:
        check_choice(self.method, "method", tuple(METHODS))
        check_positive(self.n_neighbors, "n_neighbors")
        check_rate(self.false_alarm_rate)
        calibrator = METHODS[self.method].calibrator
        if self.index not in ("auto", "exact") and not calibrator.searches:
            raise InvalidInputError(
                f"{self.method} uses no neighbors, index {str(self.index)!r} would do nothing: leave it out, or "
                "choose knn-ue"
            )
        if self.store is not None:
            if not calibrator.searches:
                raise InvalidInputError(f"{self.method} stores no examples: leave out store, or choose knn-ue")
            check_address(self.store, self.index, several=calibrator.many_stores)
        if self.max_stored is not None:
            if not calibrator.searches:
                raise InvalidInputError(f"{self.method} stores no examples: leave out max_stored, or choose knn-ue")
            if self.max_stored < self.n_neighbors:
                raise InvalidInputError(
                    f"max_stored={self.max_stored} must be at least n_neighbors={self.n_neighbors}: raise it, or lower "
                    "the other"
                )


def fit_rows(
    encoder: Encoder,
    train_rows: Rows | Outputs,
    validation_rows: Rows | Outputs,
    options: FitOptions,
    progress: Progress | None,
    columns: Columns | None = None,
) -> Fitted:
    """Encode both sets, make the calibrator of the method, fit it and choose the threshold."""
    train = _checked(encoder, train_rows, columns, name="training")
    validation = _checked(encoder, validation_rows, columns, name="validation")
    n_stored = len(train) if isinstance(train, Outputs) else count_stored(train, encoder.task)
    if (
        METHODS[options.method].calibrator.searches and options.n_neighbors > n_stored
    ):  # the calibrator checks it too, but late
        rule = f"exceeds the {n_stored} stored examples: lower it or add more"
        raise InvalidInputError(
            f"n_neighbors={options.n_neighbors} {rule}", shell=f"--neighbors {options.n_neighbors} {rule}"
        )
    if not options.allow_leakage and not isinstance(train, Outputs) and not isinstance(validation, Outputs):
        check_leakage(train, validation)
    if not isinstance(train, Outputs) and options.store is None and options.index not in ("auto", "exact"):
        check_index_of(options.method, options.index, encoder.encode([]))
    if not METHODS[options.method].reads_training:
        # Checked like all others, but nothing is stored: a sample tells what the training data are like.
        train = train if isinstance(train, Outputs) else _sample(train, encoder, options.seed)
    if options.max_stored is not None and not isinstance(train, Outputs) and not TASKS[encoder.task].is_tagging:
        # Texts that will not be stored need not go through the model; of a sentence some words may be.
        labels = class_numbers(train, encoder.class_names)
        train = [train[row] for row in balanced_rows(labels, options.max_stored, seed=options.seed)]
    sampled = SampledViews(
        len(train) if isinstance(train, Outputs) else count_stored(train, encoder.task), seed=options.seed
    )
    stored = encode_looking(encoder, train, sampled.look, stage(progress, "training"))
    if options.max_stored is not None:
        stored = stored.take(balanced_rows(stored.require_labels("max_stored"), options.max_stored, seed=options.seed))
    # Outputs that were given may have views that this encoder will not have when it predicts.
    scored = ScoredViews(sampled.space() if has_views(encoder) else None)
    outputs = encode_looking(encoder, validation, scored.look, stage(progress, "validation"))
    warn_if_weak(outputs)
    if METHODS[options.method].reads_training:
        warn_of_absent_classes(stored)
    held_out = np.zeros(len(outputs), dtype=bool)
    if options.decisions:
        held_out = _half(outputs, options.seed)
    copies = None
    if options.robust:
        copies = _perturbed(encoder, validation, outputs, held_out, options.seed)
    calibrator = _stored(options, stored, outputs.take(~held_out), progress)
    found = calibrator.search(outputs)
    if not options.allow_leakage:
        check_vectors(found, outputs)
    fitted = fit_outputs(options.method, calibrator, outputs, held_out, options.decisions, copies=copies, found=found)
    return replace(fitted, familiarity=scored.familiarity(outputs, options.false_alarm_rate))


def _perturbed(
    encoder: Encoder, rows: list[Example] | Outputs, outputs: Outputs, held_out: BoolArray, seed: int
) -> Outputs:
    """Return what the model says of one perturbed copy of each validation row that fits the calibrator."""
    if isinstance(rows, Outputs):
        raise InvalidInputError("robust needs the validation rows, to perturb their texts: pass rows, not Outputs")
    number = np.arange(len(outputs)) if outputs.groups is None else np.unique(outputs.groups, return_inverse=True)[1]
    kept = np.unique(number[~held_out]).tolist()
    with_words = [row for row in rows if row.parts]
    copies = perturbed_rows([(with_words[n].parts, with_words[n].labels or ()) for n in kept], encoder.task, seed=seed)
    return replace(encoder.encode([Example(parts, labels) for parts, labels in copies]), views=None)


def fit_outputs(
    method: str,
    calibrator: Calibrator,
    validation: Outputs,
    held_out: BoolArray,
    decisions: Sequence[Decision],
    *,
    copies: Outputs | None = None,
    found: Found | None = None,
) -> Fitted:
    """Fit the calibrator on the validation rows that are not held out, and the decisions on those that are.

    `copies` of the former, perturbed, are fitted on too. The neighbors of the validation rows are searched once for
    all of it; `found` is what was found before.
    """
    if found is None:
        found = calibrator.search(validation)
    if copies is None:
        calibrator.fit(validation.take(~held_out), found=_part(found, ~held_out))
    else:
        calibrator.fit(join_outputs(validation.take(~held_out), copies))
    if decisions:
        scored = score_answers(validation.take(held_out), calibrator, found=_part(found, held_out))
        decisions = [decision.fit(scored) for decision in decisions]
    return Fitted(
        method=method,
        calibrator=calibrator,
        validation=validation,
        held_out=held_out,
        decisions=tuple(decisions),
        drift=drift_quantiles(calibrator, validation, found=found),
        copies=copies,
    )


def _part(found: Found, rows: BoolArray) -> Found | None:
    """Return what was found for some of the rows; None where only another search gives what they would find alone."""
    # An index behind a PCA that keeps its own distances rounds them by the batch: exact ones never do.
    if rows.all():
        return found
    if any(neighbors.approximate for neighbors in found.values()):
        return None
    return take_found(found, rows)


def refit(fitted: Fitted, calibrator: Calibrator) -> Fitted:
    """Fit `calibrator` and the decisions again on the rows that `fitted` was fitted on; domains keep their scales."""
    again = fit_outputs(
        fitted.method, calibrator, fitted.validation, fitted.held_out, fitted.decisions, copies=fitted.copies
    )
    return replace(again, domains=fitted.domains, familiarity=fitted.familiarity)


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


def _checked(encoder: Encoder, rows: Rows | Outputs, columns: Columns | None, *, name: str) -> list[Example] | Outputs:
    if not isinstance(rows, Outputs):
        return labeled_examples(rows, encoder.task, encoder.class_names, name=name, columns=columns)
    rows.require_labels(f"the {name} set of fit")
    if rows.n_classes != len(encoder.class_names):
        raise InvalidInputError(
            f"the {name} outputs have {rows.n_classes} classes, the model has {len(encoder.class_names)}: "
            "use outputs of this model"
        )
    return rows


def _sample(rows: list[Example], encoder: Encoder, seed: int) -> list[Example]:
    """Return rows to measure the training data by; none where the encoder has no views."""
    if not has_views(encoder):
        return []
    chosen = np.random.default_rng(seed).permutation(len(rows))[:MAX_MEASURED]
    return [rows[number] for number in sorted(chosen.tolist())]


def _stored(options: FitOptions, train: Outputs, validation: Outputs, progress: Progress | None) -> Calibrator:
    """Return the calibrator of the method with what it keeps of the training rows, its index chosen, not fitted."""
    tuned = options.index == "auto" and options.store is None
    # An exact index costs nothing to build: it is the array itself.
    calibrator = make_calibrator(
        options.method,
        train,
        n_neighbors=options.n_neighbors,
        index="exact" if tuned else options.index,
        store=options.store,
    )
    sizes = [len(store) * store.n_columns for store in calibrator.stores.values()]
    if tuned and sizes and not is_small(sizes[-1], of_words=validation.groups is not None):
        calibrator, _ = tune_calibrator(
            calibrator, validation, tolerance=Tolerance(), thorough=False, seed=options.seed, progress=progress
        )
    return calibrator


def _half(outputs: Outputs, seed: int) -> BoolArray:
    """Mark one half of the rows, at random; the words of one sentence stay together."""
    groups = np.arange(len(outputs)) if outputs.groups is None else outputs.groups
    numbers = np.unique(groups)
    if len(numbers) < 2:
        raise InvalidInputError(
            "target_risk and other decisions need at least 2 validation rows, one to fit and one to hold out: add rows"
        )
    return np.isin(groups, numbers[sorted(half_of(len(numbers), second=True, seed=seed))])
