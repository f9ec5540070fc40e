"""Calibration errors and proper scores against loops, scikit-learn and known answers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import foldnorm
from sklearn.metrics import brier_score_loss, log_loss

import reference
from knn_ue import metrics
from knn_ue.errors import InvalidInputError

TOP_LABEL = {
    "ece": metrics.expected_calibration_error,
    "mce": metrics.maximum_calibration_error,
    "adaptive": metrics.adaptive_calibration_error,
    "debiased": metrics.debiased_calibration_error,
    "brier_top_label": metrics.brier_top_label,
}
FULL = {
    "class_wise": metrics.class_wise_calibration_error,
    "brier_multiclass": metrics.brier_multiclass,
    "nll": metrics.negative_log_likelihood,
}
ALL = TOP_LABEL | FULL

tied_or_free = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.95, 1.0]), st.floats(0, 1))
scored_rows = st.lists(st.tuples(tied_or_free, st.booleans()), min_size=1, max_size=60)
quick = settings(max_examples=60, deadline=None)


def random_probs(n_rows: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_classes, 0.5), size=n_rows), rng.integers(n_classes, size=n_rows)


@quick
@given(scored_rows, st.integers(1, 20))
def test_ece_equals_the_reference(rows: list[tuple[float, bool]], n_bins: int) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.expected_calibration_error(confidence=confidence, correct=correct, n_bins=n_bins)

    assert found == pytest.approx(reference.ece(confidence, correct, n_bins), abs=1e-9)


@quick
@given(scored_rows, st.integers(1, 20))
def test_mce_equals_the_reference(rows: list[tuple[float, bool]], n_bins: int) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.maximum_calibration_error(confidence=confidence, correct=correct, n_bins=n_bins)

    assert found == pytest.approx(reference.mce(confidence, correct, n_bins), abs=1e-9)


@quick
@given(scored_rows, st.integers(1, 20))
def test_adaptive_error_equals_the_reference(rows: list[tuple[float, bool]], n_bins: int) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.adaptive_calibration_error(confidence=confidence, correct=correct, n_bins=n_bins)

    assert found == pytest.approx(reference.adaptive_ece(confidence, correct, n_bins), abs=1e-9)


@quick
@given(scored_rows)
def test_top_label_brier_equals_the_reference(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.brier_top_label(confidence=confidence, correct=correct)

    assert found == pytest.approx(reference.brier_top_label(confidence, correct), abs=1e-9)


@pytest.mark.parametrize("n_rows", [32_768, 100_000])
def test_ece_of_many_rows_equals_the_reference(n_rows: int) -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(n_rows)
    correct = rng.random(n_rows) < confidence**2

    found = metrics.expected_calibration_error(confidence=confidence, correct=correct)

    assert found == pytest.approx(reference.ece(confidence, correct), abs=1e-9)


def test_debiased_error_subtracts_the_mean_of_the_folded_normal() -> None:
    rows = {"confidence": [0.8] * 40 + [0.35] * 20, "correct": [1, 0] * 20 + [1, 1, 1, 0] * 5}
    bins = metrics.reliability_bins(**rows)
    used = bins.count > 0
    deviation = np.sqrt(bins.accuracy[used] * (1 - bins.accuracy[used]) / bins.count[used])
    bias = foldnorm(bins.gap[used] / deviation, scale=deviation).mean() - bins.gap[used]

    found = metrics.debiased_calibration_error(**rows)

    assert found == pytest.approx(np.sum(bins.share[used] * (bins.gap[used] - bias)), abs=1e-12)


def test_debiased_error_is_nearer_to_zero_on_calibrated_data() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, size=(50, 300))
    correct = rng.random((50, 300)) < confidence
    pairs = [{"confidence": c, "correct": ok} for c, ok in zip(confidence, correct, strict=True)]

    plain = np.mean([metrics.expected_calibration_error(**pair) for pair in pairs])
    debiased = np.mean([metrics.debiased_calibration_error(**pair) for pair in pairs])

    assert debiased < 0.7 * plain


@pytest.mark.parametrize(
    ("name", "slow"),
    [
        ("class_wise", reference.class_wise_ece),
        ("brier_multiclass", reference.brier_multiclass),
        ("nll", reference.nll),
    ],
)
def test_a_score_of_all_classes_equals_the_reference(name: str, slow: object) -> None:
    probs, labels = random_probs(300, 4, seed=1)

    assert FULL[name](probs=probs, labels=labels) == pytest.approx(slow(probs.tolist(), labels.tolist()), abs=1e-9)


def test_log_likelihood_equals_scikit_learn() -> None:
    probs, labels = random_probs(500, 3, seed=2)

    found = metrics.negative_log_likelihood(probs=probs, labels=labels)

    assert found == pytest.approx(log_loss(labels, probs, labels=[0, 1, 2]), abs=1e-9)


def test_two_class_brier_is_twice_that_of_scikit_learn() -> None:
    probs, labels = random_probs(500, 2, seed=3)

    found = metrics.brier_multiclass(probs=probs, labels=labels)

    assert found == pytest.approx(2 * brier_score_loss(labels, probs[:, 1]), abs=1e-9)


def test_top_label_brier_equals_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    confidence, correct = rng.random(500), rng.random(500) < 0.5

    found = metrics.brier_top_label(confidence=confidence, correct=correct)

    assert found == pytest.approx(brier_score_loss(correct, confidence), abs=1e-9)


@pytest.mark.parametrize(("case", "fourth", "printed"), [("A", 0.5, "17.67"), ("B", 0.45, "16.83")])
def test_ece_of_the_toy_cases_is_the_one_printed_in_the_paper(case: str, fourth: float, printed: str) -> None:
    top = np.array([0.5, 0.5, 0.5, fourth, 0.96, 0.98])
    probs = np.stack([(1 - top) / 2, (1 - top) / 2, top], axis=1)

    found = metrics.expected_calibration_error(probs=probs, labels=[0, 0, 0, 2, 2, 2])

    assert f"{100 * found:.2f}" == printed


@pytest.mark.parametrize("name", ALL)
def test_a_perfect_model_scores_zero(name: str) -> None:
    labels = np.arange(30) % 3

    assert ALL[name](probs=np.eye(3)[labels], labels=labels) == 0.0


@pytest.mark.parametrize("name", ALL)
def test_row_order_never_matters(name: str) -> None:
    rng = np.random.default_rng(5)
    probs, labels = rng.multinomial(10, [0.2, 0.3, 0.5], size=400) / 10, rng.integers(3, size=400)
    order = rng.permutation(400)

    shuffled = ALL[name](probs=probs[order], labels=labels[order])

    assert shuffled == pytest.approx(ALL[name](probs=probs, labels=labels), abs=1e-12)


@pytest.mark.parametrize("name", TOP_LABEL)
def test_probabilities_and_confidence_give_the_same_number(name: str) -> None:
    probs, labels = random_probs(200, 3, seed=7)
    correct = probs.argmax(axis=1) == labels

    found = TOP_LABEL[name](confidence=probs.max(axis=1), correct=correct)

    assert found == TOP_LABEL[name](probs=probs, labels=labels)


@pytest.mark.parametrize("name", TOP_LABEL)
@pytest.mark.parametrize(
    ("confidence", "correct", "stated"), [(0.0, False, 0.0), (0.0, True, 1.0), (1.0, True, 0.0), (1.0, False, 1.0)]
)
def test_confidence_exactly_zero_or_one_has_the_stated_error(
    name: str, confidence: float, correct: bool, stated: float
) -> None:
    assert TOP_LABEL[name](confidence=[confidence] * 3, correct=[correct] * 3) == stated


def test_a_certain_mistake_has_a_finite_log_likelihood() -> None:
    found = metrics.negative_log_likelihood(probs=[[1.0, 0.0]], labels=[1])

    assert found == pytest.approx(-math.log(np.finfo(float).tiny))


def test_accuracy_counts_the_first_maximum() -> None:
    assert metrics.accuracy(probs=[[0.5, 0.5], [0.2, 0.8]], labels=[1, 1]) == 0.5


@pytest.mark.parametrize("name", ALL)
def test_probabilities_that_round_above_one_are_accepted(name: str) -> None:
    assert ALL[name](probs=[[1 + 1e-9, 0.0]], labels=[0]) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("name", TOP_LABEL)
def test_a_confidence_that_rounds_above_one_is_accepted(name: str) -> None:
    assert TOP_LABEL[name](confidence=[1 + 1e-9], correct=[True]) == 0.0


@pytest.mark.parametrize("name", ALL)
def test_inputs_may_be_read_only(name: str) -> None:
    probs, labels = random_probs(50, 3, seed=8)
    probs.flags.writeable = labels.flags.writeable = False

    assert ALL[name](probs=probs, labels=labels) > 0.0


@pytest.mark.parametrize("name", ALL)
def test_no_rows_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="probs is empty: at least one row is needed"):
        ALL[name](probs=np.zeros((0, 3)), labels=np.zeros(0, dtype=int))


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        ({}, "got none of them"),
        ({"probs": [[1.0, 0.0]]}, "got probs"),
        ({"confidence": [1.0]}, "got confidence"),
        ({"probs": [[1.0, 0.0]], "correct": [1]}, "got probs, correct"),
        ({"probs": [[1.0, 0.0]], "labels": [0], "correct": [1]}, "got probs, labels, correct"),
    ],
)
@pytest.mark.parametrize("name", TOP_LABEL)
def test_anything_but_one_complete_pair_is_refused(name: str, arguments: dict[str, object], got: str) -> None:
    with pytest.raises(InvalidInputError, match=f"pass either probs= with labels= or .*{got}: complete one pair"):
        TOP_LABEL[name](**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"probs": [[2.0, -1.0]], "labels": [0]}, "probs must not be negative, got -1: pass probabilities, not logits"),
        ({"probs": [[0.5, 0.4]], "labels": [0]}, "row 0 sums to 0.9: apply a softmax first"),
        ({"probs": [[0.5, 0.5]], "labels": [2]}, "labels must be below the number of classes 2, got 2"),
        ({"probs": [[0.5, 0.5]], "labels": [0, 1]}, "labels has 2 rows but 1 are expected"),
        ({"confidence": [1.5], "correct": [1]}, r"confidence must lie within \[0, 1\], got 1.5"),
        ({"confidence": [np.nan], "correct": [1]}, "confidence must be finite, got nan"),
        ({"confidence": [0.5], "correct": [2]}, "correct must hold only 0 and 1"),
        ({"confidence": [0.5], "correct": [1, 0]}, "correct has 2 rows but 1 are expected"),
        ({"confidence": [], "correct": []}, "confidence is empty"),
    ],
)
def test_a_bad_input_is_named_in_the_error(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        metrics.expected_calibration_error(**arguments)
