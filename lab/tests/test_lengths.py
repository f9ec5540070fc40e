"""The number of words as a detector: what is as long as the training rows is not found, what is shorter is."""

import numpy as np
import pytest

from knn_ue_lab.reproduce.lengths import best_auroc, length_aurocs, usual_length
from knn_ue_lab.reproduce.setups import folder_setups
from knn_ue_lab.reproduce.task_data import TaskData
from tiny_data import tiny_scale


def test_shorter_and_longer_than_all_training_rows_is_unusual():
    assert usual_length(np.array([5, 6, 7, 8]), np.array([6, 2, 20])).tolist() == [1.0, 0.0, 0.0]


def test_lengths_within_those_of_training_are_found_by_their_direction():
    known, inside, outside = np.array([1, 50]), np.array([30, 40]), np.array([10, 20])

    assert best_auroc(known, inside, outside) == best_auroc(known, -inside, -outside) == 1.0


def test_equal_lengths_are_hardly_found():
    rng = np.random.default_rng(0)
    known, inside, outside = (rng.integers(5, 50, 400) for _ in range(3))

    assert best_auroc(known, inside, outside) == pytest.approx(0.5, abs=0.06)


def test_every_set_of_texts_that_is_not_in_domain_is_measured_and_no_tagged_one(data):
    found = {key for setup in folder_setups(data) for key in length_aurocs(setup, TaskData(setup, tiny_scale()))}

    assert found
    assert not {setup for setup, _ in found} & {"ner"}
    assert ("sentiment", "imdb") not in found
