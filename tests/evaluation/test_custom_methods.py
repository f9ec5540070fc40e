"""Calibrators of no family of ours pass through `evaluate`: what counts is the contract, not the class."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fakes import FixedTemperature, Flipping, Reading
from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import EvaluationOptions, answered_sets, compare, evaluate, evaluate_sets
from knn_ue.toy import tagged_sentences
from knn_ue.types import Outputs
from knn_ue_lab.calibrators import IsotonicCalibration

OF_THE_ANSWER = {
    "accuracy": lambda correct, **_: correct.mean(),
    "brier_top_label": metrics.brier_top_label,
    "ece": metrics.expected_calibration_error,
    "mce": metrics.maximum_calibration_error,
    "adaptive_ece": metrics.adaptive_calibration_error,
    "debiased_ece": metrics.debiased_calibration_error,
    "smooth_ece": metrics.smooth_calibration_error,
    "nll_top_label": metrics.nll_top_label,
    "brier_calibration": metrics.brier_calibration,
    "brier_refinement": metrics.brier_refinement,
    "nll_calibration": metrics.nll_calibration,
    "nll_refinement": metrics.nll_refinement,
    "auroc": metrics.auroc,
    "aurc": metrics.aurc,
    "e_aurc": metrics.e_aurc,
    "augrc": metrics.augrc,
    "risk_at_80": partial(metrics.risk_at_coverage, coverage=0.8),
    "coverage_at_5": partial(metrics.coverage_at_risk, risk=0.05),
}


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


@pytest.fixture(scope="module")
def doubtful():
    """Two sets whose less sure half is right in 30 % of the rows: there the other class is more probable."""
    rng = np.random.default_rng(0)
    sets = []
    for _ in range(2):
        margin, predicted = rng.uniform(0.1, 4.0, 600), rng.integers(2, size=600)
        right = rng.random(600) < np.where(margin > 2.0, 0.95, 0.3)
        logits = margin[:, None] * np.eye(2)[predicted]
        sets.append(Outputs(logits=logits, labels=np.where(right, predicted, 1 - predicted)))
    return sets


def test_the_answers_are_the_models_whatever_class_a_method_finds_most_probable(test_set):
    found = evaluate(Flipping(np.arange(20)), test_set)

    assert found["calibrated"]["accuracy"] == found["raw"]["accuracy"]
    assert found["raw"]["accuracy"] == np.mean(test_set.predicted == test_set.labels)


def test_confidence_is_what_predict_gives_the_models_answer(test_set):
    method = Flipping([3, 5])

    answered = answered_sets({"a": method}, test_set)["test"]

    np.testing.assert_array_equal(answered.confidence("a"), method.predict(test_set).confidence)
    np.testing.assert_array_equal(answered.confidence("raw"), method.predict(test_set).raw_confidence)


def test_what_a_model_decoded_is_its_answer_also_where_its_logits_say_otherwise(test_set):
    decoded = 1 - test_set.predicted

    found = evaluate(FixedTemperature(2.0), replace(test_set, decoded=decoded))

    assert found["raw"]["accuracy"] == found["calibrated"]["accuracy"] == np.mean(decoded == test_set.labels)


@pytest.mark.parametrize("name", OF_THE_ANSWER)
def test_measures_of_the_answer_are_those_of_predict(name, doubtful):
    validation, test = doubtful
    method = IsotonicCalibration().fit(validation)
    prediction = method.predict(test)

    found = evaluate(method, test)["calibrated"][name]

    right = {"confidence": prediction.confidence, "correct": prediction.predicted == test.labels}
    assert (prediction.confidence < 0.5).mean() > 0.3
    assert found == pytest.approx(OF_THE_ANSWER[name](**right), abs=1e-12)


def test_nll_and_brier_score_are_those_of_all_classes(doubtful):
    validation, test = doubtful
    method = IsotonicCalibration().fit(validation)
    known = {"probs": method.predict_proba(test), "labels": test.labels}

    found = evaluate(method, test)["calibrated"]

    assert found["nll"] == metrics.negative_log_likelihood(**known)
    assert found["brier_multiclass"] == metrics.brier_multiclass(**known)
    assert found["class_wise_ece"] == metrics.class_wise_calibration_error(**known)


def test_detection_is_by_the_confidence_in_the_models_answer(doubtful):
    validation, test = doubtful
    inside, outside = test.take(slice(0, 300)), test.take(slice(300, 600))
    method = IsotonicCalibration().fit(validation)

    found = evaluate(method, inside, out_of_domain=outside).tables["out_of_domain/detection"]["calibrated"]

    scores = [method.predict(x).confidence for x in (inside, outside)]
    expected = metrics.ood_detection(id_confidence=scores[0], ood_confidence=scores[1])
    assert found == vars(expected)


def test_comparisons_are_of_the_models_answers(doubtful):
    validation, test = doubtful
    inside, outside = test.take(slice(0, 300)), test.take(slice(300, 600))
    sets = answered_sets({"a": IsotonicCalibration().fit(validation)}, inside, {"far": outside})

    found = {(x.set_name, x.kind): x.ours for x in compare(sets, "a", EvaluationOptions())}

    tables = evaluate_sets(sets, EvaluationOptions()).tables
    assert found["test", "calibration"] == tables["test"]["a"]["ece"]
    assert found["far", "ranking"] == tables["far"]["a"]["e_aurc"]
    assert found["far", "detection"] == tables["far/detection"]["a"]["auroc"]


def test_entities_are_those_the_model_predicts(tagged):
    found = evaluate(Flipping(np.arange(len(tagged))), tagged).tables["test/entities"]

    assert found["calibrated"]["f1"] == found["raw"]["f1"] > 0.5


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
