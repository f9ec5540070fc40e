"""A store built from chunks equals one built at once, in bounded memory, and is never half-written."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from held import fitted_in
from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore, IndexOptions

IVF = IndexOptions(factory="IVF8,Flat", n_probe=8)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(500, 9)).astype(np.float32), rng.integers(4, size=500), [f"é {n}" for n in range(500)]


def chunked(rows, cuts=(1, 200, 200, 431), n_parts=3):
    return zip(*(np.split(np.array(part), cuts) for part in rows[:n_parts]), strict=True)


@pytest.mark.parametrize("normalize", ["none", "l2", "standardize"])
@pytest.mark.parametrize("index", ["exact", IVF])
def test_it_equals_a_store_built_at_once(rows, index, normalize, tmp_path):
    store = Datastore.build_from_chunks(tmp_path / "store", chunked(rows), index=index, normalize=normalize)

    expected = Datastore.build(rows[0], rows[1], texts=rows[2], index=index, normalize=normalize)
    found, wanted = store.search(rows[0][:40], 7), expected.search(rows[0][:40], 7)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-6)
    assert store.texts_of(store.ids) == rows[2]
    assert store.path == tmp_path / "store"
    assert store.add(rows[0][:1], [0]).tolist() == [500]


def test_it_can_do_without_texts_and_without_vectors(rows, tmp_path):
    options = IndexOptions(factory="PCA8,PQ4x4", recompute=False)
    store = Datastore.build_from_chunks(tmp_path / "store", chunked(rows, n_parts=2), index=options, keep_vectors=False)

    assert store.search(rows[0][:5], 3).approximate
    assert store.texts_of([0, 499]) == [None, None]
    assert sum(entry.stat().st_size for entry in fitted_in(tmp_path / "store").iterdir()) < rows[0].nbytes + 9000


def test_the_index_is_trained_on_as_many_random_rows_as_said(rows, tmp_path, monkeypatch):
    import faiss

    seen = []
    original = faiss.IndexIVFFlat.train
    monkeypatch.setattr(faiss.IndexIVFFlat, "train", lambda self, x: (seen.append(np.array(x)), original(self, x))[1])

    for seed in (0, 0, 1):
        path = tmp_path / f"store{len(seen)}"
        Datastore.build_from_chunks(path, chunked(rows), index=IVF, train_rows=100, seed=seed)

    assert [sample.shape for sample in seen] == [(100, 9)] * 3
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


def test_too_few_rows_to_train_on_are_told_as_such(rows, tmp_path):
    with pytest.raises(InvalidInputError, match=r"cannot build 'IVF.*' from 2 rows .*: raise train_rows or choose"):
        Datastore.build_from_chunks(tmp_path / "store", chunked(rows), index=IVF, train_rows=2)

    assert not (tmp_path / "store").exists()


def test_progress_is_told_what_is_read_and_indexed(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.stores.faiss_index._ADD_ROWS", 300)
    told = []

    Datastore.build_from_chunks(tmp_path / "s", chunked(rows), index=IVF, progress=lambda *step: told.append(step))

    assert told[:5] == [("read", n, None) for n in (1, 200, 200, 431, 500)]
    assert told[5:] == [("index", 300, 500), ("index", 500, 500)]


def test_what_progress_raises_is_not_mistaken_for_an_error_of_faiss(rows, tmp_path):
    def stop(what, *_):
        if what == "index":
            raise RuntimeError("stopped by the user")

    with pytest.raises(RuntimeError, match="stopped by the user"):
        Datastore.build_from_chunks(tmp_path / "store", chunked(rows), index=IVF, progress=stop)

    assert not (tmp_path / "store").exists()


BAD_CHUNKS = {
    "no chunk": ([], "chunks is empty"),
    "a list": ([[1, 2]], "a chunk must be a tuple"),
    "other columns": ([(np.ones((2, 3)), [0, 0]), (np.ones((2, 4)), [0, 0])], "every chunk must have 3 columns"),
    "too few labels": ([(np.ones((2, 3)), [0])], "labels has 1 rows but 2 are expected"),
    "too few texts": ([(np.ones((2, 3)), [0, 0], ["a"])], "texts has 1 rows but 2 are expected"),
    "not finite": ([(np.full((2, 3), np.nan), [0, 0])], "features must be finite"),
    "too long": ([(np.full((2, 3), 1e30), [0, 0])], "features must have lengths between"),
}


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_a_chunk_that_breaks_a_rule_says_which_and_leaves_no_folder(name, tmp_path):
    chunks, words = BAD_CHUNKS[name]

    with pytest.raises(InvalidInputError, match=words):
        Datastore.build_from_chunks(tmp_path / "store", chunks)

    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_rows": 0}, "train_rows must be a whole number of at least 1"),
        ({"normalize": "l3"}, "normalize must be one of"),
        ({"keep_vectors": False}, "without vectors exact distances cannot be computed"),
    ],
)
def test_options_that_break_a_rule_are_refused_before_a_chunk_is_read(options, words, tmp_path):
    def chunks():
        raise AssertionError("a chunk was read")
        yield

    with pytest.raises(InvalidInputError, match=words):
        Datastore.build_from_chunks(tmp_path / "store", chunks(), **options)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("Nonsense", "must be .* a faiss factory string for 4 columns, got 'Nonsense'"),
        ("PQ3", "multiple of the number of subquantizers"),
        ("LSH", "a faiss IndexLSH cannot be saved"),
        (IndexOptions(n_probe=2), "n_probe=2 has no effect on an exact index"),
        (IndexOptions(factory="SQ8", n_probe=2), "n_probe=2 has no effect on 'SQ8'"),
    ],
    ids=str,
)
def test_an_index_that_breaks_a_rule_is_refused_by_the_first_chunk(index, words, tmp_path):
    def chunks():
        yield np.ones((2, 4)), [0, 0]
        raise AssertionError("a second chunk was read")

    with pytest.raises(InvalidInputError, match=words):
        Datastore.build_from_chunks(tmp_path / "store", chunks(), index=index)

    assert not (tmp_path / "store").exists()


KILLED = """
import os, signal, sys
import numpy as np
from knn_ue.stores import Datastore
def progress(what, done, total):
    if what == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
