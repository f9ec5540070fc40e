"""Numbers in a factory string that would end the process, never end or take all memory are one sentence instead."""

import json
import subprocess
import sys

import numpy as np
import pytest

from held import fitted_in, forge_state
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder.changes import transaction
from knn_ue.stores import Datastore, IndexOptions
from marks import slow_but

HOSTILE = [
    "PQ4x4fs_0",
    "PQ4x4fs_33",
    "PQ4x4fs_1000000000",
    "IVF2,PQ4x4fsr_0",
    "RR100000,Flat",
    "PCA99999999,Flat",
    "OPQ4_99999999,PQ4",
    "OPQ1000000,PQ4",
    "IVF50000000,Flat",
    "IVF99999999999999999999,Flat",
    "IVF2_HNSW1000000,Flat",
    "HNSW1000000",
    "PQ4x24",
    "IMI2x20,Flat",
    "NSG8",
    "SQ8," * 100,
]


@pytest.mark.parametrize("factory", HOSTILE)
def test_a_factory_with_numbers_that_nobody_means_is_refused(factory):
    with pytest.raises(InvalidInputError):
        IndexOptions(factory=factory)
        Datastore.build(np.eye(16), np.arange(16), index=factory)


@pytest.mark.parametrize("factory", ["RR1025,Flat", "OPQ1100,PQ4", "IVF301,Flat", "PQ4x9"])
def test_a_factory_that_does_not_fit_the_rows_is_refused_before_faiss_sees_it(factory, monkeypatch):
    monkeypatch.setattr("knn_ue.stores.faiss_index._untrained", None)
    features = np.random.default_rng(0).normal(size=(300, 16))

    with pytest.raises(InvalidInputError, match=r"faiss cannot build .* from 300 rows .*such as"):
        Datastore.build(features, np.zeros(300, int), index=factory)


def test_the_numbers_of_a_factory_do_not_depend_on_how_many_digits_they_have():
    with pytest.raises(InvalidInputError, match="lists after 'IVF' must be within 1 and 1048576"):
        IndexOptions(factory="IVF" + "9" * 100)


COMPACT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from knn_ue.errors import StorageError
from knn_ue.stores import Datastore
try:
    store = Datastore.load(sys.argv[1])
    store.remove([0])
    store.compact()
    print(len(store), "left")
except StorageError as error:
    print("refused:", error)
"""


def compact(folder):
    done = subprocess.run([sys.executable, "-c", COMPACT, str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout


@pytest.mark.parametrize(
    "factory", slow_but("PQ4x4fs_0", ["PQ4x4fs_0", "RR100000,Flat", "IVF50000000,Flat", "OPQ1000000,PQ4", "RQ4x8"])
)
def test_compacting_a_folder_with_a_hostile_factory_does_not_end_the_process(factory, tmp_path):
    Datastore.build(np.random.default_rng(0).normal(size=(64, 8)), np.zeros(64, int), index="IVF2,Flat").save(tmp_path)
    index = json.loads((fitted_in(tmp_path) / "fitted.json").read_text())["parts"][""]["state"]["index"]
    forge_state(tmp_path, index=index | {"factory": factory})

    assert compact(tmp_path).startswith("refused: ")


@pytest.mark.parametrize("normalize", ["none", "standardize"])
@pytest.mark.parametrize("value", [1e30, 3e38])
def test_added_rows_that_add_would_refuse_are_refused(value, normalize, tmp_path):
    features = np.random.default_rng(0).normal(size=(64, 8))
    Datastore.build(features, np.zeros(64, int), index="IVF2,Flat", normalize=normalize).save(tmp_path)
    with transaction(tmp_path) as change:
        change.add(np.zeros(2, int), ["a", "b"], np.full((2, 8), value, dtype=np.float32), first=64)

    with pytest.raises(StorageError, match="features must have lengths between"):
        Datastore.load(tmp_path)


# --- codes with a range of their own --------------------------------------------------------------------------------


def recall(store, features):
    found = store.search(features[:50], 10).ids
    exact = Datastore.build(features, np.zeros(len(features), int)).search(features[:50], 10).ids
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])


@pytest.mark.parametrize("factory", ["SQfp16", "HNSW8_SQfp16", "IVF4,SQfp16", "RR8,SQfp16", "SQ8_direct"])
def test_values_that_the_codes_cannot_hold_are_refused(factory):
    features = 1e5 * np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)

    with pytest.raises(InvalidInputError, match=r"holds values within .*: multiply all features by one constant"):
        Datastore.build(features, np.zeros(500, int), index=factory)


@pytest.mark.parametrize("factory", ["SQfp16", "IVF4,SQfp16", "RR8,SQfp16"])
def test_values_that_half_precision_holds_are_found(factory):
    features = 5e3 * np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    options = IndexOptions(factory=factory, n_probe=4 if "IVF" in factory else None)

    assert recall(Datastore.build(features, np.zeros(500, int), index=options), features) > 0.99


def test_a_store_that_outgrew_its_codes_is_compacted_to_an_exact_one():
    features = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    store = Datastore.build(features, np.zeros(500, int), index="SQfp16")
    store.add(1e6 * features, np.zeros(500, int))

    store.compact()

    assert recall(store, np.concatenate((features, 1e6 * features))) == 1.0
