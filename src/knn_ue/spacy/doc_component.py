"""What our components of a pipeline have in common: they read docs, one or a stream, and set attributes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from knn_ue.spacy.attributes import AttributeNames


class DocComponent(ABC):
    """A component that annotates batches of docs; `attributes` are the names under `ent._` and `doc._`."""

    def __init__(self, name: str, *, top: int, attributes: Mapping[str, str] | None) -> None:
        self.name = name
        self.top = top
        self.attributes = AttributeNames.of(attributes or {})
        self.attributes.register()

    def __call__(self, doc: Any) -> Any:
        """Annotate one doc."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 64) -> Iterator[Any]:
        """Annotate each doc, `batch_size` at a time."""
        remaining = iter(stream)
        while docs := list(islice(remaining, batch_size)):
            self._annotate(docs)
            yield from docs

    @abstractmethod
    def _annotate(self, docs: list[Any]) -> None:
        """Set what the component knows of these docs."""
