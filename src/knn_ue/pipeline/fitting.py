"""Rows and an encoder -> `Fitted`: everything is checked before the first row goes through the model."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_choice, check_positive
from knn_ue.calibrators import Calibrator, Found, take_found
from knn_ue.data import Columns
from knn_ue.data.perturb import perturbed_rows
from knn_ue.data.splits import seeded_order
from knn_ue.decisions import Decision
from knn_ue.decisions.risk import Unit, check_unit
from knn_ue.encoding.contract import Encoder, NotExportedError
from knn_ue.encoding.inputs import Example, class_numbers, windows
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.familiarity import FALSE_ALARM_RATE, Familiarity, TrainingSpace, check_rate
from knn_ue.methods import METHODS, check_method, make_calibrator
from knn_ue.pipeline.answers import score_answers, scored_answers
from knn_ue.pipeline.fitted import Fitted, drift_quantiles
from knn_ue.pipeline.rows import (
    Rows,
    check_leakage,
    check_not_stored,
    check_vectors,
    count_stored,
    labeled_examples,
    warn_if_weak,
    warn_of_absent_classes,
    with_documents,
)
from knn_ue.pipeline.verified import AUTO, with_verifier
from knn_ue.stores import IndexOptions, balanced_rows, check_address, index_options, is_small
from knn_ue.stores.segment import check_index
from knn_ue.tasks import TASKS
from knn_ue.tuning import Tolerance, tune_calibrator
from knn_ue.types import LAYER, Outputs, Progress, Step, join_columns
from knn_ue.verifying import Reader

BACKENDS = ("auto", "onnx", "torch")
MAX_MEASURED = 5000  # training rows that the training space is measured on


def check_index_of(method: str, index: str | IndexOptions, empty: Outputs) -> None:
    """Raise where `index` could not be built or saved over features like those of `empty` outputs, without rows."""
    for n_columns in {queries.shape[1] for queries in METHODS[method].calibrator.queries(empty).values()}:
        check_index(index_options(index, 1, n_columns), n_columns)


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
    verifier: "str | Reader | None" = None
    seed: int = 0
    unit: Unit | None = None
    allow_leakage: bool = False
    backend: str = "auto"

    def __post_init__(self) -> None:
        check_method(self.method)
        check_choice(self.backend, "backend", BACKENDS)
        check_positive(self.n_neighbors, "n_neighbors")
        check_unit(self.unit)
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
) -> tuple[Encoder, Fitted]:
    """Encode both sets, make the calibrator of the method, fit it and choose the threshold; return what encoded them.

    That is the model's export for ONNX Runtime where rows are given and the export answers as the model does.
    """
    method = METHODS[options.method]
    train = _checked(encoder, train_rows, columns, name="training")
    validation = _checked(encoder, validation_rows, columns, name="validation")
    n_stored = count_stored(train, encoder.task)
    if method.calibrator.searches and options.n_neighbors > n_stored:  # the calibrator checks it too, but late
        rule = f"exceeds the {n_stored} stored examples: lower it or add more"
        raise InvalidInputError(
            f"n_neighbors={options.n_neighbors} {rule}", shell=f"--neighbors {options.n_neighbors} {rule}"
        )
    if not options.allow_leakage and not isinstance(train, Outputs) and not isinstance(validation, Outputs):
        check_leakage(train, validation)
    if not isinstance(train, Outputs) and not isinstance(validation, Outputs):
        encoder = _on_backend(encoder, validation, options.backend)
    empty, texts = encoder.encode([]), train
    if not isinstance(train, Outputs):
        if options.store is None and options.index not in ("auto", "exact"):
            check_index_of(options.method, options.index, empty)
        train = _needed(train, encoder, options, has_views=empty.views is not None)
    stored, space = encode_training(encoder, train, options.seed, progress and partial(progress, "training"))
    if options.max_stored is not None:
        stored = stored.take(balanced_rows(stored.require_labels("max_stored"), options.max_stored, seed=options.seed))
    # Outputs that were given may have views that this encoder will not have when it predicts.
    look = None if space is None or empty.views is None else space.score
    outputs, scores = encode_looking(encoder, validation, look, progress and partial(progress, "validation"))
    if options.unit == "document" and not isinstance(validation, Outputs):
        outputs = with_documents(outputs, validation)
    warn_if_weak(outputs)
    if method.reads_training:
        warn_of_absent_classes(stored)
    held_out = half_of_rows(outputs, options.seed) if options.decisions else np.zeros(len(outputs), dtype=bool)
    copies = _perturbed(encoder, validation, outputs, held_out, options.seed) if options.robust else None
    calibrator = _stored(options, stored, outputs.take(~held_out), progress)
    if options.verifier is not None:
        calibrator = with_verifier(
            calibrator, encoder.task, texts, outputs, encoder.class_names, options.verifier, seed=options.seed
        )
    found = calibrator.search(outputs)
    if not options.allow_leakage:
        check_vectors(found, outputs)
    fitted = fit_outputs(
        options.method,
        calibrator,
        outputs,
        held_out,
        options.decisions,
        copies=copies,
        found=found,
        optional_verifier=options.verifier == AUTO,
    )
    if space is None or scores is None or len(scores) != len(outputs):
        return encoder, fitted
    familiarity = Familiarity(space, false_alarm_rate=options.false_alarm_rate).fit_scores(scores, outputs)
    return encoder, replace(fitted, familiarity=familiarity)


def _on_backend(encoder: Encoder, validation: Sequence[Example], backend: str) -> Encoder:
    """Return the encoder on the backend that was asked for; "auto" is ONNX Runtime where that answers alike."""
    if backend == "torch":
        return encoder.in_pytorch()
    try:
        return encoder.exported(validation)
    except NotExportedError as error:
        if backend == "onnx":
            raise InvalidInputError(f"the backend 'onnx' cannot be used: {error}: leave it out") from None
        if error.is_surprising:
            warnings.warn(f"the model answers in PyTorch: {error}", FitWarning, stacklevel=4)
        return encoder


def _needed(train: list[Example], encoder: Encoder, options: FitOptions, *, has_views: bool) -> list[Example]:
    """Return the training rows that must go through the model."""
    if not METHODS[options.method].reads_training:
        # Checked like all others, but nothing is stored: a sample tells what the training data are like.
        chosen = np.random.default_rng(options.seed).permutation(len(train))[: MAX_MEASURED if has_views else 0]
        return [train[number] for number in sorted(chosen.tolist())]
    if options.max_stored is not None and not TASKS[encoder.task].is_tagging:
        # Texts that will not be stored need not be read; of a sentence some words may be.
        labels = class_numbers(train, encoder.class_names)
        return [train[row] for row in balanced_rows(labels, options.max_stored, seed=options.seed)]
    return train


def encode_training(
    encoder: Encoder, rows: list[Example] | Outputs, seed: int, progress: Step | None
) -> tuple[Outputs, TrainingSpace | None]:
    """Encode the training rows, and measure the space of their views on a random sample of about `MAX_MEASURED`."""
    share = min(1.0, MAX_MEASURED / max(1, count_stored(rows, encoder.task)))
    random = np.random.default_rng(seed)

    def sample(outputs: Outputs) -> FloatArray:
        assert outputs.views is not None
        return outputs.views[random.random(len(outputs)) < share]

    outputs, views = encode_looking(encoder, rows, sample, progress)
    if views is None or not len(views):
        return outputs, None
    return outputs, TrainingSpace.measure_views([views[:, number] for number in range(views.shape[1])])


def encode_looking(
    encoder: Encoder,
    rows: list[Example] | Outputs,
    look: Callable[[Outputs], FloatArray] | None,
    progress: Step | None,
) -> tuple[Outputs, FloatArray | None]:
    """Encode rows, and return what `look` makes of their views, one value or vector per row that it keeps.

    Views are several times as wide as features, so nobody keeps them: rows go through the encoder a window at a time.
    `Outputs`, which were encoded before, are looked at as one window. Where there are no views nothing is looked at.
    """
    if isinstance(rows, Outputs):
        return replace(rows, views=None), look(rows) if look and rows.views is not None else None
    if not rows or encoder.encode([]).views is None:
        return replace(encoder.encode(rows, progress=progress), views=None), None
    columns: dict[str, list[Any]] = {}
    seen: list[FloatArray] = []
    done = 0

    def report(more: int, _total: int | None) -> None:
        assert progress is not None
        progress(done + more, len(rows))

    for window in windows(rows, batch_size=encoder.options.batch_size):
        outputs = encoder.encode(window, progress=progress and report)
        if look is not None:
            seen.append(look(outputs))
        names = ("logits", "features", "labels", "decoded", "words", "texts" if outputs.pairs is None else "pairs")
        parts = {name: getattr(outputs, name) for name in names}
        parts |= {f"{LAYER}{number}": layer for number, layer in enumerate(outputs.layers or ())}
        for name, values in parts.items():
            if values is not None:
                columns.setdefault(name, []).append(values)
        done += len(window)
    groups = None
    if TASKS[encoder.task].is_tagging:
        groups = np.repeat(np.arange(len(rows)), [len(example.parts) for example in rows])
    joined = join_columns(columns, groups=groups, class_names=outputs.class_names, sees_case=outputs.sees_case)
    return joined, np.concatenate(seen) if seen else None


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
    optional_verifier: bool = False,
) -> Fitted:
    """Fit the calibrator on the validation rows that are not held out, and the decisions on those that are.

    `copies` of the former, perturbed, are fitted on too. The neighbors of the validation rows are searched once for
    all of it; `found` is what was found before. An `optional_verifier` is left out where it does not pay.
    """
    if found is None:
        found = calibrator.search(validation)
    if copies is None:
        calibrator.fit(validation.take(~held_out), found=_part(found, ~held_out))
    else:
        calibrator.fit_robust(validation.take(~held_out), copies)
    gain = calibrator.gain
    if optional_verifier and gain is not None and not gain.pays:
        calibrator = calibrator.plain
    if decisions:
        scored = score_answers(validation.take(held_out), calibrator, found=_part(found, held_out))
        # A verifier of given answers knows the other rows by heart: their scores are no example for new ones.
        if (validation.groups is not None or validation.documents is not None) and not calibrator.judges_given:
            others = score_answers(validation.take(~held_out), calibrator, found=_part(found, ~held_out))
            scored = replace(scored, others=others)
        decisions = [decision.fit(scored) for decision in decisions]
    return Fitted(
        method=method,
        calibrator=calibrator,
        validation=validation,
        held_out=held_out,
        decisions=tuple(decisions),
        drift=drift_quantiles(calibrator, validation, found=found),
        copies=copies,
        verifier_gain=gain,
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


def refit_grown(fitted: Fitted) -> Fitted:
    """Do the same with the examples that are stored by now; a promise cannot be made on rows that are among them."""
    calibrator = copy(fitted.calibrator)
    if fitted.decisions:
        held_out = fitted.validation.take(fitted.held_out)
        check_not_stored(calibrator, held_out)
    return refit(fitted, calibrator)


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
            calibrator, validation, tolerance=Tolerance(), seed=options.seed, scored=scored_answers, progress=progress
        )
    return calibrator


def half_of_rows(outputs: Outputs, seed: int) -> BoolArray:
    """Mark one half of the rows, at random; equal inputs, and rows of one document, stay together.

    What was learned from one of two equal rows is right about the other, which would then promise too much.
    """
    unit, first = _units(outputs)
    inputs, sizes = np.unique(first, return_counts=True)
    if len(inputs) < 2:
        raise InvalidInputError(
            "a promise needs at least 2 validation rows that differ, one to fit and one to hold out: add rows"
        )
    missing, held_out = len(first) - len(first) // 2, []
    for place in reversed(seeded_order(len(inputs), seed=seed)):
        if sizes[place] <= missing:
            held_out.append(inputs[place])
            missing -= sizes[place]
    return np.isin(first[unit], held_out)


def _units(outputs: Outputs) -> tuple[IntArray, IntArray]:
    """Return the number of the text, pair, sentence or document of each row, and for each of these the first equal one.

    Two documents are never called equal.
    """
    if outputs.documents is not None:
        numbers, unit = np.unique(outputs.documents, return_inverse=True)
        return unit, np.arange(len(numbers))
    unit = np.arange(len(outputs))
    contents: Sequence[Any] | None = outputs.texts if outputs.pairs is None else outputs.pairs
    if outputs.groups is not None:
        opens = np.diff(outputs.groups, prepend=-1) != 0
        unit, contents = np.cumsum(opens) - 1, None
        if outputs.words is not None:
            starts = [*np.flatnonzero(opens).tolist(), len(outputs)]
            contents = [tuple(outputs.words[start:end]) for start, end in pairwise(starts)]
    if contents is None:
        return unit, np.arange(int(unit[-1]) + 1 if len(unit) else 0)
    known: dict[Any, int] = {}
    firsts = [known.setdefault(content, place) for place, content in enumerate(contents)]
    return unit, np.array(firsts, dtype=np.int64)
