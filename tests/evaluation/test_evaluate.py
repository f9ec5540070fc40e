"""`evaluate` against scikit-learn and seqeval, and what it refuses."""

import math

import numpy as np
import pytest
from seqeval.metrics import f1_score
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from fakes import FixedTemperature, Reading
from knn_ue import metrics
from knn_ue.arrays import softmax
from knn_ue.calibrators import SoftmaxResponse, TemperatureScaling
from knn_ue.errors import InvalidInputError, NotFittedError
from knn_ue.evaluation import STYLES, evaluate
from knn_ue.methods import make_calibrator
from knn_ue.toy import pockets, tagged_sentences, two_blobs
from knn_ue.types import Outputs

CALIBRATION = ["ece", "mce", "adaptive_ece", "debiased_ece", "smooth_ece", "brier_top_label", "brier_calibration"]
CALIBRATION += ["brier_refinement", "nll_top_label", "nll_calibration", "nll_refinement"]
RANKING = ["auroc", "aurc", "e_aurc", "augrc", "risk_at_80", "coverage_at_5"]
ROW_METRICS = ["accuracy", "nll", "brier_multiclass", "class_wise_ece", *CALIBRATION, *RANKING]
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


class WrongShape(FixedTemperature):
    def predict_proba(self, outputs):
        return np.full((len(outputs), 7), 1 / 7)


def tagged(n_sentences=60, n_words=9, seed=0, class_names=TAGS):
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(TAGS), size=n_sentences * n_words)
    logits = 2.0 * np.eye(len(TAGS))[labels] + rng.normal(size=(len(labels), len(TAGS)))
    groups = np.repeat(np.arange(n_sentences), n_words)
    return Outputs(logits=logits, labels=labels, groups=groups, class_names=class_names)


def small(n_rows=200, seed=0):
    return two_blobs(n_train=n_rows, n_validation=n_rows, n_test=n_rows, seed=seed)[2]


def test_the_raw_model_stands_beside_every_method_in_the_order_given():
    evaluation = evaluate({"b": FixedTemperature(2.0), "a": FixedTemperature(3.0)}, small())

    assert list(evaluation) == ["raw", "b", "a"]


def test_one_calibrator_is_called_calibrated():
    assert list(evaluate(FixedTemperature(2.0), small())) == ["raw", "calibrated"]


def test_all_metrics_are_taken_in_a_stated_order():
    evaluation = evaluate(FixedTemperature(2.0), small())

    assert list(evaluation["calibrated"]) == ROW_METRICS


@pytest.mark.parametrize(("method", "temperature"), [("raw", 1.0), ("calibrated", 3.0)])
def test_the_proper_scores_are_those_of_scikit_learn(method, temperature):
    test = small()
    probs = softmax(test.logits / temperature)

    found = evaluate(FixedTemperature(3.0), test)[method]

    correct = probs.argmax(axis=1) == test.labels
    assert found["nll"] == pytest.approx(log_loss(test.labels, probs), abs=1e-9)
    assert found["brier_multiclass"] == pytest.approx(2 * brier_score_loss(test.labels, probs[:, 1]), abs=1e-9)
    assert found["auroc"] == pytest.approx(roc_auc_score(correct, probs.max(axis=1)), abs=1e-9)
    assert found["accuracy"] == pytest.approx(correct.mean(), abs=1e-12)


def test_the_binned_errors_use_the_bins_asked_for():
    test = small()

    found = evaluate(FixedTemperature(3.0), test, n_bins=4)["raw"]

    wanted = {"probs": softmax(test.logits), "labels": test.labels, "n_bins": 4}
    assert found["ece"] == metrics.expected_calibration_error(**wanted)
    assert found["mce"] == metrics.maximum_calibration_error(**wanted)
    assert found["adaptive_ece"] == metrics.adaptive_calibration_error(**wanted)
    assert found["debiased_ece"] == metrics.debiased_calibration_error(**wanted)
    assert found["class_wise_ece"] == metrics.class_wise_calibration_error(**wanted)


