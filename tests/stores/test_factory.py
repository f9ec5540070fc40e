"""A factory string that no index can have is one sentence, and so are values that codes cannot hold."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore, IndexOptions

WRONG = [
    "PQ4x4fs_0",
    "PQ4x4fs_33",
    "IVF2,PQ4x4fsr_0",
    "PCA99999999,Flat",
    "OPQ1000000,PQ4",
    "IVF50000000,Flat",
    "IVF99999999999999999999,Flat",
    "HNSW1000000",
    "RR100000,Flat",
    "IVF301,Flat",
    "PQ4x9",
    "PCA64,Flat",
    "OPQ4_8,PQ4x9",
    "SQ8,SQ8,SQ8",
]


@pytest.mark.parametrize("factory", WRONG)
def test_a_factory_with_numbers_that_nobody_means_is_refused(factory):
    features = np.random.default_rng(0).normal(size=(300, 16))

    with pytest.raises(InvalidInputError, match=r"got |faiss cannot build .* from 300 rows .*such as"):
        Datastore.build(features, np.zeros(300, int), index=factory)


@pytest.mark.parametrize("factory", ["PQ2x2", "PQ2x1"])
def test_an_index_that_faiss_builds_but_cannot_search_is_refused(factory):
    features = np.random.default_rng(0).normal(size=(300, 4))

    with pytest.raises(InvalidInputError, match=f"faiss cannot build '{factory}' .*: choose other codes or"):
        Datastore.build(features, np.zeros(300, int), index=factory)


def test_as_many_lists_as_a_billion_rows_need_are_allowed():
    assert IndexOptions(factory="PCA64,IVF1048576,SQ8").factory == "PCA64,IVF1048576,SQ8"


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
