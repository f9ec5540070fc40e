"""Outputs -> Neighbors: stored examples and the search over them."""

from knn_ue.datastore.options import IndexOptions, index_options
from knn_ue.datastore.pruning import balanced_rows
from knn_ue.datastore.store import Datastore

__all__ = ["Datastore", "IndexOptions", "balanced_rows", "index_options"]