def test_temperature_scaling_lowers_the_calibration_error_of_the_blobs():
    _, validation, test = two_blobs(overconfident_by=3.0)

    evaluation = evaluate(TemperatureScaling().fit(validation), test)

    assert evaluation["calibrated"]["ece"] < 0.3 * evaluation["raw"]["ece"]


def test_each_method_is_asked_once_for_each_set():
    calibrator = FixedTemperature(2.0)

    evaluate(calibrator, small(), out_of_domain=small(seed=1), n_bootstrap=2)

    assert calibrator.n_calls == 2


def test_an_out_of_domain_set_with_labels_gets_the_same_metrics():
    far = small(seed=1)

    found = evaluate(FixedTemperature(2.0), small(), out_of_domain=far).tables["out_of_domain"]["raw"]

    assert found == evaluate(FixedTemperature(2.0), far)["raw"]


def test_an_out_of_domain_set_without_labels_is_only_detected():
    far = Outputs(logits=small(seed=1).logits)

    evaluation = evaluate(FixedTemperature(2.0), small(), out_of_domain=far)

    assert list(evaluation.tables) == ["test", "out_of_domain/detection"]


def test_detection_is_that_of_scikit_learn():
    train, validation, test, out = pockets(n_train=300, n_validation=300, n_test=200, n_out=100)
    calibrator = make_calibrator("knn-ue-no-label", train).fit(validation)

    found = evaluate(calibrator, test, out_of_domain=out).tables["out_of_domain/detection"]["calibrated"]

    confidence = np.concatenate([calibrator.predict_proba(x).max(axis=1) for x in (test, out)])
    assert list(found) == ["fpr95", "auroc", "aupr_in", "aupr_out"]
    assert found["auroc"] == pytest.approx(roc_auc_score(np.arange(300) < 200, confidence), abs=1e-9)


def test_several_out_of_domain_sets_keep_their_names():
    evaluation = evaluate(FixedTemperature(2.0), small(), out_of_domain={"near": small(seed=1), "far": small(seed=2)})

    assert list(evaluation.tables) == ["test", "near", "near/detection", "far", "far/detection"]


def test_entity_f1_is_that_of_seqeval():
    test = tagged()
    names = np.array(TAGS)
    gold, predicted = (
        [list(x) for x in metrics.sentences(names[tags], test.groups)] for tags in (test.labels, test.predicted)
    )

    found = evaluate(FixedTemperature(2.0), test).tables["test/entities"]["calibrated"]

    assert list(found) == ["f1", *CALIBRATION, *RANKING]
    assert found["f1"] == pytest.approx(f1_score(gold, predicted), abs=1e-12)


def test_entity_confidence_is_the_product_over_its_words():
    sure, unsure = math.log(9.0), math.log(3.0)  # p = 0.9 and 0.75 of two classes
    logits = [[0.0, sure, -99.0], [0.0, -99.0, unsure], [sure, 0.0, -99.0]]
    test = Outputs(logits=logits, labels=[1, 2, 0], groups=[0, 0, 0], class_names=["O", "B-X", "I-X"])

    found = evaluate(FixedTemperature(1.0), test).tables["test/entities"]["raw"]

    assert found["ece"] == pytest.approx(1 - 0.9 * 0.75, abs=1e-6)


