"""The components whose entities can be scored: what each says of docs, by one contract."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from knn_ue.errors import InvalidInputError
from knn_ue.spacy.lattice import Belief, ner_belief
from knn_ue.spacy.vectors import remembering

Entities = list[tuple[int, int, str]]


class Source(Protocol):
    """A component that finds entities: its types, what it found in docs, and what it believes about their words."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The types it can find."""
        ...

    def entities(self, docs: Sequence[Any]) -> list[Entities]:
        """Return (first word, word after the last, label) of each entity of each doc, none overlapping another."""
        ...

    def belief(self, docs: Sequence[Any]) -> Belief:
        """Return vectors and probabilities of the words of all docs, one doc after another."""
        ...


class NerSource:
    """spaCy's transition-based NER; the entities are those of `doc.ents`, whoever set them."""

    def __init__(self, component: Any) -> None:
        self.component = component
        self._vectors = remembering(component.model)

    @property
    def labels(self) -> tuple[str, ...]:
        """The types of the recognizer."""
        return tuple(self.component.labels)

    def entities(self, docs: Sequence[Any]) -> list[Entities]:
        """Return the entities in `doc.ents`."""
        return [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs]

    def belief(self, docs: Sequence[Any]) -> Belief:
        """Return the lattice's probabilities."""
        with self._vectors.recalled():
            return ner_belief(self.component, docs)


SOURCES: dict[str, Callable[[Any], Source]] = {"ner": NerSource, "beam_ner": NerSource}


def source_of(nlp: Any, name: str) -> Source:
    """Return the component `name` of the pipeline as a source of entities."""
    if name not in nlp.pipe_names:
        raise InvalidInputError(
            f"the pipeline has no component {name!r}, only {', '.join(nlp.pipe_names) or 'none'}: pass the name of "
            "the one that finds entities as source"
        )
    factory = nlp.get_pipe_meta(name).factory
    if factory not in SOURCES:
        raise InvalidInputError(
            f"the component {name!r} is a {factory}, which is none of {', '.join(SOURCES)}: pass another as source"
        )
    return SOURCES[factory](nlp.get_pipe(name))
