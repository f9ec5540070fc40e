"""Generalized risk, smooth calibration, parts of proper scores and PIECE: against slow versions and known answers."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

import reference
from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.metrics.weights import Draws, value_of_each_draw

ROWS = st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.8, 1.0]), st.booleans()), min_size=1, max_size=9)
METRICS = (
    metrics.augrc,
    metrics.risk_at_coverage,
    metrics.coverage_at_risk,
    metrics.smooth_calibration_error,
    metrics.brier_calibration,
    metrics.brier_refinement,
    metrics.nll_calibration,
    metrics.nll_refinement,
)
PIECE = metrics.proximity_informed_calibration_error


def columns(rows):
    confidence, correct = zip(*rows, strict=True)
    return {"confidence": np.array(confidence), "correct": np.array(correct)}


def calibrated_rows(n_rows, seed, *, too_sure=0.0):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1.0, n_rows)
    return {"confidence": confidence, "correct": rng.random(n_rows) < confidence - too_sure}


@given(ROWS)
def test_augrc_is_the_mean_generalized_risk_with_ties_averaged(rows):
    data = columns(rows)

    assert metrics.augrc(**data) == pytest.approx(reference.augrc(*zip(*rows, strict=True)), abs=1e-12)


def test_augrc_follows_its_closed_form():
    data = calibrated_rows(500, 0)
    right = data["correct"].mean()

    expected = (1 - metrics.auroc(**data)) * right * (1 - right) + (1 - right) ** 2 / 2
    assert metrics.augrc(**data) == pytest.approx(expected)


@given(ROWS, st.sampled_from([0.2, 0.5, 0.8, 1.0]))
def test_risk_at_coverage_and_coverage_at_risk_equal_loops(rows, share):
    data = columns(rows)
    confidence, correct = zip(*rows, strict=True)

    assert metrics.risk_at_coverage(**data, coverage=share) == pytest.approx(
        reference.risk_at_coverage(confidence, correct, share)
    )
    assert metrics.coverage_at_risk(**data, risk=share) == pytest.approx(
        reference.coverage_at_risk(confidence, correct, share)
    )


@pytest.mark.parametrize("too_sure", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("n_rows", [50, 2000])
def test_smooth_ece_is_that_of_the_authors(n_rows, too_sure):
    relplot = pytest.importorskip("relplot")
    data = calibrated_rows(n_rows, 1, too_sure=too_sure)

    expected = relplot.smECE(data["confidence"], data["correct"].astype(float))
    assert metrics.smooth_calibration_error(**data) == pytest.approx(expected, abs=2e-4)


def test_smooth_ece_falls_to_nothing_on_calibrated_answers_and_shows_a_shift():
    assert metrics.smooth_calibration_error(**calibrated_rows(50_000, 2)) < 0.01
    assert metrics.smooth_calibration_error(**calibrated_rows(50_000, 2, too_sure=0.2)) == pytest.approx(0.2, abs=0.02)


@given(ROWS)
def test_the_parts_of_a_score_sum_to_it_and_none_is_negative(rows):
    data = columns(rows)

    brier = metrics.brier_calibration(**data) + metrics.brier_refinement(**data)
    assert brier == pytest.approx(metrics.brier_top_label(**data), abs=1e-12)
    nll = metrics.nll_calibration(**data) + metrics.nll_refinement(**data)
    assert nll == pytest.approx(metrics.nll_top_label(**data), abs=1e-12)
    for metric in METRICS[4:]:
        assert metric(**data) >= 0
    assert metrics.brier_refinement(**data) == pytest.approx(
        reference.brier_refinement(*zip(*rows, strict=True)), abs=1e-12
    )


def test_the_refinement_does_not_see_a_rising_map_of_the_confidence():
    data = calibrated_rows(300, 3)
    bent = data | {"confidence": data["confidence"] ** 3}

    for metric in (metrics.brier_refinement, metrics.nll_refinement):
        assert metric(**bent) == pytest.approx(metric(**data))
    assert metrics.brier_calibration(**bent) > metrics.brier_calibration(**data)


def test_the_nll_of_the_answer_is_that_of_scikit_learn_of_right_and_wrong():
    data = calibrated_rows(200, 4)

    assert metrics.nll_top_label(**data) == pytest.approx(log_loss(data["correct"], data["confidence"]))


def test_with_two_classes_the_nll_of_the_answer_is_the_nll():
    rng = np.random.default_rng(0)
    known = {"probs": rng.dirichlet([1.0, 1.0], 50), "labels": rng.integers(2, size=50)}

    assert metrics.nll_top_label(**known) == pytest.approx(metrics.negative_log_likelihood(**known))


def test_a_certain_mistake_costs_what_the_floor_says():
    total = metrics.nll_calibration(confidence=[1.0], correct=[False])

    assert total == pytest.approx(-math.log(np.finfo(float).tiny))


def test_piece_shows_errors_that_cancel_between_near_and_far_rows():
    data = {"confidence": np.full(200, 0.75), "correct": np.repeat([True, False], 100)}
    near_first = np.linspace(1.0, 0.0, 200)

    assert metrics.expected_calibration_error(**data) == pytest.approx(0.25)
    found = metrics.proximity_informed_calibration_error(**data, proximity=near_first, n_bins=2)
    assert found == pytest.approx((0.25 + 0.75) / 2)


@given(ROWS, st.data())
def test_piece_equals_loops_and_is_never_below_ece(rows, data):
    arrays = columns(rows)
    nearness = data.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))

    found = metrics.proximity_informed_calibration_error(**arrays, proximity=np.array(nearness), n_bins=5)
    assert found == pytest.approx(reference.piece(*zip(*rows, strict=True), nearness, 5), abs=1e-12)
    assert found >= metrics.expected_calibration_error(**arrays, n_bins=5) - 1e-12


def test_piece_without_weights_stays_what_committed_results_hold():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.4, 1.0, 500)
    data = {"confidence": confidence, "correct": rng.random(500) < confidence - 0.1, "proximity": rng.random(500)}

    assert PIECE(**data) == pytest.approx(0.1429014234491565, abs=1e-14)
    assert PIECE(**data | {"proximity": data["proximity"].round(1)}) == pytest.approx(0.16135063534220503, abs=1e-14)


@st.composite
def weighted_rows(draw):
    rows = draw(ROWS)
    weights = draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)).filter(any))
    near = draw(
        st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]) | st.floats(0, 1), min_size=len(rows), max_size=len(rows))
    )
    return columns(rows) | {"proximity": np.array(near)}, np.array(weights)


@given(weighted_rows(), st.sampled_from([2, 3, 5, 10]))
def test_piece_of_whole_weights_is_that_of_repeated_rows(given_rows, n_bins):
    data, weights = given_rows
    repeated = {name: np.repeat(values, weights) for name, values in data.items()}

    found = PIECE(**data, n_bins=n_bins, sample_weight=weights)

    assert found == pytest.approx(PIECE(**repeated, n_bins=n_bins), abs=1e-12)


@pytest.mark.parametrize("share", [0.01, 1 / 3, 0.1, 1.0])
@given(weighted_rows())
def test_piece_of_equal_weights_up_to_one_is_that_without(share, given_rows):
    data, weights = given_rows

    found = PIECE(**data, n_bins=5, sample_weight=np.full(len(weights), share))

    # Rows of equal proximity are one step of the order, so that splitting a row changes nothing.
    if len(np.unique(data["proximity"])) == len(weights):
        assert found == pytest.approx(PIECE(**data, n_bins=5), abs=1e-9)


@given(weighted_rows())
def test_piece_stays_where_a_row_is_split_into_two_that_share_its_weight(given_rows):
    data, weights = given_rows
    uneven = 0.3 * weights
    twice = {name: np.append(values, values[:1]) for name, values in data.items()}
    split = np.append(np.append(0.25 * uneven[:1], uneven[1:]), 0.75 * uneven[:1])

    found = PIECE(**twice, n_bins=5, sample_weight=split)

    assert found == pytest.approx(PIECE(**data, n_bins=5, sample_weight=uneven), abs=1e-9)


def test_large_weights_need_no_memory():
    data = {"confidence": [0.9, 0.8, 0.7], "correct": [True, False, True], "proximity": [0.1, 0.2, 0.3]}

    assert PIECE(**data, sample_weight=[10**15] * 3) == pytest.approx(PIECE(**data))


@pytest.mark.parametrize("metric", [*METRICS, PIECE], ids=lambda metric: metric.__name__)
def test_a_weight_of_two_is_the_row_twice_and_draws_are_columns(metric):
    rng = np.random.default_rng(0)
    data = {"confidence": rng.choice([0.5, 0.6, 0.7, 0.9], 30), "correct": rng.random(30) < 0.7}
    if metric is PIECE:
        data["proximity"] = rng.random(30)
    counts = rng.integers(0, 3, size=(30, 4)).astype(float)

    repeated = [
        metric(**{name: np.repeat(values, column.astype(int)) for name, values in data.items()}) for column in counts.T
    ]
    np.testing.assert_allclose([metric(**data, sample_weight=column) for column in counts.T], repeated, atol=1e-9)
    np.testing.assert_allclose(value_of_each_draw(metric, **data, sample_weight=Draws(counts)), repeated, atol=1e-9)


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, "80%", "0.8", None, True, [0.8]], ids=repr)
def test_what_is_no_share_is_refused_in_one_sentence(value):
    rule = "must be a number from 0 to 1, got " + re.escape(repr(value)) + ": pass 0.8 for 80 %"

    with pytest.raises(InvalidInputError, match=f"^coverage {rule}$"):
        metrics.risk_at_coverage(confidence=[0.5], correct=[True], coverage=value)
    with pytest.raises(InvalidInputError, match=f"^risk {rule.replace('0.8 for 80', '0.05 for 5')}$"):
        metrics.coverage_at_risk(confidence=[0.5], correct=[True], risk=value)


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.array(0.5)], ids=repr)
def test_numbers_of_any_kind_are_shares(value):
    assert metrics.risk_at_coverage(confidence=[0.5], correct=[True], coverage=value) == 0.0
