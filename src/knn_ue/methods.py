"""The registry: a method's name -> how the model is trained and encoded, and how its calibrator is made.

A package that brings methods names a mapping of them as an entry point of the group `knn_ue.methods`; it is loaded when
the registry is first read. The lab brings those that only comparisons need.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from knn_ue.arrays import check_choice
from knn_ue.calibrators import (
    Calibrator,
    DensityAwareCalibration,
    EntityScores,
    KnnUE,
    KnnUEEntity,
    MahalanobisScaling,
    SoftmaxResponse,
    SpanVerdict,
    Stores,
    TemperatureScaling,
    Verdict,
)
from knn_ue.calibrators.contract import calibrator_kind
from knn_ue.encoding.contract import Encoder, EncoderOptions
from knn_ue.errors import InvalidInputError, MissingExtraError, StorageError
from knn_ue.folder import Part, open_as
from knn_ue.stores import IndexOptions, NeighborStore, build_store
from knn_ue.tasks import Task
from knn_ue.training.method import TrainingMethod
from knn_ue.types import Outputs

GROUP = "knn_ue.methods"
# Methods that people know from the paper and that are not part of the library.
IN_THE_LAB = (
    "vector-scaling", "matrix-scaling", "isotonic", "procal", "label-smoothing", "sngp", "posterior", "e-ner", "mdsn",
    "density-softmax", "nuq", "sdm",
)  # fmt: skip

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a method that looks at neighbors finds them; `store` is the address to store them at (see `STORES`)."""

    n_neighbors: int = 32
    index: str | IndexOptions = "exact"
    store: str | None = None


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of the registry: how the model is trained, how it is encoded, which calibrator reads the outputs.

    `encoding` are the `EncodingOptions` the method cannot do without; `reads_training` says whether its calibrator
    looks at the training outputs. The tasks are those of the training, or the fewer `only_tasks`; `better_for` names
    the method to recommend instead for a task.
    """

    calibrator: type[Calibrator]
    make: Callable[[Outputs, Search], Calibrator]
    summary: str
    training: type[TrainingMethod] = TrainingMethod
    encoding: Mapping[str, Any] = field(default_factory=dict)
    reads_training: bool = True
    only_tasks: tuple[Task, ...] | None = None
    better_for: Mapping[Task, str] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What the method is for."""
        return self.training.tasks if self.only_tasks is None else self.only_tasks


def softmax_of(training: type[TrainingMethod], summary: str, **encoding: Any) -> Method:
    """Return the method whose answer is the softmax of a model so trained and encoded."""
    return Method(
        calibrator=SoftmaxResponse,
        make=lambda _train, _search: SoftmaxResponse(),
        summary=summary,
        training=training,
        encoding=encoding,
        reads_training=False,
    )


def validation_only(calibrator: type[Calibrator], summary: str) -> Method:
    """Return the method of a calibrator that needs nothing but validation outputs."""
    return Method(
        calibrator=calibrator, make=lambda _train, _search: calibrator(), summary=summary, reads_training=False
    )


class Methods(MutableMapping[str, Method]):
    """Methods by name: ours, and what installed packages add when one is first asked for."""

    def __init__(self, ours: Mapping[str, Method]) -> None:
        self._ours = dict(ours)
        self._waiting = True

    @property
    def _rows(self) -> dict[str, Method]:
        if self._waiting:
            self._waiting = False
            for entry in entry_points(group=GROUP):
                self._ours |= entry.load()
        return self._ours

    def __getitem__(self, name: str) -> Method:
        return self._rows[name]

    def __setitem__(self, name: str, method: Method) -> None:
        self._rows[name] = method

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


