"""What is set on docs and spans: plain values only, so that they survive `DocBin`, processes and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from knn_ue.answers import Entity, EntityExplanation
from knn_ue.errors import InvalidInputError

_MISSED = "knn_ue_missed"


@dataclass(frozen=True, kw_only=True)
class AttributeNames:
    """The names under `ent._` and `doc._`; `confidence` is that of entities and of docs."""

    confidence: str = "confidence"
    raised_by: str = "raised_by"
    lowered_by: str = "lowered_by"
    neighbors: str = "neighbors"
    familiar: str = "familiar"
    promised: str = "promised"
    likely_missed: str = "likely_missed"

    @classmethod
    def of(cls, chosen: Mapping[str, str]) -> "AttributeNames":
        """Return the names, those `chosen` by the user in place of the usual ones."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(chosen) - set(known)):
            raise InvalidInputError(f"attributes must be among {', '.join(known)}, got {', '.join(unknown)}: rename")
        names = replace(cls(), **chosen)
        values = [getattr(names, name) for name in known]
        if len(set(values)) != len(values) or not all(isinstance(x, str) and x.isidentifier() for x in values):
            raise InvalidInputError(f"attributes must have different names, each an identifier, got {values}: rename")
        return names

    def register(self) -> None:
        """Add the extensions to spaCy's `Span` and `Doc`; those that are there already stay."""
        from spacy.tokens import Doc, Span

        for name in (self.confidence, self.raised_by, self.lowered_by, self.neighbors, self.familiar, self.promised):
            if not Span.has_extension(name):
                Span.set_extension(name, default=None)
        if not Doc.has_extension(self.confidence):
            Doc.set_extension(self.confidence, default=None)
        if not Doc.has_extension(self.likely_missed):
            key, confidence = f"{_MISSED}:{self.likely_missed}", self.confidence
            Doc.set_extension(self.likely_missed, getter=lambda doc: _missed_spans(doc, key, confidence))

    def set_entity(self, span: Any, found: Entity | EntityExplanation, *, promised: bool | None = None) -> None:
        """Set what was found of an entity on its span, and whether a precision is promised of it."""
        span._.set(self.promised, promised)
        span._.set(self.confidence, float(found.score))
        span._.set(self.raised_by, list(found.raised_by or ()))
        span._.set(self.lowered_by, list(found.lowered_by or ()))
        span._.set(self.neighbors, [near.to_dict() for near in found.neighbors])
        span._.set(self.familiar, found.familiarity)

    def set_missed(self, doc: Any, found: Sequence[tuple[int, int, str, float]]) -> None:
        """Keep the likely missed spans of `doc`: (first word, word after the last, type, probability) of each."""
        doc.user_data[f"{_MISSED}:{self.likely_missed}"] = [list(span) for span in found]


def _missed_spans(doc: Any, key: str, confidence: str) -> list[Any]:
    """Return the spans, with type and probability, built when they are asked for: docs keep plain values only."""
    from spacy.tokens import Span

    spans = []
    for start, end, label, probability in doc.user_data.get(key, ()):
        span = Span(doc, start, end, label=label)
        span._.set(confidence, probability)
        spans.append(span)
    return spans
