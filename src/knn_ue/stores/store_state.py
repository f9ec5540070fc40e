"""All that changes in a datastore, in one frozen record."""

from dataclasses import dataclass

import numpy as np

from knn_ue.storage import FolderContent
from knn_ue.storage.texts import PackedTexts
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.faiss_index import Index
from knn_ue.stores.journal import Added, Change, Journal, Removed
from knn_ue.stores.segment import Segment

_CHANGE_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True, eq=False)
class StoreState:
    """All that changes in a store, replaced in one step: a search, or an interrupt, meets the old one or the new."""

    base: Segment
    added: Segment
    next_id: int
    stored: FolderContent | None = None
    journal: Journal | None = None
    gpu: int | None = None
    gpu_index: Index | None = None

    @property
    def segments(self) -> tuple[Segment, Segment]:
        return self.base, self.added

    @property
    def has_changes(self) -> bool:
        return len(self.added.ids) > 0 or bool(self.base.removed.any())

    @property
    def first_added_id(self) -> int:
        return self.next_id - len(self.added.ids)

    def joined(self) -> Segment:
        """Return all examples stored now in one segment, not indexed."""
        parts = list(zip(*(segment.live() for segment in self.segments), strict=True))
        vectors, ids, labels = (np.concatenate(part) for part in parts[:3])
        texts = [text for part in parts[3] for text in part]
        return Segment.of(vectors, ids, labels, texts, ExactIndex(vectors))

    def changes(self) -> list[Change]:
        """Return changes that lead from the base as it was built to this state."""
        found: list[Change] = []
        added = self.added
        for start in range(0, len(added.ids), _CHANGE_ROWS):
            rows = slice(start, start + _CHANGE_ROWS)
            texts = PackedTexts.pack(list(added.texts)[rows])
            found.append(
                Added(
                    features=added.require_vectors()[rows],
                    ids=added.ids[rows],
                    labels=added.labels[rows],
                    texts=texts,
                    normalized=True,
                )
            )
        removed = np.concatenate([segment.ids[segment.removed] for segment in self.segments])
        return [*found, Removed(ids=removed)] if len(removed) else found
