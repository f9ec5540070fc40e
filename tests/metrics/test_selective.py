"""Risk-coverage and rank statistics against loops, scikit-learn and the paper's toy table."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import reference
from knn_ue import metrics
from knn_ue.errors import InvalidInputError

LOWER_IS_BETTER = {"aurc": metrics.aurc, "e_aurc": metrics.e_aurc}
ALL = LOWER_IS_BETTER | {"auroc": metrics.auroc}

probability = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
any_score = st.one_of(st.sampled_from([-3.0, -0.0, 0.0, 7.5]), st.floats(-1e6, 1e6))
rows_of_one_kind = st.one_of(
    st.lists(st.tuples(probability, st.booleans()), min_size=1, max_size=50),
    st.lists(st.tuples(any_score, st.booleans()), min_size=1, max_size=50),
)
quick = settings(max_examples=80, deadline=None)

TOY_CORRECT = [False, False, False, True, True, True]
TOY = {"A": [0.5, 0.5, 0.5, 0.5, 0.96, 0.98], "B": [0.5, 0.5, 0.5, 0.45, 0.96, 0.98]}


@quick
@given(rows_of_one_kind)
def test_aurc_equals_the_reference(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.aurc(confidence=confidence, correct=correct)

    assert found == pytest.approx(reference.aurc(confidence, correct), abs=1e-9)


@quick
@given(st.lists(st.tuples(st.sampled_from([0.2, 0.6]), st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_the_rows(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.aurc(confidence=confidence, correct=correct)

    assert found == pytest.approx(reference.aurc_over_all_orders(confidence, correct), abs=1e-9)


@quick
@given(rows_of_one_kind)
def test_the_paper_convention_equals_the_reference(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)

    found = metrics.aurc(confidence=confidence, correct=correct, convention="paper")

    assert found == pytest.approx(reference.aurc_paper(confidence, correct), abs=1e-9)


@quick
@given(rows_of_one_kind)
def test_auroc_equals_the_reference(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)
    assume(len(set(correct)) == 2)

    found = metrics.auroc(confidence=confidence, correct=correct)

    assert found == pytest.approx(reference.auroc(confidence, correct), abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_auroc_equals_scikit_learn(decimals: int) -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(5000).round(decimals)
    correct = rng.random(5000) < confidence

    found = metrics.auroc(confidence=confidence, correct=correct)

    assert found == pytest.approx(roc_auc_score(correct, confidence), abs=1e-9)


@pytest.mark.parametrize(("case", "printed"), [("A", "18.80"), ("B", "121.57")])
def test_the_paper_convention_prints_the_toy_table_of_the_paper(case: str, printed: str) -> None:
    found = metrics.e_aurc(confidence=TOY[case], correct=TOY_CORRECT, convention="paper")

    assert f"{1000 * found:.2f}" == printed


@pytest.mark.parametrize(("case", "stated"), [("A", "109.1"), ("B", "168.8")])
def test_the_standard_convention_averages_the_ties_of_the_toy_table(case: str, stated: str) -> None:
    found = metrics.e_aurc(confidence=TOY[case], correct=TOY_CORRECT)

    assert f"{1000 * found:.1f}" == stated


def test_the_paper_convention_drops_the_earlier_of_two_ties_first() -> None:
    early_error = metrics.aurc(confidence=[0.5, 0.5], correct=[False, True], convention="paper")
    late_error = metrics.aurc(confidence=[0.5, 0.5], correct=[True, False], convention="paper")

    assert (early_error, late_error) == (0.25, 0.5)


@pytest.mark.parametrize("name", ALL)
def test_row_order_never_matters(name: str) -> None:
    rng = np.random.default_rng(1)
    confidence, correct = rng.random(2000).round(2), rng.random(2000) < 0.7
    order = rng.permutation(2000)

    shuffled = ALL[name](confidence=confidence[order], correct=correct[order])

    assert shuffled == ALL[name](confidence=confidence, correct=correct)


@pytest.mark.parametrize("name", ALL)
def test_only_the_order_of_the_confidence_matters(name: str) -> None:
    rng = np.random.default_rng(2)
    confidence, correct = rng.random(500).round(2), rng.random(500) < 0.7

    rescaled = ALL[name](confidence=8 * confidence - 5, correct=correct)

    assert rescaled == ALL[name](confidence=confidence, correct=correct)


@pytest.mark.parametrize("name", LOWER_IS_BETTER)
def test_a_perfect_ranking_has_the_lowest_area(name: str) -> None:
    correct = np.arange(6) < 4
    perfect = LOWER_IS_BETTER[name](confidence=-np.arange(6.0), correct=correct)
    rng = np.random.default_rng(3)

    others = [LOWER_IS_BETTER[name](confidence=rng.random(6), correct=correct) for _ in range(50)]

    assert perfect <= min(others)


def test_a_perfect_ranking_of_many_rows_has_almost_no_excess() -> None:
    confidence = np.linspace(1, 0, 100_000)

    assert 0 <= metrics.e_aurc(confidence=confidence, correct=confidence > 0.3) < 1e-5


def test_a_perfect_ranking_has_auroc_one() -> None:
    assert metrics.auroc(confidence=[0.9, 0.8, 0.2], correct=[True, True, False]) == 1.0


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_constant_confidence_of_zero_or_one_has_the_error_rate_as_aurc(level: float) -> None:
    assert metrics.aurc(confidence=[level] * 4, correct=[1, 0, 1, 1]) == pytest.approx(0.25)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_constant_confidence_of_zero_or_one_has_auroc_one_half(level: float) -> None:
    assert metrics.auroc(confidence=[level] * 4, correct=[1, 0, 1, 1]) == 0.5


def test_negative_zero_ties_with_zero() -> None:
    assert metrics.auroc(confidence=[-0.0, 0.0], correct=[True, False]) == 0.5


@pytest.mark.parametrize("convention", ["standard", "paper"])
def test_all_correct_has_no_excess(convention: str) -> None:
    assert metrics.e_aurc(confidence=[0.9, 0.1], correct=[True, True], convention=convention) == 0.0


def test_all_wrong_has_no_excess() -> None:
    assert metrics.e_aurc(confidence=[0.9, 0.1], correct=[False, False]) == 0.0


@pytest.mark.parametrize("correct", [True, False])
def test_auroc_is_nan_where_there_is_nothing_to_tell_apart(correct: bool) -> None:
    assert math.isnan(metrics.auroc(confidence=[0.9, 0.1], correct=[correct, correct]))


def test_the_mean_risk_of_the_curve_is_the_area() -> None:
    rng = np.random.default_rng(4)
    rows = {"confidence": rng.random(1000).round(1), "correct": rng.random(1000) < 0.6}

    assert metrics.risk_coverage_curve(**rows).risk.mean() == metrics.aurc(**rows)


def test_the_curve_averages_the_risk_inside_a_tie() -> None:
    curve = metrics.risk_coverage_curve(confidence=[0.9, 0.5, 0.5], correct=[True, False, True])

    np.testing.assert_allclose(curve.risk, [0, 0.25, 1 / 3])


def test_the_curve_names_the_threshold_of_each_coverage() -> None:
    curve = metrics.risk_coverage_curve(confidence=[0.5, 0.9, 0.5], correct=[True, False, True])

    assert curve.threshold.tolist() == [0.9, 0.5, 0.5]


def test_the_curve_ends_at_full_coverage() -> None:
    curve = metrics.risk_coverage_curve(confidence=[0.5, 0.9, 0.7, 0.1], correct=[1, 1, 1, 1])

    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]


def test_class_auroc_of_two_classes_equals_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    probs, labels = rng.dirichlet([1, 1], size=300), rng.integers(2, size=300)

    found = metrics.class_auroc(probs=probs, labels=labels)

    assert found == pytest.approx(roc_auc_score(labels, probs[:, 1]), abs=1e-9)


def test_class_auroc_of_more_classes_is_one_against_the_rest() -> None:
    rng = np.random.default_rng(6)
    probs, labels = rng.dirichlet([1, 2, 3, 1], size=300), rng.integers(4, size=300)

    found = metrics.class_auroc(probs=probs, labels=labels)

    assert found == pytest.approx(roc_auc_score(labels, probs, multi_class="ovr"), abs=1e-9)


def test_class_auroc_leaves_out_a_class_that_never_occurs() -> None:
    probs = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.6, 0.4, 0.0]]

    assert metrics.class_auroc(probs=probs, labels=[0, 1, 0]) == 1.0


def test_class_auroc_of_one_class_is_nan() -> None:
    assert math.isnan(metrics.class_auroc(probs=[[0.7, 0.2, 0.1]] * 2, labels=[0, 0]))


@pytest.mark.parametrize("convention", ["standard", "paper"])
def test_inputs_may_be_read_only(convention: str) -> None:
    confidence, correct = np.array([0.9, 0.1]), np.array([True, False])
    confidence.flags.writeable = correct.flags.writeable = False

    assert metrics.aurc(confidence=confidence, correct=correct, convention=convention) > 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("confidence", "correct", "words"),
    [
        ([], [], "confidence is empty: at least one row is needed"),
        ([0.5], [1, 0], "correct has 2 rows but 1 are expected"),
        ([[0.5]], [1], "confidence must have one dimension"),
        ([np.inf], [1], "confidence must be finite, got inf"),
        ([0.5], [0.5], "correct must hold only 0 and 1"),
    ],
)
def test_a_bad_input_is_named_in_the_error(name: str, confidence: object, correct: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ALL[name](confidence=confidence, correct=correct)


@pytest.mark.parametrize("name", LOWER_IS_BETTER)
def test_an_unknown_convention_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="convention must be one of 'standard', 'paper', got 'published'"):
        LOWER_IS_BETTER[name](confidence=[0.5], correct=[1], convention="published")
