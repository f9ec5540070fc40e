"""What later inputs are compared with: how near and how agreeing the neighbors of the validation rows are."""

import numpy as np

from knn_ue.calibrators import KnnUE, TemperatureScaling
from knn_ue.pipeline.fitted import drift_quantiles
from knn_ue.stores import Datastore, IndexOptions


def test_neighbors_that_an_index_did_not_find_leave_no_undefined_number(toy):
    train, validation, _ = toy
    store = Datastore.build(train.features, train.labels, index=IndexOptions(factory="IVF32,Flat", n_probe=1))
    assert (store.search(validation.features, 32).ids < 0).any()

    found = drift_quantiles(KnnUE(store, n_neighbors=32).fit(validation), validation)

    assert np.isfinite(found.distance).all()


def test_a_method_without_neighbors_has_none(toy):
    _, validation, _ = toy

    assert drift_quantiles(TemperatureScaling().fit(validation), validation) is None
