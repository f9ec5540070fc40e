"""All draws at once give what one draw after the other gives, text by text."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.metrics.bootstrap import GroupRows
from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.measures import DETECTION, MEASURES
from knn_ue_lab.reproduce.statistics import Resampled
from replicated import bootstrap

KNOWN = MEASURES | DETECTION
FUNCTIONS = {name: measure.function for name, measure in KNOWN.items()}
N_TEXTS = 40


def texts(rng, *, n_texts=N_TEXTS, n_classes=3, digits=None):
    """Answers to single texts; `digits` rounds the confidence, so that there are ties."""
    probs = rng.dirichlet(np.ones(n_classes), n_texts).astype(np.float32)
    labels = rng.integers(n_classes, size=n_texts)
    human = np.where(rng.random(n_texts) < 0.3, np.nan, rng.random(n_texts))
    confidence = probs.max(axis=1).astype(float)
    return Answers(
        confidence=confidence if digits is None else confidence.round(digits),
        correct=probs.argmax(axis=1) == labels,
        probs=probs,
        labels=labels,
        human=human,
        group=np.arange(n_texts),
        proximity=rng.random(n_texts),
    )


def entities(rng, *, share=0.7):
    """Answers to sentences, several or none in each, with missed ones at confidence 0."""
    group = np.sort(rng.choice(N_TEXTS, size=60))
    missed = rng.random(60) > share
    confidence = np.where(missed, 0.0, rng.random(60).round(1))
    return Answers(
        confidence=confidence,
        correct=(rng.random(60) < confidence) & ~missed,
        missed=missed,
        group=group,
        proximity=rng.random(60).round(1),
    )


def one_by_one(samples, functions, n_groups, n_draws, seed):
    """The slow way: draw texts, take their answers in the order of the data set, measure them."""
    drawn = {name: np.empty((len(samples), n_draws)) for name in functions}
    rng = np.random.default_rng(seed)
    for number in range(n_draws):
        chosen = [rng.integers(size, size=size) for size in n_groups]
        for place, sample in enumerate(samples):
            rows = [
                GroupRows(one.group, size)(texts) for one, size, texts in zip(sample, n_groups, chosen, strict=True)
            ]
            taken = [one.take(np.sort(which)) for one, which in zip(sample, rows, strict=True)]
            for name, function in functions.items():
                drawn[name][place, number] = function(*taken)
    return drawn


def assert_equal_ways(samples, names, n_groups):
    measures = {name: Resampled(function=FUNCTIONS[name], drawn=KNOWN[name].drawn) for name in names}
    by_method = {str(number): [sample] for number, sample in enumerate(samples)}

    fast = bootstrap(by_method, measures, n_groups=n_groups, n_bootstrap=60, seed=3)

    slow = one_by_one(samples, {name: FUNCTIONS[name] for name in names}, n_groups, 60, 3)
    for name in names:
        np.testing.assert_allclose(fast[name].drawn[:, 0], slow[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("digits", [None, 1])
def test_measures_of_texts_are_those_of_one_draw_after_the_other(n_classes, digits):
    rng = np.random.default_rng(n_classes)
    samples = [(texts(rng, n_classes=n_classes, digits=digits),) for _ in range(3)]

    assert_equal_ways(samples, [name for name in MEASURES if name != "f1"], [N_TEXTS])


@pytest.mark.slow
def test_measures_of_entities_are_those_of_one_draw_after_the_other():
    samples = [(entities(np.random.default_rng(seed)),) for seed in range(3)]

    assert_equal_ways(samples, [name for name in MEASURES if name not in ("human", "class_auroc")], [N_TEXTS])


@pytest.mark.slow
@pytest.mark.parametrize("make", [texts, entities])
def test_detection_is_that_of_one_draw_after_the_other(make):
    rng = np.random.default_rng(5)
    samples = [(make(rng), texts(rng, n_texts=25, digits=1)) for _ in range(3)]

    assert_equal_ways(samples, DETECTION, [N_TEXTS, 25])


@pytest.mark.slow
def test_draws_without_any_answer_are_not_a_number():
    rng = np.random.default_rng(6)
    rare = entities(rng).take(np.array([0]))  # one entity in forty sentences: a third of the draws have none
    names = [name for name in MEASURES if name not in ("human", "class_auroc")]

    assert_equal_ways([(rare,)], names, [N_TEXTS])
    assert_equal_ways([(rare, texts(rng))], DETECTION, [N_TEXTS, N_TEXTS])
    assert_equal_ways([(replace(rare, missed=np.array([True]), correct=np.array([False])),)], names, [N_TEXTS])


def test_sets_whose_labels_are_not_known_have_no_scores_and_can_be_detected():
    rng = np.random.default_rng(8)
    foreign = Answers(confidence=rng.random(20), group=np.arange(20))

    assert_equal_ways([(foreign,)], MEASURES, [20])
    assert_equal_ways([(texts(rng), foreign)], DETECTION, [N_TEXTS, 20])


def test_all_right_and_all_wrong_have_their_limits():
    rng = np.random.default_rng(7)
    for correct in (True, False):
        one = replace(texts(rng), correct=np.full(N_TEXTS, correct))
        assert_equal_ways([(one,)], ["e_aurc", "e_aurc_published", "auroc", "confidence_right"], [N_TEXTS])