chunks = ((np.random.default_rng(n).normal(size=(50, 4)), np.zeros(50, int)) for n in range(4))
Datastore.build_from_chunks(sys.argv[1], chunks, index="IVF4,Flat", progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["read", "index"])
def test_a_builder_that_is_killed_leaves_what_was_there(when, saved):
    before = sorted(entry.name for entry in saved.iterdir())

    done = subprocess.run([sys.executable, "-c", KILLED, str(saved), when], check=False)

    assert done.returncode == -signal.SIGKILL
    assert sorted(entry.name for entry in saved.iterdir()) == before
    assert len(Datastore.load(saved)) == 4


MEASURED = """
import sys
import faiss
import numpy as np
from knn_ue.stores import Datastore, IndexOptions
def own_memory(*_):
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    peak.append(int(line.split()[1]) / 1024)
def chunks():
    for n in range(40):
        own_memory()
        yield np.random.default_rng(n).standard_normal((2500, 256), dtype=np.float32), np.zeros(2500, int)
peak = []
own_memory()
options = IndexOptions(factory="PCA16,PQ8x4fs", recompute=False)
Datastore.build_from_chunks(sys.argv[1], chunks(), index=options, train_rows=4000, progress=own_memory)
own_memory()
print(max(peak) - peak[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")  # noqa: PTH110
def test_memory_does_not_grow_with_the_store(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "store")],
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        capture_output=True,
        text=True,
        check=True,
    )

    megabytes_of_vectors = 100_000 * 256 * 4 / 2**20
    assert float(done.stdout) < 0.5 * megabytes_of_vectors
