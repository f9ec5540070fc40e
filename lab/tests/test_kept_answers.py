"""Packed answers: the same rows, and measures within a twentieth of a point of those of the unpacked ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.kept_answers import pack, unpack
from knn_ue_lab.reproduce.measures import MEASURES, detection_of

TESTED = [name for name, one in MEASURES.items() if one.tested and one.function is not None]


def texts(n_rows, n_classes, seed=0):
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.full(n_classes, 0.1), size=n_rows)  # most are almost sure
    labels = np.array([random.choice(n_classes, p=row) for row in probs])
    return Answers(
        confidence=probs.max(axis=1),
        group=np.arange(n_rows),
        correct=probs.argmax(axis=1) == labels,
        probs=probs.astype(np.float32),
        labels=labels,
        human=random.random(n_rows),
        proximity=random.random(n_rows),
    )


def entities(n_rows, seed=0):
    random = np.random.default_rng(seed)
    missed = random.random(n_rows) < 0.1
    confidence = np.where(missed, 0.0, random.beta(8, 1, size=n_rows))
    correct = (random.random(n_rows) < confidence) & ~missed
    return Answers(
        confidence=confidence, group=np.sort(random.integers(0, 300, n_rows)), correct=correct, missed=missed
    )


@pytest.mark.parametrize("answers", [texts(2000, 2), texts(2000, 3), entities(2000)], ids=["two", "three", "entities"])
@pytest.mark.parametrize("name", TESTED)
def test_a_measure_of_packed_answers_is_that_of_the_answers(name, answers):
    measure = MEASURES[name]

    expected, found = measure.function(answers), measure.function(unpack(pack(answers)))

    # Of thousands of rows a few cross the edge of a bin; what has no number has none again.
    assert found == pytest.approx(expected, abs=0.05 / measure.unit, nan_ok=True)


@pytest.mark.parametrize("spread", [1e-6, 1e-11], ids=["single", "double"])
def test_confidences_that_hardly_differ_keep_their_ranking(spread):
    random = np.random.default_rng(0)
    answers = Answers(confidence=1 / 150 + spread * random.random(2000), group=np.arange(2000))
    others = Answers(confidence=1 / 150 + spread * (random.random(2000) - 0.5), group=np.arange(2000))

    kept = [unpack(pack(one)) for one in (answers, others)]
    expected, found = (detection_of(*pair)["detection_auroc"] for pair in ((answers, others), kept))

    assert expected > 0.8
    assert found == pytest.approx(expected, abs=1e-3)
    assert pack(texts(2000, 2))["confidence.log_odds"].dtype == np.float16


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1)))
def test_probabilities_come_back_within_a_thousandth_in_their_order(confidence):
    confidence = np.resize(confidence, 600)  # those of fewer rows are kept as they are
    back = unpack(pack(Answers(confidence=confidence, group=np.arange(len(confidence))))).confidence

    assert np.abs(back - confidence).max() < 1e-3
    assert (np.diff(back[np.argsort(confidence, kind="stable")]) >= 0).all()
    assert (back[confidence == 0] == 0).all()
    assert (back[confidence == 1] == 1).all()


@pytest.mark.parametrize("n_rows", [30, 240, 2000])
@pytest.mark.parametrize("steps", [True, False], ids=["at-edges-of-bins", "near-each-other"])
def test_numbers_of_few_rows_and_of_edges_of_bins_are_those_of_the_answers(n_rows, steps):
    random = np.random.default_rng(0)
    close = 0.9 + 0.002 * random.random(n_rows)
    confidence = random.choice([0.5, 0.6, 0.7, 0.75, 0.8, 1.0], size=n_rows) if steps else close
    answers = Answers(confidence=confidence, group=np.arange(n_rows), correct=random.random(n_rows) < confidence)

    back = unpack(pack(answers))

    for name in ("ece", "e_aurc"):
        expected = MEASURES[name].function(answers)
        assert MEASURES[name].function(back) == pytest.approx(expected, abs=0.05 / MEASURES[name].unit)


def test_rows_and_labels_come_back_exactly():
    for answers in (texts(50, 2), texts(50, 3), entities(400)):
        back = unpack(pack(answers))

        for name in ("group", "correct", "missed", "labels"):
            assert np.array_equal(getattr(back, name), getattr(answers, name)) or getattr(answers, name) is None


def test_scores_that_are_no_probabilities_rank_as_before():
    random = np.random.default_rng(0)
    inside, outside = (
        Answers(confidence=random.normal(mean, 30, size=500), group=np.arange(500)) for mean in (0.0, 20.0)
    )

    expected, found = detection_of(inside, outside), detection_of(unpack(pack(inside)), unpack(pack(outside)))

    assert found == pytest.approx(expected, abs=1e-9)


def test_a_set_without_answers_is_kept():
    empty = Answers(confidence=np.zeros(0), group=np.zeros(0, dtype=int), correct=np.zeros(0, dtype=bool))

    assert len(unpack(pack(empty)).confidence) == 0
