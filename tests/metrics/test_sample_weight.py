"""A weight is how often a row counts: whole weights equal repeated rows, in every metric."""

import inspect
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.metrics.detection import ood_measure
from knn_ue.metrics.weights import Draws, value_of_each_draw

OF_TOP_LABEL = {
    "ece": metrics.expected_calibration_error,
    "mce": metrics.maximum_calibration_error,
    "adaptive": metrics.adaptive_calibration_error,
    "debiased": metrics.debiased_calibration_error,
    "brier": metrics.brier_top_label,
    "nll": metrics.nll_top_label,
}
OF_SCORES = {
    "aurc": metrics.aurc,
    "aurc published": partial(metrics.aurc, convention="paper"),
    "e-aurc": metrics.e_aurc,
    "e-aurc published": partial(metrics.e_aurc, convention="paper"),
    "auroc": metrics.auroc,
}
OF_PROBS = {
    "class-wise": metrics.class_wise_calibration_error,
    "brier": metrics.brier_multiclass,
    "nll": metrics.negative_log_likelihood,
    "accuracy": metrics.accuracy,
    "class auroc": metrics.class_auroc,
}
WITHOUT_WEIGHT = {"bootstrap_interval", "extract_entities", "mark_entities", "score_entities", "sentences"}

quick = settings(max_examples=25, deadline=None)
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)


@st.composite
def weighted_rows(draw, *, whole=True):
    """Confidence with ties, correctness and weights, at least one of them positive."""
    n_rows = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    confidence = rng.choice([0.0, 0.1, 0.35, 0.5, 0.77, 0.9, 1.0], size=n_rows)
    weight = (
        rng.integers(0, 5, size=n_rows) if whole else rng.integers(0, 5, size=n_rows) * rng.uniform(0.1, 1.0, n_rows)
    )
    weight[rng.integers(n_rows)] = 3
    return confidence, rng.random(n_rows) < draw(st.sampled_from([0.0, 0.5, 1.0])), weight


@st.composite
def weighted_probs(draw):
    n_rows, n_classes = draw(st.integers(1, 10)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    probs = rng.dirichlet(np.ones(n_classes), n_rows).round(2)
    probs[:, 0] = 1.0 - probs[:, 1:].sum(axis=1)
    probs = np.abs(probs)  # the first may be -0.01
    return (
        probs / probs.sum(axis=1, keepdims=True),
        rng.integers(n_classes, size=n_rows),
        rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows)),
    )


def test_every_metric_takes_a_sample_weight():
    functions = {name for name in metrics.__all__ if name.islower()} - WITHOUT_WEIGHT

    missing = [
        name
        for name in functions
        if not any("sample_weight" in argument for argument in inspect.signature(getattr(metrics, name)).parameters)
    ]

    assert missing == []


@pytest.mark.parametrize("metric", [*OF_TOP_LABEL.values(), *OF_SCORES.values()], ids=[*OF_TOP_LABEL, *OF_SCORES])
@quick
@given(rows=weighted_rows())
def test_whole_weights_of_confidence_equal_repeated_rows(metric, rows):
    confidence, correct, weight = rows

    found = metric(confidence=confidence, correct=correct, sample_weight=weight)

    close(found, metric(confidence=np.repeat(confidence, weight), correct=np.repeat(correct, weight)))


@pytest.mark.parametrize("metric", OF_PROBS.values(), ids=OF_PROBS)
@quick
@given(rows=weighted_probs())
def test_whole_weights_of_probabilities_equal_repeated_rows(metric, rows):
    probs, labels, weight = rows

    found = metric(probs=probs, labels=labels, sample_weight=weight)

    close(found, metric(probs=np.repeat(probs, weight, axis=0), labels=np.repeat(labels, weight)))


@pytest.mark.parametrize(
    ("metric", "slow"),
    [
        (metrics.expected_calibration_error, reference.ece),
        (metrics.maximum_calibration_error, reference.mce),
        (metrics.adaptive_calibration_error, reference.adaptive_ece),
        (metrics.brier_top_label, reference.brier_top_label),
        (metrics.aurc, reference.aurc),
        (partial(metrics.aurc, convention="paper"), reference.aurc_paper),
    ],
)
@quick
@given(rows=weighted_rows())
def test_whole_weights_equal_the_slow_reference_on_repeated_rows(metric, slow, rows):
    confidence, correct, weight = rows

    found = metric(confidence=confidence, correct=correct, sample_weight=weight)

    close(found, slow(np.repeat(confidence, weight).tolist(), np.repeat(correct, weight).tolist()))


