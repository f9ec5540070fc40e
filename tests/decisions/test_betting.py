"""The precision of entities: its promise by simulation with errors in clusters, its wealth by plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest

from knn_ue.decisions import RiskThreshold, Scored
from knn_ue.decisions.betting import Rung, Units, climb, passes, rank_within, rungs, units_needed
from knn_ue.decisions.risk import choose_threshold
from marks import slow_but

DELTA = 0.1


def sentences(rng, n_units, *, level=None, size=4):
    """Return sentences of 1 to `size` entities that are right together; the higher its score, the better a sentence.

    The precision of all with a score of at least t is (1 + t) / 2, or `level` everywhere.
    """
    sizes = rng.integers(1, size + 1, n_units)
    mood = rng.random(n_units)
    right = rng.random(n_units) < (mood if level is None else level)
    unit = np.repeat(np.arange(n_units), sizes)
    return Units(score=mood[unit], wrong=1.0 - right[unit], unit=unit, n_units=n_units)


def promise(rng, n_units, risk, **how):
    held_out, others = sentences(rng, n_units, **how), sentences(rng, n_units, **how)
    n_passed, rung = climb(held_out, rungs(others), risk=risk, delta=DELTA, others=others)
    return rung if n_passed else None


def too_often(broken):
    """Return whether the share of broken promises is above delta by more than chance explains."""
    return np.mean(broken) > DELTA + 2.5 * np.sqrt(DELTA * (1 - DELTA) / len(broken))


@pytest.mark.parametrize("n_units", slow_but(100, [50, 100, 400]))
def test_the_true_precision_is_below_the_target_in_at_most_delta_of_all_draws(n_units):
    rng = np.random.default_rng(n_units)

    chosen = [promise(rng, n_units, 0.1) for _ in range(1000)]

    assert not too_often([rung is not None and (1 + rung.threshold) / 2 < 0.9 for rung in chosen])


@pytest.mark.parametrize(("n_units", "risk"), [(200, 0.1), (100, 0.2)])
def test_where_every_threshold_is_just_too_bad_one_is_found_in_at_most_delta_of_all_draws(n_units, risk):
    rng = np.random.default_rng(n_units)

    chosen = [promise(rng, n_units, risk, level=1 - 1.01 * risk, size=8) for _ in range(1000)]

    assert not too_often([rung is not None for rung in chosen])


def test_taking_the_entities_as_independent_breaks_the_same_promise():
    rng = np.random.default_rng(3)
    draws = [sentences(rng, 200, level=0.899, size=8) for _ in range(300)]

    found = [choose_threshold(confidence=x.score, correct=x.wrong == 0, target_risk=0.1).found for x in draws]

    assert np.mean(found) > 2 * DELTA


def test_documents_of_any_length_keep_the_promise_that_counts_long_ones_as_the_cap():
    rng = np.random.default_rng(4)

    def drawn():
        return replace(sentences(rng, 100, level=0.795, size=30), weighted=True)

    found = [climb(drawn(), rungs(drawn()), risk=0.2, delta=DELTA)[0] > 0 for _ in range(600)]

    assert not too_often(found)


def test_a_good_extractor_is_mostly_promised_something_with_enough_sentences():
    rng = np.random.default_rng(5)

    found = [promise(rng, 600, 0.2) is not None for _ in range(60)]

    assert np.mean(found) > 0.7


def test_wealth_in_the_first_order_is_that_of_a_plain_loop():
    units = sentences(np.random.default_rng(6), 150, level=0.97)
    risk, cap, goal = 0.1, 4, -math.log(DELTA)
    order = np.random.default_rng(0).permutation(150)
    shown, wrong = units.counts(0.0, cap)
    wealth = total = squares = 0.0
    reached = False
    for number, place in enumerate(order, start=1):
        mean = (total - risk / 2) / number
        variance = max((squares + 0.25) / number - mean**2, 1e-9)
        bet = min(math.sqrt(2 * goal / (150 * variance)), 0.9 / ((1 - risk) * cap))
        won = wrong[place] - risk * shown[place]
        wealth += math.log1p(-bet * won)
        total, squares = total + won, squares + won**2
        reached = reached or wealth >= goal

    assert reached  # or the next line would say nothing
    assert passes(units, Rung(threshold=0.0, cap=cap), risk=risk, delta=DELTA)


def test_the_bets_look_at_no_later_sentence():
    from knn_ue.decisions.betting import bets

    won = np.random.default_rng(7).normal(size=(2, 40))
    changed = won.copy()
    changed[:, 25:] = 9.0

    before, after = (bets(x, risk=0.1, delta=DELTA, cap=3) for x in (won, changed))

    np.testing.assert_array_equal(before[:, :26], after[:, :26])
    assert (before * (1 - 0.1) * 3 < 1).all()


def test_at_most_the_cap_of_a_sentence_is_shown():
    units = Units(score=np.array([0.9, 0.8, 0.7, 0.6]), wrong=np.zeros(4), unit=np.array([0, 0, 0, 1]), n_units=3)

    assert units.shown(0.65, 2).tolist() == [True, True, False, False]
    assert [x.tolist() for x in units.counts(0.5, 2)] == [[2.0, 1.0], [0.0, 0.0]]


def test_the_cap_hides_at_most_a_tenth_of_what_is_shown():
    units = sentences(np.random.default_rng(8), 500, size=20)

    for rung in rungs(units):
        reached = (units.score >= rung.threshold).sum()
        assert units.counts(rung.threshold, rung.cap)[0].sum() >= 0.9 * reached
        if rung.cap > 1:
            assert units.counts(rung.threshold, rung.cap - 1)[0].sum() < 0.9 * reached


def test_ranks_are_those_of_a_plain_sort():
    rng = np.random.default_rng(9)
    score, unit = rng.random(60), rng.integers(0, 12, 60)

    ranks = rank_within(score, unit)

    for number in range(60):
        assert ranks[number] == np.sum((unit == unit[number]) & (score > score[number]))


def scored(units, others=None):
    return Scored(
        confidence=units.score,
        class_names=("O", "B-PER"),
        correct=units.wrong == 0,
        sentence=units.unit,
        n_units=units.n_units,
        others=others,
    )


def test_what_is_served_is_what_was_promised():
    rng = np.random.default_rng(10)
    held_out, others, new = (sentences(rng, 300, level=0.9, size=6) for _ in range(3))

    promised = RiskThreshold(target_risk=0.2).fit(scored(held_out, scored(others)))

    given = ~np.array([one["abstained"] for one in promised.fields(scored(new))])
    np.testing.assert_array_equal(given, new.shown(promised.threshold, promised.cap))
    assert np.bincount(new.unit[given]).max() == promised.cap
    assert f"at most {promised.cap} of a sentence, in sentences drawn like the 300 held-out sentences" in str(promised)


def test_where_nothing_can_be_promised_the_sentence_says_how_many_more_sentences_are_needed():
    rng = np.random.default_rng(11)
    held_out, others = sentences(rng, 180), sentences(rng, 180)

    promised = RiskThreshold(target_risk=0.05).fit(scored(held_out, scored(others)))

    assert not promised.found
    assert (
        f"95 % cannot be promised with these 180 held-out sentences, {100 - 100 * promised.best_risk:.0f} % can"
        in str(promised)
    )
    assert "more are needed for 95 %" in str(promised)


def test_more_sentences_are_needed_for_a_higher_precision():
    units = sentences(np.random.default_rng(12), 400)

    needed = [units_needed(units, rungs(units), risk=risk, delta=DELTA) for risk in (0.3, 0.2, 0.1)]

    assert needed[0] < needed[1] < needed[2]
    assert units_needed(replace(units, wrong=np.ones_like(units.wrong)), rungs(units), risk=0.1, delta=DELTA) is None
