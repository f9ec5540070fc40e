"""What every calibrator can do: fit, give probabilities, be saved, and name the stores it searches."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from knn_ue.answers import EntityExplanation, Explanation
from knn_ue.arrays import FloatArray, softmax
from knn_ue.entities import SentenceReading
from knn_ue.errors import InvalidInputError
from knn_ue.types import Neighbors, Outputs, Prediction

Found = Mapping[str, Neighbors]  # what each store found, by the store's name
Stores = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaggedAnswer:
    """All that one search says of tagged sentences: the words, the entities and sentences, and why."""

    prediction: Prediction
    reading: SentenceReading
    explanations: list[EntityExplanation]


class Calibrator(ABC):
    """Whatever turns `Outputs` into probabilities one can trust."""

    kind: ClassVar[str]
    keeps_prediction: ClassVar[bool] = True
    fitted_on_validation: ClassVar[bool] = True
    explains: ClassVar[bool] = False
    n_neighbors: int = 0

    @property
    def stores(self) -> Stores:
        """What it searches, by name; answers show the neighbors found by the last one."""
        return {}

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy that searches these stores; what was fitted is kept."""
        del stores
        return copy(self)

    def queries(self, outputs: Outputs) -> Mapping[str, FloatArray]:
        """Return what each store is searched with, (n, d) by the store's name."""
        del outputs
        return {}

    def search(self, outputs: Outputs) -> Found:
        """Return the `n_neighbors` nearest stored examples of each row, from one search for each store."""
        queries = self.queries(outputs)
        return {name: store.search(queries[name], self.n_neighbors) for name, store in self.stores.items()}

    @abstractmethod
    def fit(self, validation: Outputs) -> Self:
        """Learn from labeled `validation` outputs that the model was not trained on."""

    @abstractmethod
    def predict_proba(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return probabilities (n, classes), float64, whose rows sum to one."""

    def predict(self, outputs: Outputs, *, found: Found | None = None) -> Prediction:
        """Return the model's answers with their calibrated and raw confidence."""
        return prediction_of(outputs, self.predict_proba(outputs, found=found))

    def weight(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray | None:
        """Return the weight (n,) that multiplies the logits of each row; None where it is no logit scaling."""
        del outputs, found
        return None

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return for each row the terms of its weight and its `top` nearest examples; raise unless it `explains`."""
        del outputs, top, found
        raise InvalidInputError(f"explain needs a method with terms to show, such as knn-ue: {self.kind} has none")

    @property
    def reads_entities(self) -> bool:
        """Whether `read` and `answer` give scores of entities."""
        return False

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of tagged `outputs`; raise unless it `reads_entities`."""
        del outputs, found
        raise InvalidInputError(f"entity scores need the method knn-ue-entity: {self.kind} has none")

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return words, entities and why, from one search; raise unless it `reads_entities`."""
        del top
        raise AssertionError(self.read(outputs, found=found))

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write everything to the folder `path` in one step."""


def take_found(found: Found, rows: object) -> Found:
    """Return what was found for the rows at `rows` (numbers, a slice or a boolean mask)."""
    return {name: neighbors.take(rows) for name, neighbors in found.items()}


def prediction_of(outputs: Outputs, probs: FloatArray) -> Prediction:
    """Return the model's answers with the confidence that `probs` give them."""
    rows = np.arange(len(outputs))
    return Prediction(
        predicted=outputs.predicted,
        confidence=probs[rows, outputs.predicted],
        raw_confidence=softmax(outputs.logits)[rows, outputs.predicted],
        probs=probs,
    )
