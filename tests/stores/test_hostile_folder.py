"""A store whose checksums are right and whose content is hostile gives one StorageError: no other error, no crash."""

import json
import random
import shutil
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from held import fitted_in, forge, forge_arrays, forge_state, seal
from knn_ue.errors import StorageError
from knn_ue.folder.changes import transaction
from knn_ue.stores import Datastore


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with vectors, texts, a normalization, an index, and rows that were added and removed."""
    path = tmp_path_factory.mktemp("hostile") / "store"
    rng = np.random.default_rng(0)
    features, texts = rng.normal(size=(60, 4)), [f"text {n}" for n in range(60)]
    Datastore.build(features, rng.integers(3, size=60), texts=texts, index="IVF4,Flat", normalize="standardize").save(
        path
    )
    store = Datastore.load(path)
    store.add(features[:3], [1, 2, 0], texts=["a", "b", "c"])
    store.remove([1, 61])
    return path


@pytest.fixture
def folder(template, tmp_path):
    return shutil.copytree(template, tmp_path / "store")


def arrays_of(folder):
    return fitted_in(folder) / "arrays.safetensors"


def index_of(folder):
    return fitted_in(folder) / "index.faiss"


def is_refused(folder):
    """Open and use the folder; True if it is refused with a StorageError, False if it works; else the test fails."""
    try:
        store = Datastore.load(folder)
        store.search(np.ones((2, store.n_columns)), 3)
        store.texts_of(store.ids)
    except StorageError as error:
        assert len(str(error)) < 1000
        return True
    return False


def test_arrays_and_index_swapped_are_refused(folder):
    arrays, index = arrays_of(folder).read_bytes(), index_of(folder).read_bytes()
    arrays_of(folder).write_bytes(index)
    index_of(folder).write_bytes(arrays)

    assert is_refused(folder)
    seal(folder)
    assert is_refused(folder)


ARRAYS = {
    "vectors with NaN": {"vectors": np.full((60, 4), np.nan, np.float32)},
    "vectors with infinity": {"vectors": np.full((60, 4), np.inf, np.float32)},
    "vectors too long": {"vectors": np.full((60, 4), 1e30, np.float32)},
    "vectors of float64": {"vectors": np.zeros((60, 4))},
    "vectors in one dimension": {"vectors": np.zeros(240, np.float32)},
    "vectors without columns": {"vectors": np.zeros((60, 0), np.float32)},
    "too few vectors": {"vectors": np.zeros((59, 4), np.float32)},
    "no vectors": {"vectors": None},
    "ids that fall": {"ids": np.arange(60)[::-1].copy()},
    "equal ids": {"ids": np.zeros(60, np.int64)},
    "negative ids": {"ids": np.arange(60) - 1},
    "ids beyond the next": {"ids": np.arange(60) + 1},
    "ids that wrap around": {"ids": np.array([0, *range(2**62, 2**62 + 58), 59])},
    "ids of float64": {"ids": np.arange(60.0)},
    "negative labels": {"labels": np.full(60, -1)},
    "labels beyond all classes": {"labels": np.full(60, 2**40)},
    "labels of uint8": {"labels": np.zeros(60, np.uint8)},
    "text ends that fall": {"text_ends": np.arange(60)[::-1].copy()},
    "text ends beyond the text": {"text_ends": np.full(60, 10**12)},
    "negative text ends": {"text_ends": np.full(60, -5)},
    "texts that are not UTF-8": {"text_content": np.full(500, 255, np.uint8)},
    "texts of another type": {"text_content": np.zeros(500, np.float32)},
    "too few texts": {"text_present": np.ones(59, bool)},
    "a mean that is NaN": {"normalize_mean": np.full(4, np.nan)},
    "a scale of zero": {"normalize_scale": np.zeros(4)},
    "a scale that is NaN": {"normalize_scale": np.full(4, np.nan)},
    "a mean for other columns": {"normalize_mean": np.zeros(5)},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_contradict_each_other_are_refused_though_checksums_agree(folder, name):
    forge_arrays(folder, **ARRAYS[name])

    assert is_refused(folder)


def test_an_unknown_array_is_harmless(folder):
    forge_arrays(folder, extra=np.zeros(3))

    assert not is_refused(folder)


GOOD_INDEX = {"factory": "IVF4,Flat", "n_probe": None, "ef_search": None, "refine_factor": 1, "recompute": True}
OPTIONS = {
    "an index that is a list": {"index": []},
    "an index without sense": {"index": {"shape": "round"}},
    "a factory that is a number": {"index": GOOD_INDEX | {"factory": 5}},
    "a factory that faiss dies of": {"index": GOOD_INDEX | {"factory": "HNSW0"}},
    "a negative n_probe": {"index": GOOD_INDEX | {"n_probe": -1}},
    "a huge n_probe": {"index": GOOD_INDEX | {"n_probe": 10**30}},
    "an ef_search for an IVF": {"index": GOOD_INDEX | {"ef_search": 5}},
    "an unknown normalization": {"normalize": "l3"},
    "a normalization that is a list": {"normalize": ["l2"]},
    "no normalization where arrays say so": {"normalize": "none"},
    "an option that nobody knows": {"strange": 1},
}
GROWS = {
    "a next id below the ids": {"next_id": 3},
    "a next id that is NaN": {"next_id": float("nan")},
    "a next id that is true": {"next_id": True},
    "a fractional next id": {"next_id": 60.5},
    "a next id beyond int64": {"next_id": 2**70},
    "a next id in words": {"next_id": "sixty"},
    "no next id": {"next_id": None},
    "a next id beyond what was added": {"next_id": 62},
    "columns that others have": {"n_columns": 5},
    "no columns": {"n_columns": 0},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_we_never_write_are_refused_though_checksums_agree(folder, name):
    forge_state(folder, **OPTIONS[name])

    assert is_refused(folder)


@pytest.mark.parametrize("name", GROWS)
def test_a_place_to_grow_that_we_never_write_is_refused_though_checksums_agree(folder, name):
    forge(folder, lambda parts: parts[""]["grows"].update(GROWS[name]))

    assert is_refused(folder)


def test_a_large_but_legal_n_probe_and_refine_factor_do_no_harm(folder):
    forge_state(folder, index=GOOD_INDEX | {"n_probe": 2**31 - 1, "refine_factor": 2**31 - 1})

    assert not is_refused(folder)


def test_an_index_over_other_rows_is_refused(folder, tmp_path):
    Datastore.build(np.eye(50), np.arange(50), index="IVF4,Flat").save(tmp_path / "other")
    shutil.copy(index_of(tmp_path / "other"), index_of(folder))
    seal(folder)

    with pytest.raises(StorageError, match=r"indexes 50 rows of 50, not \(60, 4\): it was replaced"):
        Datastore.load(folder)


def test_a_kind_of_index_that_we_never_write_is_refused(folder):
    import faiss

    index = faiss.index_factory(4, "LSH")
    index.train(np.eye(4, dtype=np.float32))
    index.add(np.ones((60, 4), dtype=np.float32))
    faiss.write_index(index, str(index_of(folder)))
    seal(folder)

    with pytest.raises(StorageError, match="is not a faiss index written by knn-ue: do not trust this folder"):
        Datastore.load(folder)


def test_mutated_tensor_headers_with_right_checksums_are_refused_or_harmless(folder):
    target, rng = arrays_of(folder), random.Random(0)
    content = target.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")

    for _ in range(60):
        mutated = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            mutated[rng.randrange(header_end)] = rng.choice(b'0123456789{}[]",:-.eFI\x00\xff')
        target.write_bytes(mutated)
        seal(folder)
        is_refused(folder)


@pytest.mark.parametrize("length", [0, 1, 2**20 + 1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_header_length_that_lies_is_refused(folder, length):
    target = arrays_of(folder)
    target.write_bytes(struct.pack("<Q", length) + target.read_bytes()[8:])
    seal(folder)

    assert is_refused(folder)


@pytest.mark.parametrize(
    "header",
    [
        {"vectors": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**62]}},
        {"vectors": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
        {"vectors": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"vectors": [1, 2, 3]},
        {"vectors": None},
        {"__metadata__": {"a": 1}},
        [],
        "vectors",
    ],
    ids=str,
)
def test_a_tensor_header_that_lies_is_refused(folder, header):
    encoded = json.dumps(header).encode()
    arrays_of(folder).write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(4))
    seal(folder)

    assert is_refused(folder)


def test_a_deeply_nested_tensor_header_is_refused(folder):
    encoded = b'{"vectors":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    arrays_of(folder).write_bytes(struct.pack("<Q", len(encoded)) + encoded)
    seal(folder)

    assert is_refused(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=JSON)
def test_any_value_anywhere_in_a_sealed_table_of_contents_is_refused_or_harmless(template, tmp_path, data, value):
    folder = tmp_path / "store"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)

    def change(parts):
        place, key = parts, ""
        while isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
            place = place[key]
            key = data.draw(st.sampled_from(sorted(place)))
        place[key] = value

    forge(folder, change)

    is_refused(folder)


GOOD_ROW = {"labels": np.array([0]), "texts": ["a"], "vectors": np.ones((1, 4), np.float32)}
ROWS = {
    "a feature of NaN": {"vectors": np.full((1, 4), np.nan, np.float32)},
    "a feature that is infinite": {"vectors": np.full((1, 4), np.inf, np.float32)},
    "a vector too long to be squared": {"vectors": np.full((1, 4), 1e30, np.float32)},
    "a vector of another width": {"vectors": np.ones((1, 5), np.float32)},
    "a vector of float64": {"vectors": np.ones((1, 4))},
    "no vector": {"vectors": np.ones((1, 0), np.float32)},
    "a negative label": {"labels": np.array([-1])},
    "a label beyond all classes": {"labels": np.array([2**40])},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_sealed_row_that_add_would_refuse_is_refused(folder, name):
    with transaction(folder) as change:
        change.add(**(GOOD_ROW | ROWS[name]), first=0)

    assert is_refused(folder)


@pytest.mark.parametrize("number", [3, 59, 2**62 + 1])
def test_a_sealed_row_with_an_id_that_it_cannot_have_is_refused(folder, number):
    with transaction(folder) as change:
        change.insert(np.array([number]), **GOOD_ROW)

    assert is_refused(folder)


def test_a_sealed_removal_of_ids_that_do_not_exist_does_no_harm(folder):
    with transaction(folder) as change:
        change.remove(np.array([-5, 999, 2**62]))

    assert not is_refused(folder)
