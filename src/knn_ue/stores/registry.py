"""The registry of stores: a kind -> how to open a folder of that kind, and how to build or open one at an address.

To add a store: one file with a class that keeps `NeighborStore`, and one entry in `STORES`. Its key is the kind that
its `to_part` says, and the scheme of its addresses ("milvus" for "milvus://host:19530/name").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_positive, label_vector
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import Part, open_as, replace_fitted
from knn_ue.stores import milvus
from knn_ue.stores.contract import MEMORY, ListedStore, NeighborStore, StoredRows, TunableStore, tunable
from knn_ue.stores.datastore import Datastore
from knn_ue.stores.options import IndexOptions, index_options
from knn_ue.stores.segment import IndexedRows

_SCHEME_END = "://"


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """One kind of store: `load` opens the part of a folder that its `to_part` made, the others take an address first.

    `build(address, features, labels, texts=, index=)` stores features (n, d) there, `open(address)` finds what it made,
    and `check(address, index)` raises before any work where nothing can be built. `move_to(address, rows, index=,
    normalization=)` writes the rows of another store there, ids and all. `several` says whether a calibrator may keep
    several of them that change together.
    """

    load: Callable[[Part], NeighborStore]
    build: Callable[..., NeighborStore] | None = None
    open: Callable[[str], NeighborStore] | None = None
    check: Callable[[str, str | IndexOptions], None] | None = None
    move_to: Callable[..., NeighborStore] | None = None
    several: bool = True


STORES: dict[str, StoreKind] = {
    Datastore.kind: StoreKind(load=Datastore.from_part),
    milvus.KIND: StoreKind(
        load=milvus.MilvusStore.from_part,
        build=milvus.MilvusStore.build,
        open=milvus.MilvusStore.open,
        check=milvus.check_address,
        move_to=milvus.MilvusStore.build_rows,
        several=False,
    ),
}


def open_store(place: str | Path | Part) -> NeighborStore:
    """Open a store by what it is: a folder, or a part of one, by its kind, an address by its scheme."""
    if not isinstance(place, Part) and _SCHEME_END in str(place):
        address = str(place)
        kind = _kind_at(address)
        if kind.open is None:
            raise InvalidInputError(f"a store at {address!r} cannot be opened by its address: open its folder")
        return kind.open(address)
    if not isinstance(place, Part):
        return open_as(place, open_store)
    if place.kind not in STORES:
        raise StorageError(
            f"{place.where} holds a {place.kind[:40]!r}, which is not a known store ({', '.join(STORES)}): "
            "upgrade knn-ue"
        )
    return STORES[place.kind].load(place)


def folder_of(store: NeighborStore) -> Path | None:
    """Return the folder in which a store lives, None where it lives elsewhere."""
    folder = Path(store.where)
    return folder if store.where != MEMORY and folder.is_dir() else None


def compact_folder(path: str | Path) -> None:
    """Rebuild the indexes of a folder, whatever it holds, over the examples stored now; ids stay.

    What was fitted again since is folded in too. Holds a second copy of the vectors while it works.
    """
    root, stores = open_as(path, _opened_stores)
    live = root.live
    assert live is not None
    with live.change():
        if not any(store.has_changes for store in stores.values()):
            return
        replace_fitted(live, _with_stores(root, {name: store.compacted() for name, store in stores.items()}))


def _opened_stores(root: Part) -> tuple[Part, dict[str, TunableStore]]:
    parts = root.tree().items()
    return root, {name: tunable(open_store(part)) for name, part in parts if part.growing is not None}


def _with_stores(part: Part, stores: Mapping[str, NeighborStore]) -> Part:
    if part.name in stores:
        return stores[part.name].to_part()
    assert part.live is not None
    parts = {name: _with_stores(inner, stores) for name, inner in part.parts.items()}
    return replace(part.live.as_now(part), parts=parts)


def build_store(
    features: FloatArray,
    labels: IntArray,
    *,
    texts: Sequence[str] | None = None,
    index: str | IndexOptions = "exact",
    address: str | None = None,
) -> NeighborStore:
    """Store labeled features: in a `Datastore`, or at an `address` whose scheme is a key of `STORES`."""
    if address is None:
        return Datastore.build(features, labels, texts=texts, index=index)
    return _builder_at(address)(address, features, labels, texts=texts, index=index)


def check_address(address: str, index: str | IndexOptions = "auto", *, several: bool = False) -> None:
    """Raise where nothing, or not `several` stores at once, can be stored at `address`, before anything is encoded."""
    _builder_at(address)
    kind = _kind_at(address)
    if several and not kind.several:
        raise InvalidInputError(
            f"this method keeps a store for each layer, which must change together and cannot at {address!r}: leave "
            "out the store, or choose knn-ue"
        )
    if kind.check is not None:
        kind.check(address, index)


def moved_store(store: NeighborStore, address: str | None, index: str | IndexOptions = "auto") -> NeighborStore:
    """Return a store of the same rows, ids and all, at `address`, or in memory where it is None.

    All rows are in memory meanwhile. The store itself stays as it is.
    """
    if not isinstance(store, ListedStore):
        raise InvalidInputError(f"the rows of the store {store.where!r} cannot be listed: refit with the other store")
    rows, normalization = joined_rows(list(store.rows()), store.n_columns), store.normalization
    if address is None:
        return Datastore(IndexedRows.build(rows, index_options(index, *rows.vectors.shape), normalization))
    move_to = _kind_at(address).move_to
    if move_to is None:
        raise InvalidInputError(f"rows cannot be moved to {address!r}: refit with that store")
    return move_to(address, rows, index=index, normalization=normalization)


def joined_rows(chunks: Sequence[StoredRows], n_columns: int) -> StoredRows:
    """Return all chunks as one."""
    empty = np.empty(0, np.int64)
    return StoredRows(
        ids=np.concatenate([empty, *(part.ids for part in chunks)]),
        vectors=np.concatenate([np.empty((0, n_columns), np.float32), *(part.vectors for part in chunks)]),
        labels=np.concatenate([empty, *(part.labels for part in chunks)]),
        texts=[text for part in chunks for text in part.texts],
    )


def balanced_rows(labels: IntArray, n_rows: int, *, seed: int = 0) -> IntArray:
    """Return at most `n_rows` rows to store, rising: small classes whole, of the others equally many at random.

    In tagging most words are O, and nearly equal: they are what can be spared.

    >>> labels = np.array([0, 0, 0, 0, 0, 0, 1, 2])
    >>> labels[balanced_rows(labels, 4)].tolist()
    [0, 0, 1, 2]
    """
    check_positive(n_rows, "n_rows")
    known = label_vector(labels, "labels")
    order = np.random.default_rng(seed).permutation(len(known))
    rank = np.empty(len(known), dtype=np.int64)  # among the rows of its class
    for label in np.unique(known):
        of_class = order[known[order] == label]
        rank[of_class] = np.arange(len(of_class))
    kept: IntArray = np.sort(order[np.argsort(rank[order], kind="stable")][:n_rows])
    return kept


def _builder_at(address: str) -> Callable[..., NeighborStore]:
    build = _kind_at(address).build
    if build is None:
        raise InvalidInputError(f"nothing can be stored at {address!r}: {_way_out()}")
    return build


def _kind_at(address: str) -> StoreKind:
    scheme, end, _ = address.partition(_SCHEME_END)
    if not end or scheme not in STORES:
        raise InvalidInputError(f"no store is known by the address {address!r}: {_way_out()}")
    return STORES[scheme]


def _way_out() -> str:
    schemes = [f"{name}{_SCHEME_END}..." for name, kind in STORES.items() if kind.build is not None]
    return f"use {' or '.join(schemes)}" if schemes else "leave it out, and the UE folder holds the examples"
