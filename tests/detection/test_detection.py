"""Every detector: known answers, and what all of them must keep. To register is to be tested."""

import math
from dataclasses import replace

import numpy as np
import pytest

import reference
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.familiarity import Familiarity
from knn_ue.toy import two_blobs
from knn_ue.types import Outputs
from knn_ue_lab.detection import (
    DETECTORS,
    Energy,
    FamiliarityDetector,
    MahalanobisPlus,
    MaxLogit,
    NearestNeighbor,
    VirtualLogit,
)


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
    with pytest.raises(NotFittedError, match=r"is not fitted: call fit\(train\) first"):
        DETECTORS[name]().score(blobs[1])


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_cannot_be_fitted_on_no_rows(name, blobs):
    with pytest.raises(InvalidInputError, match=r"the training Outputs given to \w+ is empty: at least one row"):
        DETECTORS[name]().fit(blobs[0].take([]))


@pytest.mark.parametrize("name", DETECTORS)
def test_no_rows_have_no_scores(name, blobs):
    train, test, _ = blobs

    assert DETECTORS[name]().fit(train).score(test.take([])).shape == (0,)


@pytest.mark.parametrize("name", DETECTORS)
def test_outputs_of_another_width_are_refused(name, blobs):
    train, test, _ = blobs
    detector = DETECTORS[name]().fit(train)
    wider = replace(test, features=np.repeat(test.features, 2, axis=1))
    narrower = replace(test, features=test.features[:, :1])

    for other, n_columns in ((wider, 4), (narrower, 1)):
        with pytest.raises(InvalidInputError, match=f"2 feature columns, these Outputs have {n_columns}: use outputs"):
            detector.score(other)


@pytest.mark.parametrize("name", DETECTORS)
def test_outputs_with_more_classes_are_refused(name, blobs):
    train, test, _ = blobs
    detector = DETECTORS[name]().fit(train)
    other = Outputs(logits=np.zeros((len(test), 3)), features=test.features)

    with pytest.raises(InvalidInputError, match="was fitted on 2 classes, these Outputs have 3: use outputs of"):
        detector.score(other)


@pytest.mark.parametrize("name", ["nearest-neighbor", "mahalanobis++", "vim", "familiarity"])
def test_a_detector_that_reads_features_asks_for_them(name, blobs):
    train, test, _ = blobs
    bare = Outputs(logits=test.logits, labels=test.labels)

    with pytest.raises(InvalidInputError, match="needs features, but these Outputs have none"):
        DETECTORS[name]().fit(bare)
    with pytest.raises(InvalidInputError, match="needs features, but these Outputs have none"):
        DETECTORS[name]().fit(train).score(bare)


def test_features_that_are_no_numbers_never_reach_a_detector(blobs):
    broken = np.array(blobs[1].features)
    broken[3, 1] = np.nan

    with pytest.raises(InvalidInputError, match="features"):
        replace(blobs[1], features=broken)


@pytest.fixture(scope="module")
def correlated():
    """Rows in five correlated columns, three classes, every row with logits of its own."""
    rng = np.random.default_rng(7)
    mixing = rng.normal(size=(5, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    labels = np.arange(60) % 3
    features = rng.normal(size=(60, 5)) @ mixing.T + np.eye(3, 5)[labels] * 4 + 1.0
    train = Outputs(logits=rng.normal(size=(60, 3)) * 3, features=features, labels=labels)
    asked = Outputs(logits=rng.normal(size=(8, 3)) * 3, features=rng.normal(size=(8, 5)) * 5)
    return train, asked


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


def test_the_nearest_neighbor_is_that_of_brute_force(correlated):
    train, asked = correlated
    units, queries = ([reference.unit_length(row) for row in part.features.tolist()] for part in (train, asked))

    _, expected = reference.brute_force(units, queries, 4)

    found = NearestNeighbor(n_neighbors=4).fit(train).score(asked)
    np.testing.assert_allclose(found, [-row[-1] for row in expected], rtol=1e-5)


def test_mahalanobis_plus_is_the_slow_one(correlated):
    train, asked = correlated

    expected = reference.mahalanobis_plus(train.features.tolist(), train.labels.tolist(), asked.features.tolist())

    np.testing.assert_allclose(MahalanobisPlus().fit(train).score(asked), expected, rtol=1e-4)


def test_vim_is_the_slow_one(correlated):
    train, asked = correlated

    expected = reference.virtual_logit(
        train.logits.tolist(), train.features.tolist(), asked.logits.tolist(), asked.features.tolist()
    )

    np.testing.assert_allclose(VirtualLogit().fit(train).score(asked), expected, rtol=1e-5)


def test_familiarity_is_minus_the_slow_unusualness(correlated):
    train, asked = correlated

    expected = reference.unusualness(train.features[:, None], asked.features[:, None])

    np.testing.assert_allclose(FamiliarityDetector().fit(train).score(asked), np.negative(expected), rtol=1e-4)


def test_the_familiarity_detector_has_the_order_of_p_values(blobs):
    train, test, far = blobs
    rows = [test.take(slice(0, 100)), far.take(slice(0, 100))]
    familiarity, detector = Familiarity(train).fit(test.take(slice(100, None))), FamiliarityDetector().fit(train)

    scores = np.concatenate([detector.score(part) for part in rows])
    p_values = np.concatenate([familiarity.p_value(part) for part in rows])

    assert (np.diff(p_values[np.argsort(scores)]) >= 0).all()


def test_vim_takes_off_what_the_principal_directions_leave_over():
    rng = np.random.default_rng(0)
    flat = np.column_stack([rng.normal(size=500) * 3, rng.normal(size=500) * 0.1])
    train = Outputs(logits=np.tile([1.0, 0.0], (500, 1)), features=flat, labels=np.zeros(500, dtype=int))
    detector = VirtualLogit().fit(train)
    off = Outputs(logits=[[1.0, 0.0]] * 2, features=[[2.0, 0.0], [0.0, 2.0]])

    inside, outside = detector.score(off)
    factor = 1.0 / np.abs(flat[:, 1] - flat[:, 1].mean()).mean()
    assert inside - outside == pytest.approx(2.0 * factor, rel=0.1)
