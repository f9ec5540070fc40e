"""Paired tests, against slow versions, scipy and answers that are known."""

import math

import numpy as np
import pytest
from scipy import stats

from knn_ue_lab.reproduce.answers import Answers
from knn_ue_lab.reproduce.measures import MEASURES
from knn_ue_lab.reproduce.statistics import (
    Replicates,
    Resampled,
    holm,
    mean_and_std,
    paired_t_test,
)
from replicated import bootstrap


def answers(confidence, correct, group=None):
    rows = np.arange(len(confidence)) if group is None else np.asarray(group)
    return Answers(confidence=np.asarray(confidence, float), correct=np.asarray(correct, bool), group=rows)


def random_answers(rng, n_rows, *, better=0.0):
    correct = rng.random(n_rows) < 0.7
    confidence = np.clip(0.5 + 0.2 * correct * (1 + better) + 0.2 * rng.random(n_rows), 0, 1)
    return answers(confidence, correct)


MEAN_CONFIDENCE = Resampled(
    function=lambda one: float(one.confidence.mean()),
    drawn=lambda one, counts: one.confidence @ counts / counts.sum(axis=0),
)


def test_holm_equals_a_step_down_written_in_loops():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = rng.random(rng.integers(1, 9)).tolist()

        expected = [
            max(min(1.0, (len(p_values) - sum(x < q for x in p_values)) * q) for q in p_values if q <= p)
            for p in p_values
        ]

        assert holm(p_values) == pytest.approx(expected)


def test_holm_leaves_nan_alone_and_does_not_count_it():
    adjusted = holm([0.01, math.nan, 0.03])

    assert adjusted[0] == 0.02
    assert math.isnan(adjusted[1])
    assert adjusted[2] == 0.03


def test_the_t_test_equals_the_formula_with_scipys_distribution():
    first, second = np.array([3.1, 2.5, 4.0, 3.3]), np.array([2.9, 2.6, 3.1, 2.2])
    difference = first - second
    t = difference.mean() / (difference.std(ddof=1) / 2.0)

    assert paired_t_test(first, second) == pytest.approx(2 * stats.t.sf(abs(t), df=3))


@pytest.mark.parametrize(("shift", "p"), [(0.0, 1.0), (1.0, 0.0)])
def test_the_t_test_of_differences_without_spread_is_certain(shift, p):
    values = np.array([1.0, 2.0, 3.0])

    assert paired_t_test(values + shift, values) == p


def test_the_t_test_does_not_see_rounding():
    values = np.array([0.1, 0.2, 0.3])

    assert paired_t_test(values + np.array([1e-17, 3e-17, 5e-17]), values) == 1.0


def test_the_t_test_needs_two_seeds():
    assert math.isnan(paired_t_test(np.array([1.0]), np.array([0.0])))


def test_mean_and_std_are_those_of_a_sample():
    assert mean_and_std([1.0, 3.0]) == (2.0, pytest.approx(math.sqrt(2)))
    assert mean_and_std([1.0]) == (1.0, None)


def test_every_draw_equals_the_measure_of_the_same_texts_drawn_by_hand():
    rng = np.random.default_rng(1)
    samples = {name: [(random_answers(rng, 30),) for _ in range(2)] for name in ("a", "b")}
    ece = MEASURES["ece"].function

    measure = Resampled(function=ece, drawn=MEASURES["ece"].drawn)
    found = bootstrap(samples, {"ece": measure}, n_groups=[30], n_bootstrap=4, seed=7)["ece"]

    draws = np.random.default_rng(7)
    for number in range(4):
        rows = draws.integers(30, size=30)
        for place, name in enumerate(("a", "b")):
            for seed in range(2):
                one = samples[name][seed][0]
                drawn = answers(one.confidence[rows], one.correct[rows])
                assert found.drawn[place, seed, number] == pytest.approx(ece(drawn))


def test_sentences_are_drawn_whole_and_may_have_no_answers():
    sample = answers([0.1, 0.2, 0.9], [True, True, True], group=[0, 0, 2])

    size = Resampled(function=lambda one: float(len(one.group)), drawn=lambda _one, counts: counts.sum(axis=0))

    found = bootstrap({"a": [(sample,)]}, {"n": size}, n_groups=[3], n_bootstrap=200)["n"]

    assert set(found.drawn.ravel()) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert 0.0 in found.drawn
    assert found.measured.tolist() == [[3.0]]


def test_the_interval_lies_around_the_measured_difference_and_covers_what_normal_theory_says():
    rng = np.random.default_rng(2)
    base = rng.random(400)
    samples = {"a": [(answers(base + 0.0, base > 0),)], "b": [(answers(base[::-1] * 0.9, base > 0),)]}

    found = bootstrap(samples, {"mean": MEAN_CONFIDENCE}, n_groups=[400], n_bootstrap=3000)["mean"].compare("a", "b")

    paired = base - base[::-1] * 0.9
    half = 1.96 * paired.std(ddof=1) / 20
    assert found.difference == pytest.approx(paired.mean())
    assert found.low == pytest.approx(paired.mean() - half, abs=0.12 * half)
    assert found.high == pytest.approx(paired.mean() + half, abs=0.12 * half)