METHODS = Methods(
    {
        "softmax": softmax_of(TrainingMethod, "the model's own softmax"),
        "temperature": validation_only(TemperatureScaling, "one temperature for all"),
        "verdict": Method(
            calibrator=Verdict,
            make=lambda _train, _search: Verdict(),
            summary="a small independent reader that judges the answer",
            reads_training=False,
            only_tasks=("text-classification", "text-pair"),
        ),
        "span-verdict": Method(
            calibrator=SpanVerdict,
            make=lambda _train, _search: SpanVerdict(),
            summary="a small independent reader of words that judges marked entities",
            reads_training=False,
            only_tasks=("token-classification",),
        ),
        "mc-dropout": softmax_of(TrainingMethod, "the mean over 20 passes with dropout", passes=20),
        "mahalanobis": Method(
            calibrator=MahalanobisScaling,
            make=lambda train, _search: MahalanobisScaling.from_training(train),
            summary="a temperature that grows with the distance to the nearest class mean",
        ),
        "dac": Method(
            calibrator=DensityAwareCalibration,
            make=lambda train, search: DensityAwareCalibration.from_layers(
                train, n_neighbors=search.n_neighbors, index=search.index, address=search.store
            ),
            summary="a temperature that grows with the distance to the neighbors in every layer",
            encoding={"all_layers": True},
        ),
        "knn-ue-no-label": Method(
            calibrator=KnnUE,
            make=lambda train, search: KnnUE(stored(train, search), n_neighbors=search.n_neighbors, use_labels=False),
            summary="a weight from the neighbors' distances",
        ),
        "knn-ue": Method(
            calibrator=KnnUE,
            make=lambda train, search: KnnUE(stored(train, search), n_neighbors=search.n_neighbors),
            summary="a weight from distances and labels",
            better_for={"token-classification": "knn-ue-entity"},
        ),
        "entity-scores": Method(
            calibrator=EntityScores,
            make=lambda _train, _search: EntityScores(),
            summary="a probability for each entity and sentence, from what the tagger says of the words alone",
            reads_training=False,
            only_tasks=("token-classification",),
        ),
        "knn-ue-entity": Method(
            calibrator=KnnUEEntity,
            make=lambda train, search: KnnUEEntity(stored(train, search), n_neighbors=search.n_neighbors),
            summary="a probability for each entity and sentence, from words, ends and neighbors",
            only_tasks=("token-classification",),
        ),
    }
)


def check_method(name: str) -> None:
    """Raise unless `name` is a method; one of the lab that is not installed says how to install it.

    >>> check_method("knn")
    Traceback (most recent call last):
    knn_ue.errors.InvalidInputError: method must be one of 'softmax', ..., got 'knn'
    """
    if name in IN_THE_LAB and name not in METHODS:
        raise MissingExtraError(
            f"the method {name} is part of the package knn-ue-lab. Install it from a clone of the repository with: "
            "pip install ./lab"
        )
    check_choice(name, "method", tuple(METHODS))


def make_calibrator(
    name: str,
    train: Outputs,
    *,
    n_neighbors: int = 32,
    index: str | IndexOptions = "exact",
    store: str | None = None,
) -> Calibrator:
    """Return the unfitted calibrator of the method `name` (see docs/methods.md), given the training outputs.

    The examples are stored in memory, or at the address `store`, such as "milvus://host:19530/name".

    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(seed=0)
    >>> make_calibrator("knn-ue", train).fit(validation).predict_proba(test).shape == test.logits.shape
    True
    """
    check_method(name)
    return METHODS[name].make(train, Search(n_neighbors=n_neighbors, index=index, store=store))


def recommended_method(name: str, task: Task) -> str:
    """Return the method to recommend to those who chose `name` for this task; mostly the same one.

    >>> recommended_method("knn-ue", "token-classification"), recommended_method("knn-ue", "text-pair")
    ('knn-ue-entity', 'knn-ue')
    """
    return METHODS[name].better_for.get(task, name)


def load_calibrator(path: str | Path) -> Calibrator:
    """Open a folder that the `save` of any calibrator wrote; what it returns is fitted, of the class that was saved."""
    return open_as(path, calibrator_from_part)


def calibrator_from_part(part: Part, *, stores: Stores | None = None) -> Calibrator:
    """Open the part of a folder that any calibrator wrote, over `stores` that are open already, if they are given."""
    tuple(METHODS.values())  # packages bring theirs when they are first asked for
    try:
        kind = calibrator_kind(part.kind)
    except ValueError as error:
        raise StorageError(f"{part.where} holds {error}") from None
    return kind.from_part(part, stores=stores)


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


def stored(train: Outputs, search: Search) -> NeighborStore:
    """Return the training rows in a store, as `search` says."""
    features, labels = train.require_features("kNN-UE"), train.require_labels("kNN-UE")
    texts = None if train.texts is None else list(train.texts)
    return build_store(features, labels, texts=texts, index=search.index, address=search.store)
