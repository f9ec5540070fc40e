"""A faiss file made by an enemy, right checksum and all, reaches no other file and names no row that does not exist."""

import os

import numpy as np
import pytest

from knn_ue.errors import StorageError
from knn_ue.stores.faiss_index import IndexOptions, read_index
from knn_ue.stores.segment import build_index


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)


def nested(_):
    """An index wrapped in thousands of pre-transforms without transforms."""
    import faiss

    flat = faiss.IndexFlatL2(16)
    inner = faiss.serialize_index(flat).tobytes()
    wrapped = faiss.serialize_index(faiss.IndexPreTransform(flat)).tobytes()
    return wrapped[: -len(inner)] * 20_000 + inner


FILES = {"nothing at all": lambda _: b"null", "an empty file": lambda _: b"", "nesting without end": nested}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_holds_no_index_of_ours_is_refused(name, vectors, tmp_path):
    (tmp_path / "index").write_bytes(FILES[name](vectors))

    with pytest.raises(StorageError, match=r"is not a (usable )?faiss index"):
        read_index(tmp_path / "index", vectors.shape, vectors, IndexOptions(factory="PCA8,Flat"))


def test_a_kind_of_index_that_is_never_saved_is_refused(vectors, tmp_path):
    import faiss

    faiss.write_index(build_index(vectors, IndexOptions(factory="LSH")).inner, str(tmp_path / "index"))

    with pytest.raises(StorageError, match="is not a faiss index written by knn-ue: do not trust this folder"):
        read_index(tmp_path / "index", vectors.shape, vectors, IndexOptions(factory="LSH"))


@pytest.mark.parametrize("shape", [(599, 16), (600, 8)])
def test_an_index_of_other_rows_is_refused(shape, vectors, tmp_path):
    build_index(vectors, IndexOptions(factory="SQ8")).write(tmp_path / "index")

    with pytest.raises(StorageError, match="indexes 600 rows of 16, not"):
        read_index(tmp_path / "index", shape, vectors, IndexOptions(factory="SQ8"))


def test_an_index_that_keeps_its_lists_in_another_file_is_refused_before_that_is_opened(vectors, tmp_path):
    import faiss

    options = IndexOptions(factory="IVF8,Flat")
    owner = build_index(vectors, options).inner
    index = faiss.downcast_index(owner)
    lists = faiss.OnDiskInvertedLists(8, 64, str(tmp_path / "outside"))
    index.replace_invlists(lists, False)
    faiss.write_index(index, str(tmp_path / "index"))
    (tmp_path / "outside").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "outside")  # opening it would wait forever

    with pytest.raises(StorageError, match="is not a faiss index written by knn-ue: do not trust this folder"):
        read_index(tmp_path / "index", vectors.shape, vectors, options)


def test_rows_that_do_not_exist_are_refused_when_the_index_names_them(vectors, tmp_path):
    import faiss

    index = build_index(vectors, IndexOptions(factory="IVF8,Flat"))
    lists = faiss.downcast_index(index.inner).invlists
    for number in range(8):
        faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number))[:] = 10**15
    index.write(tmp_path / "index")

    with pytest.raises(StorageError, match="the index names rows that do not exist among 600: rebuild it"):
        read_index(tmp_path / "index", vectors.shape, vectors, IndexOptions(factory="IVF8,Flat")).search(vectors[:3], 5)
