"""A verdict is given only where the numbers support it."""

import pytest

from knn_ue.evaluation import Comparison


def comparison(**changes):
    values = {"set_name": "test", "kind": "calibration", "method": "a", "other": "raw", "ours": 0.1, "theirs": 0.2}
    return Comparison(**{**values, "low": -0.2, "high": -0.05, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "better"),
        ({"low": 0.01, "high": 0.1}, "worse"),
        ({"low": -0.1, "high": 0.1}, "no significant difference"),
        ({"kind": "detection", "low": 0.01, "high": 0.1}, "better"),
        ({"ours": 0.2 - 1e-6, "low": -2e-6, "high": -1e-7}, "no significant difference"),
        ({"low": float("nan"), "high": float("nan")}, "better"),
    ],
)
def test_a_verdict_needs_an_interval_without_zero_and_a_difference_one_can_see(changes, verdict):
    assert comparison(**changes).verdict == verdict
