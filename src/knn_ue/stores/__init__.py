"""Outputs -> Neighbors: stored examples and the search over them."""

from knn_ue.stores.contract import (
    FolderStore,
    NeighborStore,
    RemoteStore,
    TunableStore,
    WritableStore,
    add_to_all,
    remove_from_all,
    tunable,
    writable,
)
from knn_ue.stores.datastore import Datastore
from knn_ue.stores.milvus import MilvusStore
from knn_ue.stores.options import IndexOptions, index_options, is_small
from knn_ue.stores.registry import (
    STORES,
    StoreKind,
    balanced_rows,
    build_store,
    check_address,
    compact_folder,
    folder_of,
    moved_store,
    open_store,
)

__all__ = [
    "STORES",
    "Datastore",
    "FolderStore",
    "IndexOptions",
    "MilvusStore",
    "NeighborStore",
    "RemoteStore",
    "StoreKind",
    "TunableStore",
    "WritableStore",
    "add_to_all",
    "balanced_rows",
    "build_store",
    "check_address",
    "compact_folder",
    "folder_of",
    "index_options",
    "is_small",
    "moved_store",
    "open_store",
    "remove_from_all",
    "tunable",
    "writable",
]
