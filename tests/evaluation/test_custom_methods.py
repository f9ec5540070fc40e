"""Calibrators of no family of ours pass through `evaluate`: what counts is the contract, not the class."""

import numpy as np
import pytest

from fakes import FixedTemperature, Flipping, Reading
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import answered_sets, evaluate
from knn_ue.toy import tagged_sentences
from knn_ue.types import Outputs


class InFloat32(FixedTemperature):
    def predict_proba(self, outputs):
        return super().predict_proba(outputs).astype(np.float32).tolist()


class Unnormalized(FixedTemperature):
    def predict_proba(self, outputs):
        return 2.0 * super().predict_proba(outputs)


@pytest.fixture(scope="module")
def test_set(toy):
    return toy[2].take(slice(0, 200))


@pytest.fixture(scope="module")
def tagged():
    return tagged_sentences(seed=0)[2]


def test_a_method_that_changes_predictions_is_scored_by_its_own(test_set):
    rows = np.arange(20)
    flipped = test_set.predicted.copy()
    flipped[rows] = 1 - flipped[rows]

    found = evaluate(Flipping(rows), test_set)

    assert found["calibrated"]["accuracy"] == np.mean(flipped == test_set.labels)
    assert found["raw"]["accuracy"] == np.mean(test_set.predicted == test_set.labels)


def test_the_answers_of_a_method_are_those_with_its_highest_probability(test_set):
    answered = answered_sets({"a": Flipping([3, 5])}, test_set)["test"]

    assert np.flatnonzero(answered.predicted("a") != test_set.predicted).tolist() == [3, 5]


def test_probabilities_may_come_as_lists_of_single_precision(test_set):
    found = evaluate({"a": InFloat32(2.0), "b": FixedTemperature(2.0)}, test_set)

    assert found["a"]["nll"] == pytest.approx(found["b"]["nll"], rel=1e-6)


def test_numbers_that_are_no_probabilities_are_refused_with_the_methods_name(test_set):
    with pytest.raises(InvalidInputError, match="each row of the probabilities of odd must sum to 1"):
        evaluate({"odd": Unnormalized(1.0)}, Outputs(logits=test_set.logits, labels=test_set.labels))


def test_entities_are_scored_by_any_method_that_reads_them(tagged):
    found = evaluate(Reading(0.75), tagged).tables

    share = found["test/sentences"]["calibrated"]["accuracy"]
    assert found["test/sentences"]["calibrated"]["ece"] == pytest.approx(abs(share - 0.75), abs=1e-12)


def test_words_and_entities_share_one_search(tagged):
    method = Reading(0.75)

    evaluate(method, tagged)

    assert method.n_searches == 1


def test_a_reading_of_other_entities_than_the_predicted_ones_is_refused(tagged):
    with pytest.raises(InvalidInputError, match=r"read\(\) must score each predicted entity"):
        evaluate(Reading(0.75, n_forgotten=2), tagged)


def test_an_object_without_the_contract_is_refused(test_set):
    class OnlyProbabilities:
        predict_proba = FixedTemperature.predict_proba

    with pytest.raises(InvalidInputError, match="must be a fitted calibrator, got a OnlyProbabilities"):
        evaluate(OnlyProbabilities(), test_set)
