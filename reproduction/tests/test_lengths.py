"""The number of words as a detector: what is as long as the training rows is not found, what is shorter is."""

import numpy as np
import pytest

from knn_ue.data import PairRow, TextRow
from knn_ue.metrics.detection import ood_measure
from knn_ue_reproduce.lengths import familiar_length, length_aurocs
from knn_ue_reproduce.setups import folder_setups
from knn_ue_reproduce.task_data import TaskData
from tiny_data import tiny_scale


def texts(*lengths):
    return [TextRow("word " * length, "x") for length in lengths]


def test_shorter_and_longer_than_all_training_rows_is_unfamiliar():
    found = familiar_length(texts(5, 6, 7, 8), texts(6, 2, 20))

    assert found.tolist() == [1.0, 0.0, 0.0]


def test_pairs_are_as_long_as_both_texts():
    train = [PairRow("a b", "c", "x"), PairRow("a b", "c d", "x")]

    assert familiar_length(train, [PairRow("a", "b c", "x"), PairRow("a", "b", "x")]).tolist() == [1.0, 0.0]


def test_half_of_all_rows_are_found_by_chance_where_lengths_are_the_same():
    rng = np.random.default_rng(0)
    train, inside, outside = (texts(*rng.integers(5, 50, 400)) for _ in range(3))

    auroc = ood_measure(
        "auroc", id_confidence=familiar_length(train, inside), ood_confidence=familiar_length(train, outside)
    )

    assert auroc == pytest.approx(0.5, abs=0.06)


def test_every_set_of_texts_that_is_not_in_domain_is_measured_and_no_tagged_one(data):
    found = {key for setup in folder_setups(data) for key in length_aurocs(setup, TaskData(setup, tiny_scale()))}

    assert found
    assert not {setup for setup, _ in found} & {"ner"}
    assert ("sentiment", "imdb") not in found
