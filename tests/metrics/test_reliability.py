"""Bins: where their edges lie, and what falls into them."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.metrics import reliability_bins


def test_equal_width_bins_count_every_row_once() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(100_000)

    bins = reliability_bins(confidence=confidence, correct=confidence > 0.3, n_bins=7)

    np.testing.assert_array_equal(bins.count, np.histogram(confidence, bins=bins.edges)[0])


@pytest.mark.parametrize("n_bins", [1, 3, 7, 10, 15, 49, 1000])
def test_a_confidence_on_an_edge_belongs_to_the_bin_below(n_bins: int) -> None:
    edges = np.linspace(0, 1, n_bins + 1)

    bins = reliability_bins(confidence=edges[1:], correct=np.ones(n_bins), n_bins=n_bins)

    np.testing.assert_array_equal(bins.count, np.ones(n_bins))


@pytest.mark.parametrize("n_bins", [2, 3, 7, 10, 15, 49, 1000])
def test_a_confidence_just_above_an_edge_belongs_to_the_bin_above(n_bins: int) -> None:
    above = np.nextafter(np.linspace(0, 1, n_bins + 1)[:-1], 1)

    bins = reliability_bins(confidence=above, correct=np.ones(n_bins), n_bins=n_bins)

    np.testing.assert_array_equal(bins.count, np.ones(n_bins))


def test_confidence_exactly_zero_belongs_to_the_first_bin() -> None:
    bins = reliability_bins(confidence=[0.0, -0.0, 1.0], correct=[0, 0, 1], n_bins=10)

    assert bins.count.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_an_empty_bin_has_no_accuracy() -> None:
    bins = reliability_bins(confidence=[0.9], correct=[1], n_bins=2)

    assert np.isnan(bins.accuracy[0])


def test_an_empty_bin_has_no_gap() -> None:
    bins = reliability_bins(confidence=[0.9], correct=[1], n_bins=2)

    np.testing.assert_allclose(bins.gap, [0.0, 0.1])


def test_both_ways_of_calling_agree() -> None:
    probs = np.array([[0.7, 0.3], [0.1, 0.9], [0.5, 0.5]])

    by_probs = reliability_bins(probs=probs, labels=[0, 0, 0])
    by_confidence = reliability_bins(confidence=[0.7, 0.9, 0.5], correct=[True, False, True])

    np.testing.assert_array_equal(by_probs.accuracy, by_confidence.accuracy)


def test_equal_mass_bins_hold_equally_many_distinct_rows() -> None:
    confidence = np.random.default_rng(0).random(1000) ** 3

    bins = reliability_bins(confidence=confidence, correct=np.ones(1000), n_bins=8, binning="mass")

    assert bins.count.tolist() == [125] * 8


def test_equal_mass_bins_never_split_a_tie() -> None:
    bins = reliability_bins(confidence=[0.2, 0.5, 0.5, 0.5, 0.5, 0.9], correct=[1] * 6, n_bins=3, binning="mass")

    assert bins.count.tolist() == [5, 1]


def test_more_equal_mass_bins_than_rows_give_each_row_its_bin() -> None:
    bins = reliability_bins(confidence=[0.2, 0.5, 0.9], correct=[1] * 3, n_bins=10, binning="mass")

    assert bins.count.tolist() == [1, 1, 1]


def test_the_record_cannot_be_written_to() -> None:
    bins = reliability_bins(confidence=[0.9], correct=[1])

    with pytest.raises(ValueError, match="read-only"):
        bins.count[0] = 5


@pytest.mark.parametrize("n_bins", [0, -1, 2.5, True])
def test_n_bins_must_be_a_positive_whole_number(n_bins: object) -> None:
    with pytest.raises(InvalidInputError, match="n_bins must be a whole number of at least 1"):
        reliability_bins(confidence=[0.9], correct=[1], n_bins=n_bins)


def test_an_unknown_binning_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="binning must be one of 'width', 'mass', got 'equal'"):
        reliability_bins(confidence=[0.9], correct=[1], binning="equal")