def test_calibration_is_of_predicted_entities_and_ranking_counts_missed_ones():
    test = tagged()
    names = np.array(TAGS)
    gold, predicted, confidence = (
        metrics.sentences(x, test.groups)
        for x in (names[test.labels], names[test.predicted], softmax(test.logits).max(axis=1))
    )
    scores = metrics.score_entities(gold=gold, predicted=predicted, confidence=confidence)
    given = {"confidence": scores.confidence, "correct": scores.correct}
    ranked = dict(zip(given, scores.ranked(include_missed=True), strict=True))

    found = evaluate(FixedTemperature(2.0), test).tables["test/entities"]["raw"]

    assert len(ranked["correct"]) > len(given["correct"])
    assert found["smooth_ece"] == pytest.approx(metrics.smooth_calibration_error(**given))
    assert found["nll_top_label"] == pytest.approx(metrics.nll_top_label(**given))
    assert found["augrc"] == pytest.approx(metrics.augrc(**ranked))
    assert found["risk_at_80"] == pytest.approx(metrics.risk_at_coverage(**ranked, coverage=0.8))
    assert found["coverage_at_5"] == pytest.approx(metrics.coverage_at_risk(**ranked, risk=0.05))


def test_sentences_have_the_metrics_of_their_confidence():
    found = evaluate(Reading(0.75), tagged_sentences(seed=0)[2]).tables["test/sentences"]["calibrated"]

    assert list(found) == ["accuracy", *CALIBRATION, *RANKING]
    assert found["brier_top_label"] == pytest.approx(
        found["accuracy"] * 0.25**2 + (1 - found["accuracy"]) * 0.75**2, abs=1e-12
    )


@pytest.mark.parametrize("name", ["test", "test/entities"])
@pytest.mark.parametrize("score", ["brier", "nll"])
def test_the_parts_of_a_score_sum_to_a_number_of_the_same_table(name, score):
    found = evaluate(FixedTemperature(2.0), tagged()).tables[name]["calibrated"]

    parts = found[f"{score}_calibration"] + found[f"{score}_refinement"]
    assert parts == pytest.approx(found[f"{score}_top_label"], abs=1e-12)


def test_the_titles_of_the_parts_name_the_score_they_sum_to():
    for score in ("brier", "nll"):
        whole = STYLES[f"{score}_top_label"].title
        assert STYLES[f"{score}_calibration"].title == f"{whole}: calibration"
        assert STYLES[f"{score}_refinement"].title == f"{whole}: refinement"


@pytest.mark.parametrize("class_names", [None, ("a", "b", "c", "d", "e")])
def test_entities_are_scored_only_where_the_classes_are_iob2_tags(class_names):
    assert list(evaluate(FixedTemperature(2.0), tagged(class_names=class_names)).tables) == ["test"]


def test_a_sentence_without_any_entity_has_no_entity_metrics_but_an_answer():
    test = Outputs(logits=[[2.0, 0.0], [2.0, 0.0]], labels=[0, 0], groups=[0, 0], class_names=["O", "B-X"])

    evaluation = evaluate(FixedTemperature(2.0), test, n_bootstrap=3)

    assert all(math.isnan(value) for value in evaluation.tables["test/entities"]["raw"].values())


def test_intervals_are_drawn_only_when_asked_for():
    assert evaluate(FixedTemperature(2.0), small()).tables["test"].intervals == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test", "test/entities", "out_of_domain", "out_of_domain/detection"])
def test_every_interval_belongs_to_the_number_shown(name):
    evaluation = evaluate(FixedTemperature(2.0), tagged(), out_of_domain=tagged(seed=1), n_bootstrap=5)

    found = evaluation.tables[name]

    assert list(found.intervals) == ["raw", "calibrated"]
    for method, intervals in found.intervals.items():
        assert {metric: x.estimate for metric, x in intervals.items()} == found[method]


@pytest.mark.slow
def test_an_interval_holds_the_accuracy_and_is_as_wide_as_theory_says():
    test = small(n_rows=400)

    evaluation = evaluate(FixedTemperature(2.0), test, n_bootstrap=150)

    interval, accuracy = evaluation.tables["test"].intervals["raw"]["accuracy"], evaluation["raw"]["accuracy"]
    assert interval.low < accuracy < interval.high
    assert interval.high - interval.low == pytest.approx(
        2 * 1.96 * math.sqrt(accuracy * (1 - accuracy) / len(test)), rel=0.2
    )


