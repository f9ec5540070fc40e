"""A probability for each entity and sentence from what the tagger itself says of the words: nothing is stored."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import FloatArray
from knn_ue.calibrators.adapted import rescaled_reading
from knn_ue.calibrators.contract import Found, LogitScaling, TaggedAnswer
from knn_ue.entities import EntityModel, SentenceReading, fit_entity_model, is_tagged
from knn_ue.entities.explain import explain_entities
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs
from knn_ue.weighting import fit_temperature

RIDGES = (1e-6, 1e6)


class EntityScores(LogitScaling):
    """Entities as in `KnnUEEntity`, by the same regression without neighbors; words share one temperature.

    Fitted on outputs that are not sentences with IOB2 tags, it is temperature scaling.

    >>> from knn_ue.toy import tagged_sentences
    >>> _, validation, test = tagged_sentences(seed=0)
    >>> reading = EntityScores().fit(validation).read(test)
    >>> len(reading.scores) == len(reading.spans)
    True
    """

    kind: ClassVar[str] = "entity-scores"
    scores_entities: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved."""

        temperature_: Annotated[float, Interval(ge=1e-300, le=1e300)]
        entities_: EntityModel | None
        ridge: Annotated[float, Interval(ge=RIDGES[0], le=RIDGES[1])]

    temperature_: float
    entities_: EntityModel | None

    def __init__(self, *, ridge: float = 1.0) -> None:
        self.ridge = ridge

    @property
    def reads_entities(self) -> bool:
        """Whether it was fitted on sentences with IOB2 tags, which `read` needs."""
        return getattr(self, "entities_", None) is not None

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of `outputs`, which need groups and class_names."""
        del found
        reading = self._ready_model(outputs).read(outputs, None)
        return rescaled_reading(reading, self.log_scales) if self.log_scales else reading

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return the words, the entities and why."""
        reading = self.read(outputs)
        explained = explain_entities(self._ready_model(outputs), outputs, reading, None, None, top=top)
        return TaggedAnswer(prediction=self.predict(outputs, found=found), reading=reading, explanations=explained)

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        self.temperature_ = fit_temperature(validation.logits, validation.require_labels("EntityScores.fit"))
        self.entities_ = fit_entity_model(validation, None, ridge=self.ridge) if is_tagged(validation) else None

    def _weight(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return np.full(len(outputs), 1.0 / self.temperature_)

    def _ready_model(self, outputs: Outputs) -> EntityModel:
        self._check_ready(outputs)
        if self.entities_ is None:
            raise InvalidInputError(
                "entity scores need a fit on sentences: validation Outputs with groups and IOB2 class_names; "
                "refit with those"
            )
        return self.entities_

    def _check_restored(self) -> None:
        self.entities_ = getattr(self, "entities_", None)
        if self.entities_ is not None:
            self.entities_.check()
