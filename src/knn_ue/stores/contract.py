"""What every store of examples can do, and what only some can: asked of the contract, never of a class."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.folder import Live, Part
from knn_ue.folder.tensors import PackedTexts
from knn_ue.stores.options import IndexOptions, Normalization
from knn_ue.types import Neighbors

Texts = Sequence[str | None] | PackedTexts
MEMORY = "memory"  # where a store is that has no folder and no address


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRows:
    """Rows as a store keeps them: `ids` (n,), `vectors` (n, d) normalized as they are searched, labels and texts."""

    ids: IntArray
    vectors: FloatArray
    labels: IntArray
    texts: Texts


@runtime_checkable
class NeighborStore(Protocol):
    """Labeled feature vectors that answer "which stored examples are nearest?"."""

    @property
    def where(self) -> str:
        """Where the examples are: a folder, "memory", or an address such as "milvus://host:19530/name"."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        ...

    def __len__(self) -> int: ...

    def search(self, features: FloatArray, n_neighbors: int) -> Neighbors:
        """Return the `n_neighbors` nearest stored examples of each row of `features`, padded with id -1."""
        ...

    def texts_of(self, ids: Sequence[int] | IntArray) -> list[str | None]:
        """Return the text stored with each id, None where there is none."""
        ...

    def vectors_of(self, ids: Sequence[int] | IntArray) -> FloatArray | None:
        """Return the vectors (n, d) of ids as they are searched, NaN for removed ids; None if no vectors are kept."""
        ...

    def normalized(self, features: FloatArray) -> FloatArray:
        """Return `features` (n, d) as this store compares them."""
        ...

    def to_part(self) -> Part:
        """Return what a folder holds of it: the whole store, or a reference to it."""
        ...

    def detached(self) -> "NeighborStore":
        """Return the examples as they are now, in memory: later changes to either do not reach the other.

        A store that lives on a server returns itself.
        """
        ...


@runtime_checkable
class WritableStore(NeighborStore, Protocol):
    """A store that learns and forgets; a change is durable before the call returns."""

    def add(self, features: FloatArray, labels: IntArray, *, texts: Sequence[str] | None = None) -> IntArray:
        """Store more examples and return their ids; all or none."""
        ...

    def remove(self, ids: Sequence[int] | IntArray) -> None:
        """Remove examples by id; if an id is unknown, nothing is removed."""
        ...


@runtime_checkable
class FolderStore(WritableStore, Protocol):
    """A store whose rows are in a folder, or in memory until it is saved; the stores of one folder change together."""

    @property
    def live(self) -> Live | None:
        """The opened folder that holds the examples and what is added; None in memory."""
        ...

    @property
    def name(self) -> str:
        """The name of its part in that folder."""
        ...

    def prepared(self, features: FloatArray) -> FloatArray:
        """Return features (n, d) as they are stored, after checking them."""
        ...


@runtime_checkable
class TunableStore(NeighborStore, Protocol):
    """A store whose examples are at hand and whose index can be replaced."""

    @property
    def options(self) -> IndexOptions:
        """The index by which it is searched."""
        ...

    @property
    def ids(self) -> IntArray:
        """The ids stored now, in increasing order."""
        ...

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Return the vectors (n, d) stored now, normalized as they are searched, and their labels (n,)."""
        ...

    def reindexed(self, index: str | IndexOptions) -> Self:
        """Return a store of the same examples and ids that is searched by another index and has no folder."""
        ...

    @property
    def has_changes(self) -> bool:
        """Whether examples were added or removed since the index was built."""
        ...

    def compacted(self) -> Self:
        """Return such a store with the same index, built again over the examples stored now."""
        ...


@runtime_checkable
class ListedStore(NeighborStore, Protocol):
    """A store whose rows can be listed: what it takes to move them elsewhere."""

    def rows(self) -> Iterator[StoredRows]:
        """Yield all rows by rising id, in chunks."""
        ...

    @property
    def normalization(self) -> Normalization:
        """What happens to features before they are compared."""
        ...


@runtime_checkable
class RemoteStore(NeighborStore, Protocol):
    """A store on a server that other processes share; calls raise `StoreUnreachableError` where it is gone."""

    def check_reachable(self) -> None:
        """Raise `StoreUnreachableError` unless the server answers now."""
        ...

    def patient(self) -> Self:
        """Return the same store for batch work: a search waits for minutes where the server is slow or restarts."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what a person may want to know: the index, the consistency, who sees a change and when."""
        ...


def writable(store: NeighborStore) -> WritableStore:
    """Return the store as one that can be changed, or raise."""
    if not isinstance(store, WritableStore):
        raise InvalidInputError(
            f"examples cannot be added to or removed from the store {store.where!r}: refit with other training rows"
        )
    return store


def tunable(store: NeighborStore) -> TunableStore:
    """Return the store as one whose index can be replaced, or raise."""
    if not isinstance(store, TunableStore):
        said = f"the store {store.where!r} keeps its own index, which cannot be tuned or rebuilt here: refit with "
        raise InvalidInputError(
            f"{said}another index, or without store", shell=f"{said}another --index, or without --store"
        )
    return store


def add_to_all(
    stores: Mapping[str, NeighborStore],
    features: Mapping[str, FloatArray],
    labels: IntArray,
    texts: Sequence[str] | None,
) -> IntArray:
    """Store labeled examples in all stores of a calibrator, in all or in none, and return their ids."""
    opened = {name: writable(store) for name, store in stores.items()}
    if len(opened) == 1:
        ((name, store),) = opened.items()
        return store.add(features[name], labels, texts=texts)
    together = {name: store for name, store in opened.items() if isinstance(store, FolderStore)}
    live = next((store.live for store in together.values()), None)
    if len(together) < len(opened) or any(store.live is not live for store in together.values()):
        raise InvalidInputError(f"{len(opened)} stores in different places cannot change together: refit")
    # What can be refused is refused before the first is changed.
    prepared = {store.name: store.prepared(features[name]) for name, store in together.items()}
    if live is not None:
        return live.add(prepared, labels, [None] * len(labels) if texts is None else list(texts))
    for name, store in opened.items():
        ids = store.add(features[name], labels, texts=texts)
    return ids


def remove_from_all(stores: Mapping[str, NeighborStore], ids: Sequence[int] | IntArray) -> None:
    """Forget examples by id in all stores of a calibrator; an unknown id is an error, and nothing is removed."""
    opened = [writable(store) for store in stores.values()]
    first = opened[0]
    in_one_folder = isinstance(first, FolderStore) and first.live is not None
    for store in opened[:1] if in_one_folder else opened:
        store.remove(ids)
