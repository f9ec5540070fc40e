"""An opened folder: what was fitted, what happened since, and the stores that follow both."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError, StaleFolderError
from knn_ue.folder.changes import (
    FOREVER,
    Head,
    News,
    StoredPart,
    Transaction,
    head_of,
    read_changes,
    remove_unnamed,
    transaction,
)
from knn_ue.folder.database import no_fork
from knn_ue.folder.part import Added, Part
from knn_ue.folder.schema import Arrays, Plain, as_written
from knn_ue.folder.tensors import PackedTexts, arrays_from_bytes, arrays_to_bytes


class Follower(Protocol):
    """A store of the folder: told of every example that any process adds or removes, in order."""

    def follow(self, added: Added, removed: IntArray) -> None:
        """Take over what happened; `added` has this store's own columns."""
        ...


class Live:
    """A folder as this process sees it: `seen` is the last change that was taken over.

    A change waits for its turn no longer than `max_wait` seconds.
    """

    def __init__(self, path: Path, head: Head, root: Part) -> None:
        self.path = path
        self.max_wait = FOREVER
        self._lock = RLock()
        self._followers: dict[str, Follower] = {}
        self._columns: dict[str, slice] = {}
        first_id = end = 0
        for name, part in root.tree().items():
            if part.growing is not None:
                start, end = end, end + part.growing.n_columns
                self._columns[name] = slice(start, end)
                first_id = max(first_id, part.growing.next_id)
        self._n_columns, self._first_id = end, first_id
        self._change: Transaction | None = None
        self._after: list[Callable[[], None]] = []
        news = read_changes(path, n_columns=end)
        if not head.goes_on_to(news.head):
            raise StaleFolderError(f"{path} was saved again while it was opened: open it again")
        self.seen, self._last_id = news.head, max([first_id - 1, *news.added.ids.tolist()[-1:]])
        self.parts = dict(news.parts)
        self.next_id = news.next_id
        self._history = [(news.added, news.removed)]

    def join(self, name: str, store: Follower) -> None:
        """Tell the store of the part `name` what happened until now, and whatever happens from now on."""
        with no_fork, self._lock:
            for added, removed in self._history:
                store.follow(self._own(name, added), removed)
            self._followers[name] = store
            if self._followers.keys() == self._columns.keys():
                self._history = []

    def as_now(self, part: Part) -> Part:
        """Return a part with the parameters and arrays that it has now."""
        later = self.parts.get(part.name)
        if later is None or later.state is None:
            return part
        state, arrays = _decoded(later, part.where)
        return replace(part, state=state, arrays=arrays)

    def later(self, prefix: str) -> dict[str, tuple[Plain, Arrays]]:
        """Return state and arrays of the parts that came after the fit, whose names begin with `prefix`, without it."""
        return {
            name.removeprefix(prefix): _decoded(part, str(self.path))
            for name, part in self.parts.items()
            if name.startswith(prefix) and part.state is not None
        }

    def refresh(self) -> bool:
        """Take over what other processes did, and return whether a part is another one now.

        `StaleFolderError` where the folder holds something else that was fitted.
        """
        with no_fork, self._lock:
            head = head_of(self.path, self.max_wait)
            return head != self.seen and self._take(
                read_changes(self.path, self.seen.change, self._last_id, self._n_columns)
            )

    @contextmanager
    def change(self) -> Iterator[Transaction]:
        """Change the folder in turn; what others changed is taken over first. A change within a change is part of it.

        Stores are told after the commit.
        """
        with no_fork, self._lock:
            if self._change is not None:
                yield self._change
                return
            try:
                with transaction(self.path, wait=self.max_wait) as change:
                    self._take(change.news(self.seen.change, self._last_id, self._n_columns))
                    self._change = change
                    yield change
                if change.is_change and change.head is not None:
                    self._end(change.head)
            finally:
                self._change, self._after = None, []

    def add(self, vectors: Mapping[str, FloatArray], labels: IntArray, texts: Sequence[str | None]) -> IntArray:
        """Add examples to all stores at once, given as float32 by the names of their parts, and return their ids."""
        if vectors.keys() != self._columns.keys():
            raise InvalidInputError(
                f"the {len(self._columns)} stores of {self.path} change together: add through the calibrator or the "
                "pipeline that has them"
            )
        joined = np.concatenate([vectors[name] for name in self._columns], axis=1)
        with self.change() as change:
            ids = change.add(labels, texts, joined, first=self._first_id)
            added = Added(ids=ids, labels=labels, texts=PackedTexts.pack(texts), vectors=joined)
            self._after.append(lambda: self._tell(added, np.empty(0, np.int64)))
        return ids

    def remove(self, ids: IntArray) -> None:
        """Remove examples from all stores by id; whether they are there is the stores' to know."""
        with self.change() as change:
            change.remove(ids)
            self._after.append(lambda: self._tell(Added.none(self._n_columns), ids))

    def put(self, name: str, state: Plain | None, arrays: Mapping[str, Any] | None = None) -> None:
        """Give the folder another part of this name; without a state, take it away."""
        part = stored_part(state, arrays or {})
        with self.change() as change:
            change.put(name, part)
            self._after.append(lambda: setattr(self, "parts", {**self.parts, name: part}))

    def _end(self, head: Head) -> None:
        """Tell the stores what was changed; where another fitted part took over, who has this one must open it."""
        if head.fitted != self.seen.fitted:
            remove_unnamed(self.path)
            return
        self.seen = head
        for tell in self._after:
            tell()

    def _take(self, news: News) -> bool:
        if not self.seen.goes_on_to(news.head):
            raise StaleFolderError(
                f"{self.path} was saved, compacted, tuned or replaced since it was opened: open it again"
            )
        with as_written(self.path, "change"):
            self._tell(news.added, news.removed)
        if news.parts:
            self.parts = {**self.parts, **news.parts}
        self.seen, self.next_id = news.head, news.next_id
        return bool(news.parts)

    def _tell(self, added: Added, removed: IntArray) -> None:
        if not len(added) and not len(removed):
            return
        self._last_id = max([self._last_id, *added.ids.tolist()[-1:]])
        self.next_id = max(self.next_id, self._last_id + 1)
        if self._followers.keys() != self._columns.keys():
            self._history.append((added, removed))
        try:
            for name, store in self._followers.items():
                store.follow(self._own(name, added), removed)
        except BaseException:  # some stores follow and others do not: nothing goes on from here
            self.seen = replace(self.seen, fitted="")
            raise

    def _own(self, name: str, added: Added) -> Added:
        return replace(added, vectors=added.vectors[:, self._columns[name]])


def stored_part(state: Plain | None, arrays: Mapping[str, Any]) -> StoredPart:
    """Return a part as the database holds it."""
    return StoredPart(
        state=None if state is None else json.dumps(state), arrays=arrays_to_bytes(arrays) if arrays else None
    )


def _decoded(part: StoredPart, where: str) -> tuple[Plain, Arrays]:
    with as_written(where, "part"):
        state = json.loads(part.state or "{}")
        if not isinstance(state, dict):
            raise ValueError("its parameters are no object")
        return state, {} if part.arrays is None else arrays_from_bytes(part.arrays)
