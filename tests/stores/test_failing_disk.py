"""A disk that refuses the last bytes: nothing is committed that does not open."""

import resource

import numpy as np
import pytest

from knn_ue.errors import StorageError
from knn_ue.folder import copy_folder, folder
from knn_ue.stores import Datastore


def test_an_index_whose_last_bytes_are_refused_is_not_committed(saved):
    large = Datastore.build(np.random.default_rng(0).normal(size=(300, 4)), np.arange(300), index="HNSW32")
    large.save(saved.parent / "whole")
    (index,) = saved.parent.glob("whole/fitted-*/index.faiss")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (index.stat().st_size - 1, limits[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            large.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert len(Datastore.load(saved)) == 4


def test_a_copy_that_fails_leaves_nothing_where_it_was_to_be(saved, monkeypatch):
    def refused(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.shutil, "copytree", refused)
    with pytest.raises(StorageError, match=r"copy cannot be written \(No space left on device\)"):
        copy_folder(saved, saved.parent / "backups" / "copy")

    assert list(saved.parent.iterdir()) == [saved]


def test_a_copy_is_what_the_folder_was_and_changes_on_its_own(saved):
    store = Datastore.load(saved)
    store.add(np.ones((1, 4)), [5], texts=["five"])

    copy_folder(saved, saved.parent / "copy")
    store.add(np.ones((1, 4)), [6])

    copy = Datastore.load(saved.parent / "copy")
    assert copy.texts_of([3, 4, 5]) == ["three", "five", None]
    assert copy.add(np.ones((1, 4)), [7]).tolist() == [5]
