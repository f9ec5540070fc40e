"""benchmarks/sdm_adaptor.py: what it makes of answers, and the authors' package on a toy problem."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from knn_ue.toy import two_blobs

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "sdm_adaptor.py"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return runpy.run_path(str(SCRIPT))


def test_answers_are_scored_against_the_methods_own_predictions(script):
    predicted, confidence, labels = np.array([0, 1, 1]), np.array([0.9, 0.6, 0.8]), np.array([0, 0, 1])

    found = script["scores_of"](predicted, confidence, np.array([True, False, True]), labels)

    assert found["accuracy"] == pytest.approx(2 / 3)
    assert (found["admitted"], found["admitted_right"]) == (pytest.approx(2 / 3), 1.0)
    assert found["brier"] == pytest.approx((0.01 + 0.36 + 0.04) / 3)


def test_a_region_without_rows_has_no_accuracy(script):
    nothing = np.array([False, False])

    found = script["scores_of"](np.array([0, 1]), np.array([0.9, 0.6]), nothing, np.array([0, 0]))

    assert (found["admitted"], found["admitted_right"]) == (0.0, None)
    assert script["right_at"](0.0, np.array([0.9, 0.6]), nothing) is None


def test_sets_without_labels_have_no_accuracy(script):
    assert set(script["scores_of"](np.array([0]), np.array([0.9]), None, None)) == {"confidence"}


def test_the_most_confident_half_is_scored_at_half_coverage(script):
    assert script["right_at"](0.5, np.array([0.6, 0.9, 0.7, 0.8]), np.array([False, True, False, True])) == 1.0


def test_a_table_has_the_deviation_between_seeds(script):
    assert script["spread"]([[80.0, 82.0], [84.0]]) == "82.5 ± 2.1"
    assert script["spread"]([[80.0]]) == "80.0"
    assert script["spread"]([[], []]) == "–"


@pytest.mark.parametrize("pooled", [True, False])
def test_the_package_of_the_authors_answers_a_toy_problem(script, pooled):
    pytest.importorskip("reexpress_sdm")
    train, validation, test = (rows.take(np.arange(100)) for rows in two_blobs(seed=0))

    schedule = {"epochs": 2, "split_epochs": 2, "shuffles": 2}

    answer, training = script["adaptor"](train, validation, 0, schedule, pooled=pooled)
    predicted, confidence, admitted = answer(test)

    assert np.mean(predicted == test.labels) > 0.6
    assert confidence.min() >= 0.5
    assert admitted.shape == predicted.shape
    assert len(training["calibration_loss"]) == 2