@pytest.mark.parametrize("positive", ["in", "out"])
@quick
@given(inside=weighted_rows(), outside=weighted_rows())
def test_whole_weights_of_detection_equal_repeated_rows(positive, inside, outside):
    (known, _, known_weight), (others, _, other_weight) = inside, outside

    found = metrics.ood_detection(
        id_confidence=known,
        ood_confidence=others,
        positive=positive,
        id_sample_weight=known_weight,
        ood_sample_weight=other_weight,
    )

    repeated = metrics.ood_detection(
        id_confidence=np.repeat(known, known_weight),
        ood_confidence=np.repeat(others, other_weight),
        positive=positive,
    )
    close(list(vars(found).values()), list(vars(repeated).values()))


@quick
@given(inside=weighted_rows(), outside=weighted_rows())
def test_weights_of_one_side_leave_the_other_as_it_is(inside, outside):
    (known, _, _), (others, _, weight) = inside, outside

    found = metrics.ood_detection(id_confidence=known, ood_confidence=others, ood_sample_weight=weight)

    repeated = metrics.ood_detection(id_confidence=known, ood_confidence=np.repeat(others, weight))
    close(list(vars(found).values()), list(vars(repeated).values()))


@pytest.mark.parametrize("binning", ["width", "mass"])
@quick
@given(rows=weighted_rows())
def test_bins_of_whole_weights_are_those_of_repeated_rows(binning, rows):
    confidence, correct, weight = rows

    found = metrics.reliability_bins(confidence=confidence, correct=correct, binning=binning, sample_weight=weight)

    expected = metrics.reliability_bins(
        confidence=np.repeat(confidence, weight), correct=np.repeat(correct, weight), binning=binning
    )
    for name in ("edges", "count", "confidence", "accuracy", "share", "gap"):
        close(getattr(found, name), getattr(expected, name), err_msg=name)


@quick
@given(rows=weighted_rows())
def test_the_weighted_curve_passes_through_points_of_the_curve_of_repeated_rows(rows):
    confidence, correct, weight = rows

    found = metrics.risk_coverage_curve(confidence=confidence, correct=correct, sample_weight=weight)

    whole = metrics.risk_coverage_curve(confidence=np.repeat(confidence, weight), correct=np.repeat(correct, weight))
    place = np.rint(found.coverage * weight.sum()).astype(int) - 1
    assert len(place) == np.count_nonzero(weight)
    for name in ("coverage", "risk", "threshold"):
        close(getattr(found, name), getattr(whole, name)[place], err_msg=name)


@quick
@given(rows=weighted_rows())
def test_weighted_f1_is_that_of_repeated_entities(rows):
    confidence, correct, weight = rows
    missed = ~correct & (confidence < 0.4)

    found = metrics.entity_f1(correct=correct, missed=missed, sample_weight=weight)

    close(found, metrics.entity_f1(correct=np.repeat(correct, weight), missed=np.repeat(missed, weight)))


def test_f1_of_answers_is_that_of_the_scored_entities():
    scores = metrics.score_entities(
        gold=[["B-PER", "O", "B-LOC"]], predicted=[["B-PER", "B-LOC", "O"]], confidence=[[0.9, 0.8, 0.7]]
    )

    confidence, correct = scores.ranked(include_missed=True)

    missed = np.arange(len(confidence)) >= len(scores.confidence)
    assert metrics.entity_f1(correct=correct, missed=missed) == scores.f1


def test_a_missed_entity_that_is_correct_is_refused():
    with pytest.raises(InvalidInputError, match="a missed entity cannot be correct"):
        metrics.entity_f1(correct=[True], missed=[True])


def test_weighted_coverage_is_that_of_repeated_rows():
    exact, found = np.array([[4, 7], [2, -1], [5, 6]]), np.array([[7, 9], [3, 5], [5, 6]])
    weight = np.array([3, 1, 2])

    weighted = metrics.neighbor_coverage(exact_ids=exact, found_ids=found, sample_weight=weight)

    repeated = [np.repeat(ids, weight, axis=0) for ids in (exact, found)]
    assert weighted == pytest.approx(metrics.neighbor_coverage(exact_ids=repeated[0], found_ids=repeated[1]))


@pytest.mark.parametrize("metric", [*OF_TOP_LABEL.values(), *OF_SCORES.values()], ids=[*OF_TOP_LABEL, *OF_SCORES])
@quick
@given(rows=weighted_rows())
def test_weights_of_one_change_nothing(metric, rows):
    confidence, correct, _ = rows

    found = metric(confidence=confidence, correct=correct, sample_weight=np.ones(len(correct)))

    close(found, metric(confidence=confidence, correct=correct))


