"""A faiss file made by an enemy, right checksum and all, is refused or harmless: faiss neither crashes nor hangs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knn_ue.errors import StorageError
from knn_ue.stores.faiss_index import IndexOptions, read_index
from knn_ue.stores.segment import build_index

SCRIPT = Path(__file__).with_name("index_fuzz.py")
FACTORIES = [
    "IVF8,Flat",
    "IVF8,SQ8",
    "IVF8,PQ4x4",
    "IVF8,PQ4x4fsr",
    "PCA8,IVF8,PQ4x4fs",
    "IVF8_HNSW8,Flat",
    "HNSW8",
    "HNSW8_SQ8",
    "HNSW8_PQ4x4",
    "PQ4x4",
    "PQ4x4fs",
    "SQ8",
    "RR8,SQfp16",
    "L2norm,PCAR8,Flat",
]


def fuzz(n_times, factories):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(n_times), *factories],
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode} at {done.stderr[-1500:]}"
    return done.stdout.splitlines()


@pytest.mark.slow
def test_mutated_index_files_are_refused_or_harmless():
    lines = fuzz(150, FACTORIES)  # make torture opens thousands

    refused = {name: int(count) for name, count in (re.match(r"(.+): (\d+) of 150 refused", x).groups() for x in lines)}
    assert list(refused) == FACTORIES
    assert all(10 < count < 150 for count in refused.values()), refused  # both happened


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)


def cut(marker, replacement):
    """Replace everything from the last `marker` on."""
    return lambda content, _: content[: content.rindex(marker)] + replacement


def without_quantizer(content, index):
    import faiss

    quantizer = faiss.serialize_index(faiss.downcast_index(index).quantizer).tobytes()
    return content.replace(quantizer, b"null")


def with_more_centroids(_, index):
    import faiss

    faiss.downcast_index(faiss.downcast_index(index).quantizer).add(np.ones((40, 16), dtype=np.float32))
    return faiss.serialize_index(index).tobytes()


def with_lists_of_single_codes(content, _):
    import faiss

    plain = faiss.index_factory(16, "IVF8,PQ4x4")
    plain.do_polysemous_training = False
    vectors = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
    plain.train(vectors)
    plain.add(vectors)
    other = faiss.serialize_index(plain).tobytes()
    return content[: content.rindex(b"ilbl")] + other[other.rindex(b"ilar") :]


def with_a_field(name, value):
    def change(_, index):
        import faiss

        setattr(faiss.downcast_index(index), name, value)
        return faiss.serialize_index(index).tobytes()

    return change


def nested(content, _):
    """An index wrapped in thousands of pre-transforms without transforms."""
    import faiss

    flat = faiss.IndexFlatL2(16)
    inner = faiss.serialize_index(flat).tobytes()
    wrapped = faiss.serialize_index(faiss.IndexPreTransform(flat)).tobytes()
    return wrapped[: -len(inner)] * 20_000 + inner


# Each of these made faiss crash, hang or reach outside the folder when it was read and searched without our checks,
# or is next of kin to one that did.
ATTACKS = {
    "nothing at all": ("IVF8,Flat", lambda *_: b"null"),
    "an empty file": ("IVF8,Flat", lambda *_: b""),
    "no lists": ("IVF8,Flat", cut(b"ilar", b"il00")),
    "no lists to scan": ("IVF8,PQ4x4fs", cut(b"ilbl", b"il00")),
    "no index behind a pre-transform": ("PCA8,Flat", cut(b"IxF2", b"null")),
    "no vectors in a graph": ("HNSW8", cut(b"IxF2", b"null")),
    "no quantizer": ("IVF8,Flat", without_quantizer),
    "more centroids than lists": ("IVF8,PQ4x4fs", with_more_centroids),
    "lists that a scan cannot read": ("IVF8,PQ4x4fs", with_lists_of_single_codes),
    "blocks of another size": ("IVF8,PQ4x4fs", with_a_field("bbs", 64)),
    "another way to scan": ("IVF8,PQ4x4fs", with_a_field("qbs2", 600)),
    "more rows than codes": ("PQ4x4fs", with_a_field("ntotal2", 1 << 40)),
    "nesting without end": ("PCA8,Flat", nested),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_is_meant_to_crash_faiss_is_refused_before_a_search(name, vectors, tmp_path):
    import faiss

    factory, attack = ATTACKS[name]
    options = IndexOptions(factory=factory)
    inner = build_index(vectors, options).inner
    (tmp_path / "index").write_bytes(attack(faiss.serialize_index(inner).tobytes(), inner))

    with pytest.raises(StorageError, match=r"is not a (usable )?faiss index"):
        read_index(tmp_path / "index", vectors.shape, vectors, options)


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


@pytest.mark.parametrize(("factory", "name"), [("IVF8,Flat", "nprobe"), ("IVF8,PQ4x4fs", "nprobe")])
def test_a_huge_search_setting_in_the_file_does_no_harm(factory, name, vectors, tmp_path):
    options = IndexOptions(factory=factory)
    index = build_index(vectors, options)
    (tmp_path / "index").write_bytes(with_a_field(name, 1 << 40)(b"", index.inner))

    assert read_index(tmp_path / "index", vectors.shape, vectors, options).search(vectors[:3], 5)[1].shape == (3, 5)


def test_rows_that_do_not_exist_are_refused_when_the_index_names_them(vectors, tmp_path):
    import faiss

    index = build_index(vectors, IndexOptions(factory="IVF8,Flat"))
    lists = faiss.downcast_index(index.inner).invlists
    for number in range(8):
        faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number))[:] = 10**15
    index.write(tmp_path / "index")

    with pytest.raises(StorageError, match="the index names rows that do not exist among 600: rebuild it"):
        read_index(tmp_path / "index", vectors.shape, vectors, IndexOptions(factory="IVF8,Flat")).search(vectors[:3], 5)
