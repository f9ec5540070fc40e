"""One search of the validation rows gives each part of a fit the numbers of a search of its own."""

import numpy as np
import pytest

from knn_ue.calibrators import KnnUE
from knn_ue.decisions import RiskThreshold
from knn_ue.pipeline.answers import scored_answers
from knn_ue.pipeline.fitted import drift_quantiles
from knn_ue.pipeline.fitting import fit_outputs
from knn_ue.stores import Datastore, IndexOptions

INDEXES = [
    "exact",
    IndexOptions(factory="IVF16,Flat", n_probe=2),
    IndexOptions(factory="PCA2,SQ8", recompute=False),  # rounds its distances by the batch
]


@pytest.fixture(params=INDEXES, ids=str)
def parts(request, hard_toy):
    train, validation, _, _ = hard_toy
    store = Datastore.build(train.features, train.labels, index=request.param)
    held_out = np.random.default_rng(0).random(len(validation)) < 0.5
    return KnnUE(store, n_neighbors=8), validation, held_out


def test_the_fit_is_that_of_the_rows_that_are_not_held_out(parts):
    calibrator, validation, held_out = parts
    alone = KnnUE(calibrator.store, n_neighbors=8).fit(validation.take(~held_out))

    fit_outputs("knn-ue", calibrator, validation, held_out, [RiskThreshold(target_risk=0.5, delta=0.1)])

    assert (calibrator.params_, calibrator.typical_) == (alone.params_, alone.typical_)


def test_the_threshold_is_one_of_the_scores_of_the_rows_held_out(parts):
    calibrator, validation, held_out = parts

    fitted = fit_outputs("knn-ue", calibrator, validation, held_out, [RiskThreshold(target_risk=0.5, delta=0.1)])

    confidence, _ = scored_answers(validation.take(held_out), calibrator)
    assert fitted.threshold.threshold in confidence


def test_the_percentiles_of_drift_are_those_of_all_rows(parts):
    calibrator, validation, held_out = parts

    fitted = fit_outputs("knn-ue", calibrator, validation, held_out, [])

    alone = drift_quantiles(calibrator, validation)
    np.testing.assert_array_equal(fitted.drift.distance, alone.distance)
    np.testing.assert_array_equal(fitted.drift.agreement, alone.agreement)


@pytest.mark.parametrize("index", INDEXES[:2], ids=str)
def test_a_part_of_a_search_is_the_search_of_a_part(index, hard_toy):
    train, validation, _, _ = hard_toy
    store = Datastore.build(train.features, train.labels, index=index)
    rows = np.random.default_rng(1).random(len(validation)) < 0.3

    part, alone = store.search(validation.features, 8).take(rows), store.search(validation.features[rows], 8)

    np.testing.assert_array_equal(part.ids, alone.ids)
    np.testing.assert_array_equal(part.distances, alone.distances)
    np.testing.assert_array_equal(part.labels, alone.labels)
