"""What evaluation and report ask of every calibrator."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Protocol, Self

from knn_ue.arrays import FloatArray
from knn_ue.entities import SentenceReading
from knn_ue.types import Neighbors, Outputs, Prediction
from knn_ue.weighting import Explanation

Found = Mapping[str, Neighbors]  # what each store found, by the store's name


class Calibrator(Protocol):
    """Whatever turns `Outputs` into probabilities one can trust."""

    kind: ClassVar[str]
    keeps_prediction: ClassVar[bool]
    fitted_on_validation: ClassVar[bool]
    explains: ClassVar[bool]

    @property
    def reads_entities(self) -> bool:
        """Whether `read` gives scores of entities."""
        ...

    def fit(self, validation: Outputs) -> Self:
        """Learn from labeled outputs that the model was not trained on."""
        ...

    def search(self, outputs: Outputs) -> Found:
        """Return the nearest stored examples of each row, from one search for each store."""
        ...

    def predict_proba(self, outputs: Outputs, *, found: Found | None = None) -> FloatArray:
        """Return probabilities (n, classes) whose rows sum to one."""
        ...

    def predict(self, outputs: Outputs) -> Prediction:
        """Return the answers with calibrated and raw confidence."""
        ...

    def explain(self, outputs: Outputs, *, top: int = 5) -> list[Explanation]:
        """Return for each row the terms of its weight and its `top` nearest examples; raise unless it `explains`."""
        ...

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of tagged `outputs`; raise unless it `reads_entities`."""
        ...

    def save(self, path: str | Path) -> None:
        """Write everything needed to load this calibrator again into a folder."""
        ...
