"""Rows of any store, listed and put into a `Datastore` again, ids and all."""

from collections.abc import Sequence

import numpy as np

from knn_ue.stores.contract import StoredRows
from knn_ue.stores.datastore import Datastore
from knn_ue.stores.options import IndexOptions, Normalization, index_options
from knn_ue.stores.segment import IndexedRows, Segment, build_index


def join_rows(chunks: Sequence[StoredRows], n_columns: int) -> StoredRows:
    """Return all chunks as one, by rising id."""
    empty = StoredRows(
        ids=np.empty(0, np.int64), vectors=np.empty((0, n_columns), np.float32), labels=np.empty(0, np.int64), texts=[]
    )
    parts = [empty, *chunks]
    ids = np.concatenate([part.ids for part in parts])
    texts = [text for part in parts for text in part.texts]
    order = np.argsort(ids)
    return StoredRows(
        ids=ids[order],
        vectors=np.concatenate([part.vectors for part in parts])[order],
        labels=np.concatenate([part.labels for part in parts])[order],
        texts=[texts[row] for row in order.tolist()],
    )


def datastore_of(rows: StoredRows, normalization: Normalization, index: str | IndexOptions) -> Datastore:
    """Return a `Datastore` of rows whose vectors are normalized already, with the ids they have."""
    vectors = np.ascontiguousarray(rows.vectors, dtype=np.float32)
    options = index_options(index, *vectors.shape)
    segment = Segment.of(vectors, rows.ids, rows.labels, list(rows.texts), build_index(vectors, options))
    next_id = int(rows.ids.max(initial=-1)) + 1
    return Datastore(IndexedRows(segment=segment, options=options, normalization=normalization, next_id=next_id))
