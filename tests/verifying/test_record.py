"""The record of the judged model: counts and Bayes' rule in plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.verifying.record import N_FOLDS, agreement, confusion, folds_of, left_out_agreement, posterior


def slow_confusion(gold, answers, n_classes, n_answers):
    m = len(gold)
    right = (sum(g == a for g, a in zip(gold, answers, strict=True)) + 1) / (m + 2)
    share = [(sum(a == j for a in answers) + 1) / (m + n_answers) for j in range(n_answers)]
    table = []
    for c in range(n_classes):
        rest = sum(share[j] for j in range(n_answers) if j != c)
        n_c = sum(g == c for g in gold)
        line = []
        for j in range(n_answers):
            typical = right if j == c else (1 - right) * share[j] / rest
            n_cj = sum(g == c and a == j for g, a in zip(gold, answers, strict=True))
            line.append((n_cj + 4 * typical) / (n_c + 4))
        table.append(line)
    return table


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 60)
    answers = np.where(rng.random(60) < 0.6, gold, rng.integers(0, 5, 60))  # 3 and 4 are no classes
    return rng.dirichlet(np.ones(3), 60), gold, answers


def test_the_confusion_is_that_of_plain_loops(rows):
    _, gold, answers = rows

    found = confusion(gold, answers, n_classes=3, n_answers=5)

    np.testing.assert_allclose(found, slow_confusion(gold.tolist(), answers.tolist(), 3, 5))


@given(pairs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30))
def test_each_class_has_a_distribution_over_answers(pairs):
    gold, answers = np.array(pairs).T

    said = confusion(gold, answers, n_classes=3, n_answers=5)

    np.testing.assert_allclose(said.sum(axis=1), 1.0)
    assert (said > 0).all()


def test_the_posterior_is_bayes_rule(rows):
    probs, gold, answers = rows
    said = confusion(gold, answers, n_classes=3, n_answers=5)

    found = posterior(probs, answers, said)

    for i in range(len(gold)):
        joint = [probs[i, c] * said[c, answers[i]] for c in range(3)]
        np.testing.assert_allclose(found[i], np.array(joint) / sum(joint))


def test_an_answer_that_is_no_class_cannot_be_right(rows):
    probs, gold, answers = rows

    agreed = agreement(probs, answers, confusion(gold, answers, n_classes=3, n_answers=5))

    assert not agreed[answers >= 3].any() and (agreed[answers < 3] > 0).all()


def test_left_out_agreement_never_counts_a_rows_own_fold(rows):
    probs, gold, answers = rows
    folds = folds_of(gold)

    found = left_out_agreement(probs, gold, answers, n_answers=5)

    for i in range(len(gold)):
        kept = folds != folds[i]
        said = np.array(slow_confusion(gold[kept].tolist(), answers[kept].tolist(), 3, 5))
        expected = agreement(probs[i : i + 1], answers[i : i + 1], said)[0]
        assert found[i] == pytest.approx(expected)


def test_each_class_is_spread_over_the_folds(rows):
    _, gold, _ = rows

    counts = np.array([np.bincount(folds_of(gold)[gold == c], minlength=N_FOLDS) for c in range(3)])

    assert (np.ptp(counts, axis=1) <= 1).all()
