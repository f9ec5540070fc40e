"""What a reader learns from training rows, and how it is joined with the model's own score."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.verifying import InstantReader
from knn_ue.verifying.opened import LearnedClasses, fit_join, learn_classes, measure_gain


@pytest.fixture(scope="module")
def embedded():
    """Two classes, one direction that separates them: training rows and others."""
    rng = np.random.default_rng(0)
    gold = rng.integers(2, size=500)
    vectors = rng.normal(size=(500, 8)) + np.outer(2.0 * gold, np.eye(8)[0])
    return vectors.astype(np.float32), gold


def learned(embedded, n_rows=200):
    vectors, gold = embedded
    return learn_classes({"embedding": vectors[:n_rows]}, gold[:n_rows], n_classes=2)


def test_it_reads_rows_that_it_has_not_seen(embedded):
    vectors, gold = embedded

    probs = learned(embedded).probs({"embedding": vectors[200:]})

    right = probs[np.arange(300), gold[200:]]
    assert (probs.argmax(axis=1) == gold[200:]).mean() > 0.8
    assert -np.log(right).mean() < 0.45


def test_its_scores_are_those_of_a_ridge_in_plain_linear_algebra(embedded):
    vectors, gold = embedded
    found = learned(embedded)
    rows = vectors[:200].astype(np.float64)
    centered = rows - rows.mean(axis=0)
    centered /= np.sqrt((centered**2).sum(axis=1).mean())
    targets = np.eye(2)[gold[:200]] - np.bincount(gold[:200]) / 200
    errors = []

    for penalty in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0):
        weights = np.linalg.solve(centered.T @ centered + penalty * np.eye(8), centered.T @ targets)
        errors.append(np.abs(weights - found.weights["embedding"]).max())

    assert min(errors) < 1e-5


def test_beside_an_embedding_nothing_else_is_read(embedded):
    vectors, gold = embedded
    noise = np.random.default_rng(1).normal(size=(200, 4))

    found = learn_classes({"embedding": vectors[:200], "static": noise}, gold[:200], n_classes=2)

    assert list(found.views) == ["embedding"]


def test_no_training_row_is_kept(embedded):
    found = learned(embedded)

    assert sum(array.size for array in found.arrays().values()) < 100


def test_what_is_stored_reads_alike_sparse_views_among_it():
    texts = [f"a {'good' if number % 2 else 'bad'} film {number}" for number in range(60)]
    views = InstantReader().read(texts)
    found = learn_classes(views, np.arange(60) % 2, n_classes=2)

    again = LearnedClasses.from_arrays(found.arrays(), sharpness=found.sharpness)

    np.testing.assert_array_equal(again.probs(views), found.probs(views))
    assert (found.probs(views).argmax(axis=1) == np.arange(60) % 2).mean() > 0.9


def judged(n_rows, *, seed):
    """Return answers that are right on seven of ten rows, what a reader that sees the truth says, and a blind score."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=n_rows)
    answers = np.where(rng.random(n_rows) < 0.7, gold, 1 - gold)
    probs = np.full((n_rows, 2), 0.1)
    probs[np.arange(n_rows), np.where(rng.random(n_rows) < 0.9, gold, 1 - gold)] = 0.9
    return probs, answers, gold, rng.normal(size=n_rows)


def test_joined_scores_rank_and_are_calibrated():
    join = fit_join(*judged(400, seed=0))
    probs, answers, gold, own = judged(4000, seed=1)

    scores = join.scores(probs, answers, own)

    assert metrics.auroc(confidence=scores, correct=answers == gold) > 0.85
    assert metrics.expected_calibration_error(confidence=scores, correct=answers == gold) < 0.04


def test_a_reader_that_sees_nothing_does_not_pay():
    probs, answers, gold, own = judged(400, seed=2)

    gain = measure_gain(np.full_like(probs, 0.5), answers, gold, own)

    assert not gain.pays


def test_a_reader_that_sees_the_truth_pays():
    gain = measure_gain(*judged(400, seed=3))

    assert gain.pays
    assert gain.after < gain.before
