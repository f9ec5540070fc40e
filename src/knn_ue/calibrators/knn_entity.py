"""kNN-UE for entities: words as in kNN-UE without labels, and a calibrated probability for each entity and sentence."""

from dataclasses import dataclass
from typing import ClassVar, Self

from knn_ue.arrays import check_positive
from knn_ue.calibrators.contract import Found, SavedState, Stores, TaggedAnswer
from knn_ue.calibrators.knn import KnnUE, StoredKnn
from knn_ue.entities import EntityExplanation, EntityModel, SentenceReading, fit_entity_model, is_tagged
from knn_ue.entities.explain import explain_entities
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage import FolderContent
from knn_ue.storage.schema import read_plain
from knn_ue.stores import NeighborStore
from knn_ue.types import Outputs


@dataclass(frozen=True, kw_only=True)
class _StoredEntity(StoredKnn):
    """What a folder holds of it, beside its store."""

    entities: EntityModel | None


class KnnUEEntity(KnnUE):
    """A tagger's entities, each with the probability that its type and its span are right; the tags never change.

    `predict_proba` is that of kNN-UE without labels. `read` adds, from a regression of a few ingredients fitted on
    whether the validation set's predicted entities are right (see `knn_ue.entities`), a score for each entity, one for
    each sentence, and warnings where an entity may have been missed. Fitted on outputs that are no sentences with IOB2
    tags it is kNN-UE and no more.

    >>> from knn_ue.stores import Datastore
    >>> from knn_ue.toy import tagged_sentences
    >>> train, validation, test = tagged_sentences(seed=0)
    >>> ue = KnnUEEntity(Datastore.build(train.features, train.labels), n_neighbors=8).fit(validation)
    >>> reading = ue.read(test)
    >>> len(reading.scores) == len(reading.spans), reading.sentence_scores.shape == reading.spans.starts.shape
    (True, True)
    """

    kind: ClassVar[str] = "knn-ue-entity"

    entities_: EntityModel | None

    def __init__(self, store: NeighborStore, *, n_neighbors: int = 32) -> None:
        super().__init__(store, n_neighbors=n_neighbors, use_labels=False)

    @property
    def reads_entities(self) -> bool:
        """Whether it was fitted on sentences with IOB2 tags, so that `read` has something to say."""
        return getattr(self, "entities_", None) is not None

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences of `outputs`, which need groups and class_names."""
        model = self._ready_model(outputs)
        (neighbors,) = self._neighbors(outputs, found).values()
        return model.read(outputs, neighbors)

    def explain_entities(self, outputs: Outputs, *, top: int = 5) -> list[EntityExplanation]:
        """Return for each entity its score, what raised and lowered it, and its `top` nearest training examples."""
        check_positive(top, "top")
        return self.answer(outputs, top=top).explanations

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return what `predict`, `read` and `explain_entities` return, from one search."""
        model = self._ready_model(outputs)
        found = self._neighbors(outputs, found)
        (neighbors,) = found.values()
        reading = model.read(outputs, neighbors)
        explained = explain_entities(model, outputs, reading, neighbors, self.store.texts_of, top=top)
        return TaggedAnswer(prediction=self.predict(outputs, found=found), reading=reading, explanations=explained)

    def _ready_model(self, outputs: Outputs) -> EntityModel:
        self._check_ready(outputs)
        if self.entities_ is None:
            raise InvalidInputError(
                "entity scores need a fit on sentences: validation Outputs with groups and IOB2 class_names; "
                "fit again with those"
            )
        return self.entities_

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        super()._fit(validation, found)
        (neighbors,) = found.values()
        self.entities_ = fit_entity_model(validation, neighbors) if is_tagged(validation) else None

    def _state(self) -> SavedState:
        model = None if self.entities_ is None else self.entities_.to_plain()
        state = super()._state()
        return SavedState(options={**state.options, "entities": model})

    @classmethod
    def _from_stored(cls, stored: FolderContent, stores: Stores, /) -> Self:
        model = stored.options.get("entities")
        if isinstance(model, dict) and "ingredients" not in model:
            raise StorageError(
                f"{stored.path} was fitted by a version of knn-ue with other entity scores: fit it again"
            )
        options = read_plain(_StoredEntity, stored.options)
        calibrator = cls(stores["store"], n_neighbors=options.n_neighbors)
        if options.fitted is None:
            raise ValueError("fitted is null")
        calibrator._set_fitted(options.fitted)
        if options.entities is not None:
            options.entities.check()
        calibrator.entities_ = options.entities
        return calibrator