@pytest.mark.parametrize("metric", [*OF_TOP_LABEL.values(), *OF_SCORES.values()], ids=[*OF_TOP_LABEL, *OF_SCORES])
@quick
@given(rows=weighted_rows(whole=False))
def test_a_row_may_be_split_into_two_that_share_its_weight(metric, rows):
    confidence, correct, weight = rows

    found = metric(confidence=confidence, correct=correct, sample_weight=weight)

    split = np.append(weight[:1] * 0.25, np.append(weight[1:], weight[:1] * 0.75))
    twice = {"confidence": np.append(confidence, confidence[:1]), "correct": np.append(correct, correct[:1])}
    # The published AURC depends on the order of ties, and here equal rows no longer stand together.
    if not (isinstance(metric, partial) and (confidence == confidence[0]).sum() > 1):
        np.testing.assert_allclose(metric(**twice, sample_weight=split), found, rtol=1e-7, atol=1e-9)


@quick
@given(rows=weighted_rows(whole=False))
def test_weights_close_to_whole_numbers_give_areas_close_to_theirs(rows):
    confidence, correct, weight = rows
    whole = np.ceil(weight)

    near = metrics.aurc(confidence=confidence, correct=correct, sample_weight=whole + 1e-9 * (whole > 0))

    assert near == pytest.approx(metrics.aurc(confidence=confidence, correct=correct, sample_weight=whole), abs=1e-6)


@pytest.mark.parametrize("metric", [*OF_TOP_LABEL.values(), *OF_SCORES.values()], ids=[*OF_TOP_LABEL, *OF_SCORES])
@quick
@given(rows=weighted_rows(), seed=st.integers(0, 1000))
def test_many_draws_at_once_are_one_draw_after_the_other(metric, rows, seed):
    confidence, correct, weight = rows
    counts = np.random.default_rng(seed).integers(0, 3, size=(len(weight), 5)).astype(float)
    counts[:, 0], counts[:, 1] = weight, 0.0

    found = value_of_each_draw(metric, confidence=confidence, correct=correct, sample_weight=Draws(counts))

    expected = [
        metric(confidence=confidence, correct=correct, sample_weight=column) if column.any() else np.nan
        for column in counts.T
    ]
    close(found, expected)


def test_one_number_of_detection_is_that_of_all():
    sets = {"id_confidence": [0.9, 0.8, 0.5], "ood_confidence": [0.7, 0.3]}
    weights = {"id_sample_weight": [1, 2, 1], "ood_sample_weight": [3, 1]}

    for options in ({}, weights):
        for name, number in vars(metrics.ood_detection(**sets, **options)).items():
            assert ood_measure(name, **sets, **options) == number


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1.0, -1.0], "sample_weight must not be negative, got -1: use 0 to leave a row out"),
        ([0.0, 0.0], "sample_weight is zero for every row: at least one row must count"),
        ([1.0], "sample_weight has 1 rows but 2 are expected"),
        ([[1.0], [1.0]], "sample_weight must have one dimension"),
        ([1.0, np.nan], "sample_weight must be finite"),
    ],
)
def test_bad_weights_are_refused_in_one_sentence(weight, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        metrics.brier_top_label(confidence=[0.5, 0.6], correct=[True, False], sample_weight=weight)


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 1 / 7])
def test_equal_weights_of_any_size_bin_and_find_the_rows_that_no_weights_do(weight):
    rng = np.random.default_rng(0)
    confidence = rng.random(100)  # ten bins of ten rows, and a threshold at row 95: sums of weights just miss both
    rows = {"confidence": confidence, "correct": rng.random(100) < confidence}
    sides = {"id_confidence": confidence, "ood_confidence": confidence - 0.2}

    error = metrics.adaptive_calibration_error(**rows, sample_weight=np.full(100, weight))
    rate = metrics.ood_detection(**sides, id_sample_weight=np.full(100, weight)).fpr95

    assert error == pytest.approx(metrics.adaptive_calibration_error(**rows))
    assert rate == pytest.approx(metrics.ood_detection(**sides).fpr95)


def test_weights_stay_as_they_were():
    weight = np.array([1.0, 2.0, 0.0])
    before = weight.copy()

    metrics.e_aurc(confidence=[0.5, 0.6, 0.7], correct=[True, False, True], sample_weight=weight)

    assert (weight == before).all()
