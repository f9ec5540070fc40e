"""Every detector: known answers, and what all of them must keep. To register is to be tested."""

import math
from dataclasses import replace

import numpy as np
import pytest

from knn_ue.detection import DETECTORS, Energy, MahalanobisPlus, MaxLogit, NearestNeighbor, VirtualLogit
from knn_ue.errors import NotFittedError
from knn_ue.toy import two_blobs
from knn_ue.types import Outputs


@pytest.fixture(scope="module")
def blobs():
    train, _, test = (replace(part, layers=None) for part in two_blobs(seed=0))
    far = Outputs(logits=test.logits - 10.0, features=np.abs(test.features) * [1.0, -1.0] + [50.0, -80.0])
    return train, test, far


@pytest.mark.parametrize("name", DETECTORS)
def test_rows_far_off_score_lower(name, blobs):
    train, test, far = blobs
    detector = DETECTORS[name]().fit(train)

    assert np.median(detector.score(far)) < np.median(detector.score(test))


@pytest.mark.parametrize("name", DETECTORS)
def test_the_order_of_rows_does_not_matter(name, blobs):
    train, test, _ = blobs
    detector = DETECTORS[name]().fit(train)
    order = np.random.default_rng(0).permutation(len(test))

    np.testing.assert_allclose(detector.score(test.take(order)), detector.score(test)[order], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", DETECTORS)
def test_an_unfitted_detector_says_so(name, blobs):
    with pytest.raises(NotFittedError):
        DETECTORS[name]().score(blobs[1])


def test_energy_and_largest_logit_follow_their_formulas():
    rows = Outputs(logits=[[1.0, 2.0, -1.0], [700.0, 0.0, 0.0]])

    expected = [math.log(math.exp(1) + math.exp(2) + math.exp(-1)), 700.0]
    np.testing.assert_allclose(Energy().fit(rows).score(rows), expected, rtol=1e-6)
    np.testing.assert_allclose(MaxLogit().fit(rows).score(rows), [2.0, 700.0])


def test_the_nearest_neighbor_is_that_of_directions():
    train = Outputs(logits=np.zeros((3, 2)), features=[[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0]], labels=[0, 1, 0])
    asked = Outputs(logits=np.zeros((1, 2)), features=[[0.3, 0.0]])

    assert NearestNeighbor(n_neighbors=1).fit(train).score(asked)[0] == pytest.approx(0.0, abs=1e-6)
    assert NearestNeighbor(n_neighbors=2).fit(train).score(asked)[0] == pytest.approx(-math.sqrt(2), rel=1e-6)


def test_mahalanobis_plus_does_not_see_the_length_of_features(blobs):
    train, test, _ = blobs
    longer = Outputs(logits=test.logits, features=7.0 * test.features)

    detector = MahalanobisPlus().fit(train)
    np.testing.assert_allclose(detector.score(longer), detector.score(test), rtol=1e-4)


def test_vim_takes_off_what_the_principal_directions_leave_over():
    rng = np.random.default_rng(0)
    flat = np.column_stack([rng.normal(size=500) * 3, rng.normal(size=500) * 0.1])
    train = Outputs(logits=np.tile([1.0, 0.0], (500, 1)), features=flat, labels=np.zeros(500, dtype=int))
    detector = VirtualLogit().fit(train)
    off = Outputs(logits=[[1.0, 0.0]] * 2, features=[[2.0, 0.0], [0.0, 2.0]])

    inside, outside = detector.score(off)
    factor = 1.0 / np.abs(flat[:, 1] - flat[:, 1].mean()).mean()
    assert inside - outside == pytest.approx(2.0 * factor, rel=0.1)
