"""kNN-UE for entities: words as in kNN-UE without labels, and a calibrated probability for each entity and sentence."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from knn_ue.arrays import BoolArray, check_positive
from knn_ue.calibrators.adapted import rescaled_reading
from knn_ue.calibrators.contract import Found, TaggedAnswer, take_found
from knn_ue.calibrators.knn import KnnUE
from knn_ue.entities import EntityExplanation, EntityModel, SentenceReading, find_entities, fit_entity_model, is_tagged
from knn_ue.entities.explain import explain_entities
from knn_ue.errors import InvalidInputError
from knn_ue.stores import NeighborStore
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import Explanation, Weight, WeightParams, fit_temperature

_ENOUGH_WORDS = 20
_RIDGES = (1e-6, 1e6)
_NO_MATTER_HOW_FAR = 1e12


class KnnUEEntity(KnnUE):
    """A tagger's entities, each with the probability that its type and its span are right; the tags never change.

    Only the words of its entities are looked up in the store. `predict_proba` is that of kNN-UE without labels, fitted
    on those words; all others share one temperature. `read` adds, from a regression of a few ingredients fitted on
    whether the validation set's predicted entities are right (see `knn_ue.entities`), a score for each entity, one for
    each sentence, and warnings where an entity may have been missed. Fitted on outputs that are not sentences with IOB2
    tags, it is plain kNN-UE. A `ridge` below 1 lets the regression learn more of the validation set, which should
    then hold more than its own domain, such as perturbed copies.

    >>> from knn_ue.stores import Datastore
    >>> from knn_ue.toy import tagged_sentences
    >>> train, validation, test = tagged_sentences(seed=0)
    >>> ue = KnnUEEntity(Datastore.build(train.features, train.labels), n_neighbors=8).fit(validation)
    >>> reading = ue.read(test)
    >>> len(reading.scores) == len(reading.spans), reading.sentence_scores.shape == reading.spans.starts.shape
    (True, True)
    """

    kind: ClassVar[str] = "knn-ue-entity"
    scores_entities: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State(KnnUE.State):
        """What is saved beside its store."""

        entities_: EntityModel | None
        rest_weight_: Annotated[float, Interval(ge=1e-300, le=1e300)]
        ridge: Annotated[float, Interval(ge=_RIDGES[0], le=_RIDGES[1])]

    entities_: EntityModel | None
    rest_weight_: float
    """What multiplies the logits of words outside entities."""

    def __init__(self, store: NeighborStore, *, n_neighbors: int = 32, ridge: float = 1.0) -> None:
        super().__init__(store, n_neighbors=n_neighbors, use_labels=False)
        self.ridge = ridge

    @property
    def reads_entities(self) -> bool:
        """Whether it was fitted on sentences with IOB2 tags, which `read` needs."""
        return getattr(self, "entities_", None) is not None

    def searched(self, outputs: Outputs) -> BoolArray | None:
        """Return the words (n,) inside predicted entities; None, all rows, where there are no tagged sentences."""
        return find_entities(outputs, outputs.predicted).covered if is_tagged(outputs) else None

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return what `KnnUE.explain` does; words outside entities have a weight, but no terms and no neighbors."""
        explained = super().explain(outputs, top=top, found=found)
        searched = self.searched(outputs)
        if searched is None:
            return explained
        return [one if near else _without_terms(one) for one, near in zip(explained, searched.tolist(), strict=True)]

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of `outputs`, which need groups and class_names."""
        model = self._ready_model(outputs)
        (neighbors,) = self._neighbors(outputs, found).values()
        return self._in_domain(model.read(outputs, neighbors))

    def explain_entities(self, outputs: Outputs, *, top: int = 5) -> list[EntityExplanation]:
        """Return for each entity its score, what raised and lowered it, and its `top` nearest training examples."""
        check_positive(top, "top")
        return self.answer(outputs, top=top).explanations

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return what `predict`, `read` and `explain_entities` return, from one search."""
        model = self._ready_model(outputs)
        found = self._neighbors(outputs, found)
        (neighbors,) = found.values()
        reading = self._in_domain(model.read(outputs, neighbors))
        explained = explain_entities(model, outputs, reading, neighbors, self.store.texts_of, top=top)
        return TaggedAnswer(prediction=self.predict(outputs, found=found), reading=reading, explanations=explained)

    def _in_domain(self, reading: SentenceReading) -> SentenceReading:
        return rescaled_reading(reading, self.log_scales) if self.log_scales else reading

    def _ready_model(self, outputs: Outputs) -> EntityModel:
        self._check_ready(outputs)
        if self.entities_ is None:
            raise InvalidInputError(
                "entity scores need a fit on sentences: validation Outputs with groups and IOB2 class_names; "
                "refit with those"
            )
        return self.entities_

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        if not _RIDGES[0] <= self.ridge <= _RIDGES[1]:
            raise InvalidInputError(
                f"ridge must lie between {_RIDGES[0]} and {_RIDGES[1]:.0e}, got {self.ridge}: 1 is usual"
            )
        searched = self.searched(validation)
        self.rest_weight_ = 1.0
        self.entities_ = None
        if searched is None:
            super()._fit(validation, found)
            return
        labels = validation.require_labels("KnnUEEntity.fit")
        if not searched.all():
            self.rest_weight_ = 1.0 / fit_temperature(validation.logits[~searched], labels[~searched])
        if searched.sum() >= _ENOUGH_WORDS:
            super()._fit(validation.take(searched), take_found(found, searched))
        else:  # too few to learn from: the same weight as everywhere else, however far the neighbors
            self.params_ = WeightParams(alpha=self.rest_weight_, tau=_NO_MATTER_HOW_FAR)
            self.typical_ = (self.rest_weight_, 0.0)
        (neighbors,) = found.values()
        if not searched.any():  # what is usual is then asked of all words
            neighbors = self.store.search(validation.require_features("KnnUEEntity.fit"), self.n_neighbors)
        self.entities_ = fit_entity_model(validation, neighbors, ridge=self.ridge)

    def _weight_of(self, outputs: Outputs, neighbors: Neighbors) -> Weight:
        weight, searched = super()._weight_of(outputs, neighbors), self.searched(outputs)
        if searched is None:
            return weight
        return replace(weight, total=np.where(searched, weight.total, self.rest_weight_))

    def _check_restored(self) -> None:
        super()._check_restored()
        if not hasattr(self, "params_"):
            raise ValueError("it was never fitted")
        self.entities_ = getattr(self, "entities_", None)
        if self.entities_ is not None:
            self.entities_.check()


def _without_terms(explained: Explanation) -> Explanation:
    return replace(
        explained,
        distance_term=None,
        label_term=None,
        usual_distance_term=None,
        usual_label_term=None,
        usual_weight=None,
        usual_score=None,
        usual_n_agreeing=None,
        majority_label=None,
        n_majority=None,
        n_agreeing=None,
        n_neighbors=0,
        raised_by=(),
        lowered_by=(),
        neighbors=(),
    )
