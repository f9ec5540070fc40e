"""Outputs -> Neighbors: stored examples and the search over them."""

from knn_ue.stores.datastore import Datastore
from knn_ue.stores.options import IndexOptions, index_options
from knn_ue.stores.pruning import balanced_rows

__all__ = ["Datastore", "IndexOptions", "balanced_rows", "index_options"]
