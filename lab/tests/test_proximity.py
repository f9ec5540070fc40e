"""Proximity of answers to validation rows, and PIECE, which groups answers by it."""

import numpy as np
import pytest

from knn_ue.calibrators import SoftmaxResponse
from knn_ue.data import TaggedRow
from knn_ue.types import Outputs
from knn_ue_lab.calibrators import ProximityCalibration
from knn_ue_lab.reproduce.answers import Answers, answers_of
from knn_ue_lab.reproduce.measures import MEASURES, scores_of
from knn_ue_lab.reproduce.proximity import with_proximity
from knn_ue_lab.reproduce.task_data import SetRows

TAGS = ("O", "B-PER", "I-PER")


def test_piece_sees_errors_of_near_and_far_rows_that_cancel_in_the_ece():
    right = np.arange(20) < 10
    answers = Answers(
        confidence=np.full(20, 0.45), correct=right, group=np.arange(20), proximity=np.where(right, 0.9, 0.1)
    )

    assert MEASURES["ece"].function(answers) == pytest.approx(0.05)
    assert MEASURES["piece"].function(answers) == pytest.approx(0.5)  # 0.55 too low near, 0.45 too high far


def test_without_proximity_there_is_no_piece():
    answers = Answers(confidence=np.array([0.5]), correct=np.array([True]), group=np.arange(1))

    assert "piece" not in scores_of(answers)


def test_an_entity_is_as_near_as_its_words_on_average_and_missed_ones_are_left_out():
    predicted = [1, 2, 0, 0, 1]
    outputs = Outputs(
        logits=np.log(np.eye(3)[predicted] * 0.8 + 0.1),
        labels=[1, 2, 0, 1, 0],
        groups=[0, 0, 0, 1, 1],
        class_names=TAGS,
    )
    rows = SetRows(name="x", role="out", rows=[TaggedRow(("a",), ("O",))] * 2, labeled=True)
    prediction = SoftmaxResponse().fit(outputs).predict(outputs)
    answers = answers_of(outputs, prediction, rows)

    found = with_proximity(answers, outputs, prediction, rows, np.array([0.2, 0.4, 0.9, 0.9, 0.5]))

    assert found.given().proximity == pytest.approx([0.3, 0.5])
    assert found.confidence.tolist() == answers.confidence.tolist()


def test_rows_far_from_all_validation_rows_have_no_proximity():
    rng = np.random.default_rng(0)
    validation = Outputs(
        features=rng.normal(size=(60, 4)), logits=rng.normal(size=(60, 2)), labels=rng.integers(2, size=60)
    )
    queries = Outputs(features=np.stack([np.zeros(4), np.full(4, 50.0)]), logits=np.zeros((2, 2)))

    near, far = ProximityCalibration().fit(validation).proximity(queries)

    assert near > 0.5 > 1e-6 > far
