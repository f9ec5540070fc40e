"""The registry: a method's name -> how its calibrator is made from the training outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from knn_ue.arrays import check_choice
from knn_ue.calibrators import (
    DensityAwareCalibration,
    DensitySoftmax,
    KnnUE,
    LogitScaling,
    MahalanobisScaling,
    SoftmaxResponse,
    TemperatureScaling,
)
from knn_ue.datastore import Datastore, IndexOptions
from knn_ue.errors import StorageError
from knn_ue.storage import kind_of
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a method that looks at neighbors finds them."""

    n_neighbors: int = 32
    index: str | IndexOptions = "exact"


@dataclass(frozen=True)
class Method:
    """One row of the registry."""

    calibrator: type[LogitScaling]
    make: Callable[[Outputs, Search], LogitScaling]
    summary: str


METHODS: dict[str, Method] = {
    "softmax": Method(SoftmaxResponse, lambda _train, _search: SoftmaxResponse(), "the model's own softmax"),
    "temperature": Method(TemperatureScaling, lambda _train, _search: TemperatureScaling(), "one temperature for all"),
    "mahalanobis": Method(
        MahalanobisScaling,
        lambda train, _search: MahalanobisScaling.from_training(train),
        "a temperature that grows with the distance to the nearest class mean",
    ),
    "density-softmax": Method(
        DensitySoftmax,
        lambda train, _search: DensitySoftmax.from_training(train),
        "a weight from the likelihood of the features under a flow",
    ),
    "dac": Method(
        DensityAwareCalibration,
        lambda train, search: DensityAwareCalibration.from_layers(
            train, n_neighbors=search.n_neighbors, index=search.index
        ),
        "a temperature that grows with the distance to the neighbors in every layer",
    ),
    "knn-ue-no-label": Method(
        KnnUE, lambda train, search: _knn(train, search, use_labels=False), "a weight from the neighbors' distances"
    ),
    "knn-ue": Method(
        KnnUE, lambda train, search: _knn(train, search, use_labels=True), "a weight from distances and labels"
    ),
}


def make_calibrator(
    name: str, train: Outputs, *, n_neighbors: int = 32, index: str | IndexOptions = "exact"
) -> LogitScaling:
    """Return the unfitted calibrator of the method `name`, given the training outputs."""
    check_choice(name, "method", tuple(METHODS))
    return METHODS[name].make(train, Search(n_neighbors=n_neighbors, index=index))


def load_calibrator(path: str | Path) -> LogitScaling:
    """Open a folder saved by any registered calibrator."""
    kind = kind_of(path)
    for method in METHODS.values():
        if method.calibrator.kind == kind:
            return method.calibrator.load(path)
    raise StorageError(f"{path} holds a {kind!r}, which is no calibrator this version knows: upgrade knn-ue")


def _knn(train: Outputs, search: Search, *, use_labels: bool) -> KnnUE:
    features, labels = train.require_features("kNN-UE"), train.require_labels("kNN-UE")
    texts = None if train.texts is None else list(train.texts)
    store = Datastore.build(features, labels, texts=texts, index=search.index)
    return KnnUE(store, n_neighbors=search.n_neighbors, use_labels=use_labels)
