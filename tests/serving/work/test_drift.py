"""Drift: shares, gaps and medians against slow versions, and when the alarm rings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.calibrators import KnnUE
from knn_ue.pipeline.fitted import closeness, drift_quantiles
from knn_ue.serving.work.drift import ENOUGH, DriftWindow
from knn_ue.stores import Datastore
from knn_ue.toy import pockets


@pytest.fixture(scope="module")
def problem():
    """Return the fitted percentiles and a function outputs -> (distance, agreement)."""
    train, validation, test, far_away = pockets(n_train=900, n_validation=600, n_test=500, n_out=300, seed=0)
    ue = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=16).fit(validation)

    def measure(outputs):
        return closeness(ue.store.search(outputs.features, 16), outputs.predicted)

    return drift_quantiles(ue, validation), measure, validation, test, far_away


def test_traffic_like_the_validation_rows_is_steady(problem):
    quantiles, measure, validation, test, _ = problem
    for outputs in (validation, test):
        window = DriftWindow(10_000)
        window.observe([], measure(outputs))

        report = window.report(quantiles)

        assert report.level == "steady"
        assert report.distance.beyond < 0.1 and report.distance.gap < 0.15


def test_traffic_from_elsewhere_is_moving(problem):
    quantiles, measure, _, test, far_away = problem
    window = DriftWindow(300)
    window.observe([], measure(test))
    window.observe([], measure(far_away))  # the window forgets the others

    report = window.report(quantiles)

    assert report.level == "moving" and "away from the training data" in report.message
    assert report.n == 300 and report.distance.live_median > report.distance.limit


def test_numbers_are_those_of_a_slow_version(problem):
    quantiles, measure, validation, test, _ = problem
    distance, agreement = measure(test)
    window = DriftWindow(10_000)
    window.observe([], (distance, agreement))

    report = window.report(quantiles)

    true = measure(validation)[0]
    assert report.distance.beyond == np.mean([d > quantiles.distance[95] for d in distance])
    assert report.agreement.beyond == np.mean([a < quantiles.agreement[5] for a in agreement])
    assert report.distance.live_median == sorted(distance)[(len(distance) - 1) // 2]
    # The percentiles stand for all validation rows: the gap is that of the rows themselves within a hundredth.
    from scipy.stats import ks_2samp

    assert report.distance.gap == pytest.approx(ks_2samp(distance, true).statistic, abs=0.02)
    for side in (report.distance, report.agreement):
        assert sum(side.live) == pytest.approx(1) and sum(side.validation) == pytest.approx(1)


def test_nothing_is_said_before_there_are_enough_inputs(problem):
    quantiles, measure, _, _, far_away = problem
    distance, agreement = measure(far_away)
    window = DriftWindow(1000)
    assert window.report(quantiles).level == "collecting"

    window.observe([], (distance[: ENOUGH - 1], agreement[: ENOUGH - 1]))
    assert window.report(quantiles).level == "collecting"

    window.observe([], (distance[:1], agreement[:1]))
    assert window.report(quantiles).level == "moving"


def test_a_window_can_be_cleared_and_a_method_without_neighbors_has_none(problem):
    quantiles, measure, _, test, _ = problem
    window = DriftWindow(1000)
    window.observe([], measure(test))

    assert window.report(None).level == "off"
    window.clear()
    assert window.report(quantiles).n == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e6) | st.just(np.inf), st.floats(0, 1)), min_size=1, max_size=200))
def test_every_report_can_be_written_as_json(rows):
    import json
    from dataclasses import asdict

    from knn_ue.pipeline import DriftQuantiles

    window = DriftWindow(100)
    distance, agreement = (np.array(column) for column in zip(*rows, strict=True))
    window.observe([], (distance, agreement))
    levels = np.linspace(0, 1, 101)
    quantiles = DriftQuantiles(distance=np.append(levels[:-1], np.inf), agreement=levels)

    report = window.report(quantiles)

    json.dumps(asdict(report), allow_nan=False)
    assert 0 <= report.distance.gap <= 1 and 0 <= report.agreement.beyond <= 1


def test_familiarity_replaces_the_distance_and_needs_no_neighbors(problem):
    quantiles, measure, _, test, _ = problem
    random = np.random.default_rng(0)
    window = DriftWindow(500)
    window.observe(random.uniform(size=400).tolist(), measure(test))

    steady, alone = (window.report(found, has_familiarity=True) for found in (quantiles, None))

    assert steady.level == alone.level == "steady" and steady.n == 400
    assert steady.distance is None and steady.agreement is not None and alone.agreement is None
    assert steady.familiarity.beyond == pytest.approx(0.05, abs=0.03)


def test_unfamiliar_traffic_is_moving_though_its_neighbors_are_near_and_agree(problem):
    quantiles, measure, _, test, _ = problem
    window = DriftWindow(500)
    window.observe([0.001] * 30 + [0.5] * 70, measure(test))

    report = window.report(quantiles, has_familiarity=True)

    assert report.level == "moving" and "30% are less like the training data than 95%" in report.message


def test_in_domain_traffic_rarely_rings():
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(200):
        window = DriftWindow(1000)
        window.observe(random.uniform(size=200).tolist(), None)
        alarms += window.report(None, has_familiarity=True).level == "moving"

    assert alarms <= 2
