"""`knn_ue_tagger`: a tagger of ours, a UE folder, as a component that sets `doc.ents` and their confidence."""

from collections.abc import Mapping
from typing import Any

from spacy.language import Language
from spacy.tokens import Span

from knn_ue.answers import Entity, SentenceAnswer
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.spacy.doc_component import DocComponent
from knn_ue.tasks import TASKS

FACTORY = "knn_ue_tagger"


class TaggerComponent(DocComponent):
    """The entities of a fitted Hugging Face tagger, with the attributes that `knn_ue_entities` sets.

    `ue` is the folder that `knn-ue fit --method knn-ue-entity` wrote; it stays where it is. Entities that are set
    already are replaced.
    """

    def __init__(
        self,
        nlp: Language,
        name: str = FACTORY,
        *,
        ue: str,
        device: str = "auto",
        top: int = 3,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        del nlp
        super().__init__(name, top=top, attributes=attributes)
        self.tagger = UncertaintyPipeline.load(ue, device=device)
        if not TASKS[self.tagger.task].is_tagging or not self.tagger.calibrator_.reads_entities:
            raise InvalidInputError(
                f"{FACTORY} needs a tagger that was fitted with knn-ue-entity, {ue} holds {self.tagger.method_} for "
                f"{self.tagger.task}: fit one with knn-ue fit --method knn-ue-entity"
            )

    def _annotate(self, docs: list[Any]) -> None:
        spans = [list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]] for doc in docs]
        words = [[word.text for word in sentence] for sentences in spans for sentence in sentences]
        answers = iter(self.tagger(words, top=self.top) if words else [])
        for doc, sentences in zip(docs, spans, strict=True):
            self._set(doc, [(sentence.start, next(answers)) for sentence in sentences])

    def _set(self, doc: Any, answers: list[tuple[int, Any]]) -> None:
        names = self.attributes
        found: list[tuple[Any, Entity]] = []
        missed, confidence = [], 1.0
        for offset, answer in answers:
            assert isinstance(answer, SentenceAnswer)  # the task is tagging
            for one in answer.entities:
                kind = one.type or one.would_be or ""
                found.append((Span(doc, one.start + offset, one.end + offset, label=kind), one))
            missed += [(one.start + offset, one.end + offset, one.type, one.score) for one in answer.missed or ()]
            confidence *= 1.0 if answer.score is None else answer.score
        doc.set_ents([span for span, _ in found], default="outside")
        for span, one in found:
            names.set_entity(span, one)
        doc._.set(names.confidence, confidence)
        names.set_missed(doc, missed)


@Language.factory(
    FACTORY,
    assigns=["doc.ents", "doc._.confidence", "doc._.likely_missed", "span._.confidence"],
    default_config={"device": "auto", "top": 3, "attributes": {}},
)
def make_tagger(
    nlp: Language, name: str, ue: str, device: str, top: int, attributes: dict[str, str]
) -> TaggerComponent:
    """Return the component, its tagger loaded."""
    return TaggerComponent(nlp, name, ue=ue, device=device, top=top, attributes=attributes)
