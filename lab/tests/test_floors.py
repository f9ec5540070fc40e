"""The error of a perfectly calibrated model: drawn from its confidences, more in smaller samples."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.floors import floor_of
from knn_ue_lab.reproduce.measures import MEASURES

ECE, MCE = MEASURES["ece"], MEASURES["mce"]


def answers(n_rows, *, correct=True, n_missed=0):
    confidence = np.random.default_rng(n_rows).uniform(0.5, 1.0, n_rows + n_missed)
    confidence[n_rows:] = 0.0
    right = np.full(n_rows + n_missed, correct)
    missed = np.arange(n_rows + n_missed) >= n_rows
    return Answers(confidence=confidence, correct=right, missed=missed, group=np.arange(n_rows + n_missed))


def test_the_floor_is_the_mean_error_of_labels_that_are_drawn_from_the_confidences():
    one = answers(400)
    rng = np.random.default_rng(5)

    slow = [
        metrics.expected_calibration_error(confidence=one.confidence, correct=rng.random(400) < one.confidence)
        for _ in range(400)
    ]

    assert floor_of(ECE, [one] * 5) == pytest.approx(np.mean(slow), rel=0.05)


def test_whether_answers_were_right_and_what_was_missed_do_not_matter():
    assert floor_of(ECE, [answers(300)]) == floor_of(ECE, [answers(300, correct=False)])
    assert floor_of(ECE, [answers(300, n_missed=0)]) > 0


def test_more_answers_have_a_lower_floor_and_the_largest_error_a_higher_one():
    assert floor_of(ECE, [answers(4000)]) < floor_of(ECE, [answers(100)]) / 3
    assert floor_of(MCE, [answers(400)]) > floor_of(ECE, [answers(400)])


def test_without_answers_nothing_is_known_of_the_floor():
    assert floor_of(ECE, []) == 0.0


def test_only_errors_in_bins_have_a_floor():
    assert {name for name, measure in MEASURES.items() if measure.has_floor} == {"ece", "mce"}
