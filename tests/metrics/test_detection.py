"""Out-of-domain detection against loops and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import reference
from knn_ue.errors import InvalidInputError
from knn_ue.metrics import OodDetection, ood_detection

scores = st.lists(
    st.one_of(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats(0, 1), st.floats(-9, 9)), min_size=1, max_size=50
)
quick = settings(max_examples=80, deadline=None)


def both_samples(decimals: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.beta(5, 2, size=700).round(decimals), rng.beta(3, 3, size=400).round(decimals)


@quick
@given(scores, scores)
def test_fpr95_of_in_domain_equals_the_reference(inside: list[float], outside: list[float]) -> None:
    found = ood_detection(id_confidence=inside, ood_confidence=outside)

    assert found.fpr95 == pytest.approx(reference.fpr95(inside, outside), abs=1e-9)


@quick
@given(scores, scores)
def test_fpr95_of_out_of_domain_equals_the_reference(inside: list[float], outside: list[float]) -> None:
    found = ood_detection(id_confidence=inside, ood_confidence=outside, positive="out")

    assert found.fpr95 == pytest.approx(reference.fpr95([-x for x in outside], [-x for x in inside]), abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_auroc_equals_scikit_learn(decimals: int) -> None:
    inside, outside = both_samples(decimals)

    found = ood_detection(id_confidence=inside, ood_confidence=outside)

    expected = roc_auc_score([1] * len(inside) + [0] * len(outside), [*inside, *outside])
    assert found.auroc == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_aupr_in_equals_scikit_learn(decimals: int) -> None:
    inside, outside = both_samples(decimals)

    found = ood_detection(id_confidence=inside, ood_confidence=outside)

    expected = average_precision_score([1] * len(inside) + [0] * len(outside), [*inside, *outside])
    assert found.aupr_in == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_aupr_out_equals_scikit_learn(decimals: int) -> None:
    inside, outside = both_samples(decimals)

    found = ood_detection(id_confidence=inside, ood_confidence=outside)

    expected = average_precision_score([0] * len(inside) + [1] * len(outside), [*-inside, *-outside])
    assert found.aupr_out == pytest.approx(expected, abs=1e-9)


def test_a_threshold_that_finds_exactly_95_percent_is_enough() -> None:
    inside = [0.9] * 19 + [0.1]

    assert ood_detection(id_confidence=inside, ood_confidence=[0.5, 0.95]).fpr95 == 0.5


@pytest.mark.parametrize("positive", ["in", "out"])
def test_a_perfect_separation_is_best(positive: str) -> None:
    found = ood_detection(id_confidence=[1.0, 0.9], ood_confidence=[0.2, 0.0, 0.1], positive=positive)

    assert found == OodDetection(fpr95=0.0, auroc=1.0, aupr_in=1.0, aupr_out=1.0)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_constant_confidence_of_zero_or_one_separates_nothing(level: float) -> None:
    found = ood_detection(id_confidence=[level] * 3, ood_confidence=[level])

    assert found == OodDetection(fpr95=1.0, auroc=0.5, aupr_in=0.75, aupr_out=0.25)


def test_row_order_never_matters() -> None:
    inside, outside = both_samples(1)

    assert ood_detection(id_confidence=inside, ood_confidence=outside) == ood_detection(
        id_confidence=inside[::-1], ood_confidence=outside[::-1]
    )


def test_the_positive_class_changes_fpr95_alone() -> None:
    inside, outside = both_samples(2)
    found = ood_detection(id_confidence=inside, ood_confidence=outside)

    other = ood_detection(id_confidence=inside, ood_confidence=outside, positive="out")

    assert replace(other, fpr95=found.fpr95) == found


def test_inputs_may_be_read_only() -> None:
    inside, outside = both_samples(2)
    inside.flags.writeable = outside.flags.writeable = False

    assert ood_detection(id_confidence=inside, ood_confidence=outside).auroc > 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"id_confidence": [], "ood_confidence": [0.5]}, "id_confidence is empty"),
        ({"id_confidence": [0.5], "ood_confidence": []}, "ood_confidence is empty"),
        ({"id_confidence": [0.5], "ood_confidence": [np.nan]}, "ood_confidence must be finite, got nan"),
        (
            {"id_confidence": [0.5], "ood_confidence": [0.5], "positive": "id"},
            "positive must be one of 'in', 'out', got 'id'",
        ),
    ],
)
def test_a_bad_input_is_named_in_the_error(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ood_detection(**arguments)
