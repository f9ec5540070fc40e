"""The registry: a method's name -> how the model is trained and encoded, and how its calibrator is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from knn_ue.arrays import check_choice
from knn_ue.calibrators import (
    Calibrator,
    DensityAwareCalibration,
    DensitySoftmax,
    IsotonicCalibration,
    KnnUE,
    KnnUEEntity,
    MahalanobisScaling,
    MatrixScaling,
    NonparametricUncertainty,
    ProximityCalibration,
    SdmActivation,
    SoftmaxResponse,
    Stores,
    TemperatureScaling,
    VectorScaling,
    Verdict,
)
from knn_ue.calibrators.contract import calibrator_kind
from knn_ue.encoding.contract import Encoder, EncoderOptions
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import Part, open_folder
from knn_ue.stores import IndexOptions, NeighborStore, build_store
from knn_ue.tasks import Task
from knn_ue.training.evidential import Evidential
from knn_ue.training.label_smoothing import LabelSmoothing
from knn_ue.training.method import TrainingMethod
from knn_ue.training.posterior import Posterior
from knn_ue.training.sngp import Sngp
from knn_ue.training.spectral import SpectralTraining
from knn_ue.types import Outputs

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


def _softmax_of(training: type[TrainingMethod], summary: str, **encoding: Any) -> Method:
    return Method(
        calibrator=SoftmaxResponse,
        make=lambda _train, _search: SoftmaxResponse(),
        summary=summary,
        training=training,
        encoding=encoding,
        reads_training=False,
    )


def _mahalanobis_of(training: type[TrainingMethod], summary: str, **encoding: Any) -> Method:
    return Method(
        calibrator=MahalanobisScaling,
        make=lambda train, _search: MahalanobisScaling.from_training(train),
        summary=summary,
        training=training,
        encoding=encoding,
    )


def _validation_only(calibrator: type[Calibrator], summary: str) -> Method:
    return Method(
        calibrator=calibrator, make=lambda _train, _search: calibrator(), summary=summary, reads_training=False
    )


METHODS: dict[str, Method] = {
    "softmax": _softmax_of(TrainingMethod, "the model's own softmax"),
    "temperature": _validation_only(TemperatureScaling, "one temperature for all"),
    "verdict": Method(
        calibrator=Verdict,
        make=lambda _train, _search: Verdict(),
        summary="a small independent reader that judges the answer",
        reads_training=False,
        only_tasks=("text-classification", "text-pair"),
    ),
    "vector-scaling": _validation_only(VectorScaling, "a scale and a bias for each class, shrunk towards temperature"),
    "matrix-scaling": _validation_only(MatrixScaling, "an affine map of the logits, shrunk towards temperature"),
    "isotonic": _validation_only(IsotonicCalibration, "a rising step function of the confidence"),
    "procal": _validation_only(ProximityCalibration, "confidence and nearness to validation rows, by Bayes' rule"),
    "label-smoothing": _softmax_of(LabelSmoothing, "the softmax of a model trained on softened labels"),
    "mc-dropout": _softmax_of(TrainingMethod, "the mean over 20 passes with dropout", passes=20),
    "sngp": _softmax_of(Sngp, "a Gaussian process as the last layer"),
    "posterior": _softmax_of(Posterior, "a Dirichlet from the density of each class"),
    "e-ner": _softmax_of(Evidential, "a Dirichlet from evidence, for tagging"),
    "mdsn": _mahalanobis_of(
        SpectralTraining,
        "a temperature from the distance to the nearest class mean, in a network that keeps distances",
        pooling="pooled",
    ),
    "mahalanobis": _mahalanobis_of(
        TrainingMethod, "a temperature that grows with the distance to the nearest class mean"
    ),
    "density-softmax": Method(
        calibrator=DensitySoftmax,
        make=lambda train, _search: DensitySoftmax.from_training(train),
        summary="a weight from the likelihood of the features under a flow",
    ),
    "dac": Method(
        calibrator=DensityAwareCalibration,
        make=lambda train, search: DensityAwareCalibration.from_layers(
            train, n_neighbors=search.n_neighbors, index=search.index, address=search.store
        ),
        summary="a temperature that grows with the distance to the neighbors in every layer",
        encoding={"all_layers": True},
    ),
    "nuq": Method(
        calibrator=NonparametricUncertainty,
        make=lambda train, search: NonparametricUncertainty(_store(train, search), n_neighbors=search.n_neighbors),
        summary="a temperature that grows with the uncertainty of a kernel estimate of the labels",
    ),
    "sdm": Method(
        calibrator=SdmActivation,
        make=lambda train, search: SdmActivation(
            _store(train, search), train.predicted == train.require_labels("SDM"), n_neighbors=search.n_neighbors
        ),
        summary="a weight from the distance to the nearest example and how many neighbors in a row agree",
    ),
    "knn-ue-no-label": Method(
        calibrator=KnnUE,
        make=lambda train, search: KnnUE(_store(train, search), n_neighbors=search.n_neighbors, use_labels=False),
        summary="a weight from the neighbors' distances",
    ),
    "knn-ue": Method(
        calibrator=KnnUE,
        make=lambda train, search: KnnUE(_store(train, search), n_neighbors=search.n_neighbors),
        summary="a weight from distances and labels",
        better_for={"token-classification": "knn-ue-entity"},
    ),
    "knn-ue-entity": Method(
        calibrator=KnnUEEntity,
        make=lambda train, search: KnnUEEntity(_store(train, search), n_neighbors=search.n_neighbors),
        summary="a probability for each entity and sentence, from words, ends and neighbors",
        only_tasks=("token-classification",),
    ),
}


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
    check_choice(name, "method", tuple(METHODS))
    return METHODS[name].make(train, Search(n_neighbors=n_neighbors, index=index, store=store))


def recommended_method(name: str, task: Task) -> str:
    """Return the method to recommend to those who chose `name` for this task; mostly the same one.

    >>> recommended_method("knn-ue", "token-classification"), recommended_method("knn-ue", "text-pair")
    ('knn-ue-entity', 'knn-ue')
    """
    return METHODS[name].better_for.get(task, name)


def load_calibrator(path: str | Path) -> Calibrator:
    """Open a folder that the `save` of any calibrator wrote; what it returns is fitted, of the class that was saved."""
    return calibrator_from_part(open_folder(path))


def calibrator_from_part(part: Part, *, stores: Stores | None = None) -> Calibrator:
    """Open the part of a folder that any calibrator wrote, over `stores` that are open already, if they are given."""
    try:
        kind = calibrator_kind(part.kind)
    except ValueError as error:
        raise StorageError(f"{part.where} holds {error}: upgrade knn-ue") from None
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


def _store(train: Outputs, search: Search) -> NeighborStore:
    features, labels = train.require_features("kNN-UE"), train.require_labels("kNN-UE")
    texts = None if train.texts is None else list(train.texts)
    return build_store(features, labels, texts=texts, index=search.index, address=search.store)
