"""Confidence you can trust for classifiers and taggers, from the nearest training examples (kNN-UE).

With a Hugging Face model (`pip install "knn-ue[hf]"`)::

    pipe = UncertaintyPipeline.from_pretrained("model")       # or from_model(model, tokenizer), from_prompt(...)
    pipe.fit("train.csv", "validation.csv")                   # files, DataFrames, data sets or lists
    pipe("a text")                                            # label, calibrated score, nearest training examples

With arrays of any model::

    store = Datastore.build(train.features, train.labels)   # all three are Outputs(features=, logits=, ...)
    ue = KnnUE(store).fit(validation)
    ue.predict_proba(test)
    evaluate(ue, test)

With scikit-learn: `knn_ue.sklearn.KnnUEClassifier(estimator)`. With spaCy: `nlp.add_pipe("knn_ue_entities")`. In a
shell: `knn-ue --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from knn_ue import metrics
from knn_ue.calibrators import (
    DensityAwareCalibration,
    KnnUE,
    KnnUEEntity,
    MahalanobisScaling,
    SoftmaxResponse,
    TemperatureScaling,
    adapt_calibrator,
)
from knn_ue.errors import InvalidInputError, KnnUeError, MissingExtraError, NotFittedError, StorageError
from knn_ue.familiarity import Familiarity
from knn_ue.folder import library_version
from knn_ue.methods import load_calibrator, make_calibrator
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.types import Neighbors, Outputs, Prediction
from knn_ue.weighting import WeightParams

if TYPE_CHECKING:
    from knn_ue.evaluation import Evaluation, evaluate
    from knn_ue.pipeline import UncertaintyPipeline

    __version__: str

# Loaded when first asked for, so that those who only want the arrays do not wait for the rest.
_LATER = {
    "Evaluation": "knn_ue.evaluation",
    "UncertaintyPipeline": "knn_ue.pipeline",
    "evaluate": "knn_ue.evaluation",
}

__all__ = [
    "Datastore",
    "DensityAwareCalibration",
    "Evaluation",
    "Familiarity",
    "IndexOptions",
    "InvalidInputError",
    "KnnUE",
    "KnnUEEntity",
    "KnnUeError",
    "MahalanobisScaling",
    "MissingExtraError",
    "Neighbors",
    "NotFittedError",
    "Outputs",
    "Prediction",
    "SoftmaxResponse",
    "StorageError",
    "TemperatureScaling",
    "UncertaintyPipeline",
    "WeightParams",
    "adapt_calibrator",
    "evaluate",
    "load_calibrator",
    "make_calibrator",
    "metrics",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return library_version()
    if name not in _LATER:
        raise AttributeError(f"module 'knn_ue' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return __all__