def test_comparing_the_other_way_round_changes_only_the_sign():
    rng = np.random.default_rng(3)
    replicates = Replicates(methods=("a", "b"), measured=rng.normal(size=(2, 3)), drawn=rng.normal(size=(2, 3, 500)))

    forth, back = replicates.compare("a", "b"), replicates.compare("b", "a")

    assert (forth.difference, forth.low, forth.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert forth.p == back.p


def test_seeds_that_disagree_widen_the_interval_as_much_as_their_mean_scatters():
    rng = np.random.default_rng(4)
    by_seed = rng.normal(size=5)
    drawn = np.zeros((2, 5, 20_000))
    drawn[0] = by_seed[:, None]
    replicates = Replicates(methods=("a", "b"), measured=np.stack([by_seed, np.zeros(5)]), drawn=drawn)

    found = replicates.compare("a", "b")

    standard_error = by_seed.std(ddof=1) / math.sqrt(5)
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.isf(0.025, 4) * standard_error, rel=0.01)


@pytest.mark.slow
def test_equal_methods_are_called_different_about_as_often_as_the_level_says():
    rng = np.random.default_rng(5)
    called = 0
    for _ in range(200):
        first, second = (answers(rng.random(60), rng.random(60) < 2) for _ in range(2))
        found = bootstrap({"a": [(first,)], "b": [(second,)]}, {"m": MEAN_CONFIDENCE}, n_groups=[60], n_bootstrap=200)
        called += found["m"].compare("a", "b").p < 0.05

    assert called <= 22  # 10 expected, and 22 or more once in 3000 times


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ece", "e_aurc"])
def test_models_that_differ_by_chance_are_called_different_about_as_often_as_the_level_says(name):
    rng = np.random.default_rng(1)
    measure = Resampled(function=MEASURES[name].function, drawn=MEASURES[name].drawn)
    n_texts, n_seeds, n_runs = 400, 8, 120

    def models(odds, correct):
        """Each seed sharpens all confidences by chance, and adds noise of its own to each."""
        scale, noise = np.exp(rng.normal(0.3, 0.05, size=n_seeds)), rng.normal(size=(n_seeds, n_texts))
        return [(answers(1 / (1 + np.exp(-(odds * a + 0.5 * b))), correct),) for a, b in zip(scale, noise, strict=True)]

    found = []
    for run in range(n_runs):
        odds = rng.normal(1.2, 1.5, size=n_texts)
        correct = rng.random(n_texts) < 1 / (1 + np.exp(-odds))
        both = {method: models(odds, correct) for method in ("a", "b")}
        draws = bootstrap(both, {"m": measure}, n_groups=[n_texts], n_bootstrap=100, seed=run)["m"]
        found.append(draws.compare("a", "b"))

    wrong = np.mean([one.p < 0.05 for one in found])
    width = np.mean([one.high - one.low for one in found]) / (2 * 1.96 * np.std([one.difference for one in found]))
    assert wrong <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / n_runs)
    assert 0.9 < width < 1.5  # an interval that is too wide hides what is there


def test_a_measure_that_is_never_defined_gives_nan_and_no_verdict():
    sample = answers([0.5, 0.6], [True, True])

    never = Resampled(function=lambda _one: math.nan, drawn=lambda _one, counts: np.full(counts.shape[1], math.nan))

    found = bootstrap({"a": [(sample,)], "b": [(sample,)]}, {"x": never}, n_groups=[2], n_bootstrap=5)

    assert math.isnan(found["x"].compare("a", "b").p)


def test_a_seed_that_one_method_lacks_is_left_out_of_its_pairs_only():
    rng = np.random.default_rng(6)
    a, b, c = ([(random_answers(rng, 40),) for _ in range(3)] for _ in range(3))

    found = bootstrap({"a": a, "b": [b[0], None, b[2]], "c": c}, {"m": MEAN_CONFIDENCE}, n_groups=[40], n_bootstrap=50)
    alone = bootstrap({"a": [a[0], a[2]], "b": [b[0], b[2]]}, {"m": MEAN_CONFIDENCE}, n_groups=[40], n_bootstrap=50)

    assert found["m"].compare("a", "b") == alone["m"].compare("a", "b")
    assert found["m"].compare("a", "c").n_seeds == 3


def test_methods_without_a_common_seed_cannot_be_compared():
    one = (answers([0.5, 0.6], [True, False]),)

    found = bootstrap({"a": [one, None], "b": [None, one]}, {"m": MEAN_CONFIDENCE}, n_groups=[2], n_bootstrap=5)["m"]

    assert math.isnan(found.compare("a", "b").p)
    assert found.compare("a", "b").n_seeds == 0
