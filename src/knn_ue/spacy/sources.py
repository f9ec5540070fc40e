"""The components whose entities can be scored: what each says of docs, by one contract."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
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

    def labeled(self, doc: Any) -> Sequence[Any] | None:
        """Return the labeled spans of a doc where it has them for this component; None where they are `doc.ents`."""
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

    def labeled(self, doc: Any) -> Sequence[Any] | None:
        """Return None: they are `doc.ents`."""
        del doc
        return None


class SpancatSource:
    """spaCy's span categorizer; of spans that overlap the one with the highest score counts, the others are unscored.

    The probability that a word belongs to a type is that of the most probable span over it.
    """

    def __init__(self, component: Any) -> None:
        self.component = component

    @property
    def labels(self) -> tuple[str, ...]:
        """The types of the categorizer."""
        return tuple(self.component.labels)

    def entities(self, docs: Sequence[Any]) -> list[Entities]:
        """Return the spans of the component's group, none overlapping a better one."""
        return [self._apart(doc.spans.get(self.component.key)) for doc in docs]

    def belief(self, docs: Sequence[Any]) -> Belief:
        """Return the categorizer's scores of all spans it considered, turned into probabilities of words."""
        n_words, types = sum(len(doc) for doc in docs), self.labels
        firsts, lasts = np.zeros((2, 0), dtype=np.int64)
        spans = np.zeros((0, len(types)))
        if not n_words:
            width = self.component.model.get_ref("tok2vec").get_dim("nO")
            return _of_spans(types, np.zeros((0, width), dtype=np.float32), firsts, lasts, spans)
        indices, scores = self.component.predict(docs)
        offsets = np.cumsum([0, *(len(doc) for doc in docs)])[:-1]
        if len(indices.dataXd):
            shift = np.repeat(offsets, indices.lengths)
            firsts, lasts = indices.dataXd[:, 0] + shift, indices.dataXd[:, 1] + shift - 1
            spans = np.asarray(scores, dtype=np.float64)[:, : len(types)]
        vectors = np.concatenate(self.component.model.get_ref("tok2vec").predict(docs))
        return _of_spans(types, vectors, firsts, lasts, spans)

    def labeled(self, doc: Any) -> Sequence[Any] | None:
        """Return the spans of the component's group, of those that overlap the longest; None where there is none."""
        from spacy.util import filter_spans

        group = doc.spans.get(self.component.key)
        return None if group is None else filter_spans(list(group))

    @staticmethod
    def _apart(group: Any) -> Entities:
        if group is None:
            return []
        given = group.attrs.get("scores")
        scores = np.zeros(len(group)) if given is None else np.asarray(given)
        taken: set[int] = set()
        found = []
        for place in np.argsort(-scores, kind="stable").tolist():
            span = group[place]
            if taken.isdisjoint(range(span.start, span.end)):
                taken |= set(range(span.start, span.end))
                found.append((span.start, span.end, span.label_))
        return sorted(found)


def _of_spans(
    types: tuple[str, ...], vectors: FloatArray, firsts: IntArray, lasts: IntArray, spans: FloatArray
) -> Belief:
    begins, continues = np.zeros((2, len(vectors), len(types)))
    np.maximum.at(begins, firsts, spans)
    for length in range(1, int((lasts - firsts).max(initial=0)) + 1):
        reach = lasts - firsts >= length
        np.maximum.at(continues, firsts[reach] + length, spans[reach])
    outside = np.maximum(1.0 - np.maximum(begins, continues).max(axis=1, initial=0.0), 1e-6)
    total = outside + begins.sum(axis=1) + continues.sum(axis=1)
    return Belief(
        types=types,
        vectors=vectors,
        outside=outside / total,
        begins=begins / total[:, None],
        continues=continues / total[:, None],
        firsts=firsts,
        lasts=lasts,
        spans=spans,
    )


SOURCES: dict[str, Callable[[Any], Source]] = {"ner": NerSource, "beam_ner": NerSource, "spancat": SpancatSource}


def source_of(nlp: Any, name: str) -> Source:
    """Return the component `name` of the pipeline as a source of entities."""
    if name not in nlp.component_names:  # one that is disabled, as `spacy train` does it, can be asked all the same
        raise InvalidInputError(
            f"the pipeline has no component {name!r}, only {', '.join(nlp.component_names) or 'none'}: pass the name "
            "of the one that finds entities as source"
        )
    factory = nlp.get_pipe_meta(name).factory
    if factory not in SOURCES:
        raise InvalidInputError(
            f"the component {name!r} is a {factory}, which is none of {', '.join(SOURCES)}: pass another as source"
        )
    return SOURCES[factory](nlp.get_pipe(name))