@pytest.mark.slow
def test_words_of_one_sentence_are_drawn_together():
    # All ten words of a sentence are copies: there are 40 independent rows, not 400.
    copied = small(n_rows=40).take(np.repeat(np.arange(40), 10))
    grouped = Outputs(logits=copied.logits, labels=copied.labels, groups=np.repeat(np.arange(40), 10))

    widths = []
    for test in (copied, grouped):
        interval = evaluate(FixedTemperature(2.0), test, n_bootstrap=60).tables["test"].intervals["raw"]["nll"]
        widths.append(interval.high - interval.low)

    assert widths[1] > 2 * widths[0]


@pytest.mark.slow
def test_equal_seeds_give_equal_intervals():
    first, second = (evaluate(FixedTemperature(2.0), small(), n_bootstrap=20, seed=7).to_json() for _ in range(2))

    assert first == second


def test_a_test_set_without_labels_is_refused():
    with pytest.raises(InvalidInputError, match="evaluate needs labels, but these Outputs have none"):
        evaluate(FixedTemperature(2.0), Outputs(logits=[[0.0, 1.0]]))


def test_an_empty_test_set_is_refused():
    with pytest.raises(InvalidInputError, match="the Outputs given to evaluate is empty"):
        evaluate(FixedTemperature(2.0), small().take([False] * 200))


def test_an_empty_out_of_domain_set_is_refused():
    with pytest.raises(InvalidInputError, match="the out-of-domain set 'out_of_domain' is empty"):
        evaluate(FixedTemperature(2.0), small(), out_of_domain=small().take([False] * 200))


def test_an_out_of_domain_set_with_other_classes_is_refused():
    far = Outputs(logits=[[0.0, 1.0, 2.0]], labels=[2])

    with pytest.raises(InvalidInputError, match="'far' has 3 classes but test has 2: use outputs of one model"):
        evaluate(FixedTemperature(2.0), small(), out_of_domain={"far": far})


def test_an_out_of_domain_set_with_classes_in_another_order_is_refused():
    far = Outputs(logits=[[0.0, 1.0]], labels=[1], class_names=["right", "left"])

    with pytest.raises(InvalidInputError, match="number the classes alike"):
        evaluate(FixedTemperature(2.0), small(), out_of_domain=far)


@pytest.mark.parametrize("name", ["test", "a/b"])
def test_an_out_of_domain_set_with_a_reserved_name_is_refused(name):
    with pytest.raises(InvalidInputError, match=f"must not be named '{name}'"):
        evaluate(FixedTemperature(2.0), small(), out_of_domain={name: small()})


def test_probabilities_of_the_wrong_shape_are_refused():
    with pytest.raises(InvalidInputError, match=r"odd gave probabilities of shape \(200, 7\) for logits of shape"):
        evaluate({"odd": WrongShape(1.0)}, small())


def test_no_calibrator_at_all_is_refused():
    with pytest.raises(InvalidInputError, match="at least one calibrator"):
        evaluate({}, small())


def test_swapped_arguments_are_noticed():
    with pytest.raises(InvalidInputError, match="must be a fitted calibrator, got a Outputs"):
        evaluate(small(), FixedTemperature(2.0))


def test_a_calibrator_named_raw_is_refused():
    with pytest.raises(InvalidInputError, match="must not be named 'raw'"):
        evaluate({"raw": FixedTemperature(2.0)}, small())


@pytest.mark.parametrize("n_bootstrap", [-1, 2.5, True])
def test_a_number_of_draws_that_is_none_is_refused(n_bootstrap):
    with pytest.raises(InvalidInputError, match="n_bootstrap must be a whole number"):
        evaluate(FixedTemperature(2.0), small(), n_bootstrap=n_bootstrap)


def test_an_unfitted_calibrator_says_so():
    with pytest.raises(NotFittedError, match="SoftmaxResponse is not fitted"):
        evaluate(SoftmaxResponse(), small())
