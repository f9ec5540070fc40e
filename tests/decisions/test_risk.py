"""The abstention threshold: its guarantee by simulation, and its numbers by hand."""

import numpy as np
import pytest

from knn_ue.decisions import RiskThreshold, Scored, promised
from knn_ue.decisions.risk import choose_threshold, risk_bound, rows_needed
from knn_ue.errors import InvalidInputError
from marks import slow_but

TARGET, DELTA = 0.1, 0.1


def draw(rng, n_rows):
    """Return confidence, uniform on [0, 1], and correctness: an answer at confidence c is wrong with (1 - c) / 2."""
    confidence = rng.uniform(size=n_rows)
    return confidence, rng.uniform(size=n_rows) >= (1 - confidence) / 2


def true_risk(threshold):
    """Return the mean of (1 - c) / 2 over c in [threshold, 1]."""
    return (1 - threshold) / 4


def naive_threshold(confidence, correct):
    """Return the lowest confidence above which the rows at hand have an empirical risk of at most the target."""
    order = np.argsort(-confidence)
    risk = np.cumsum(~correct[order]) / np.arange(1, len(order) + 1)
    (passed,) = np.nonzero(risk <= TARGET)
    return confidence[order][passed[-1]] if len(passed) else 1.0


@pytest.mark.parametrize("n_rows", slow_but(60, [60, 300, 1500]))
def test_the_true_risk_exceeds_the_target_in_at_most_delta_of_all_draws(n_rows):
    rng = np.random.default_rng(n_rows)
    draws = [draw(rng, n_rows) for _ in range(2000)]

    chosen = [choose_threshold(confidence=c, correct=ok, target_risk=TARGET, delta=DELTA) for c, ok in draws]

    exceeded = np.mean([result.found and true_risk(result.threshold) > TARGET for result in chosen])
    assert exceeded <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / len(draws))


@pytest.mark.parametrize("n_rows", slow_but(60, [60, 300, 1500]))
def test_where_every_threshold_has_a_risk_just_above_the_target_one_is_found_in_at_most_delta_of_all_draws(n_rows):
    rng = np.random.default_rng(n_rows)
    draws = [(rng.uniform(size=n_rows), rng.uniform(size=n_rows) >= 1.01 * TARGET) for _ in range(1000)]

    chosen = [choose_threshold(confidence=c, correct=ok, target_risk=TARGET, delta=DELTA) for c, ok in draws]

    found = np.mean([result.found for result in chosen])
    assert found <= DELTA + 2 * np.sqrt(DELTA * (1 - DELTA) / len(draws))


def test_a_threshold_is_found_in_most_draws():
    rng = np.random.default_rng(6)
    draws = [draw(rng, 1000) for _ in range(200)]

    chosen = [choose_threshold(confidence=c, correct=ok, target_risk=TARGET, delta=DELTA) for c, ok in draws]

    assert np.mean([result.found for result in chosen]) > 0.8


def test_the_empirical_risk_alone_exceeds_the_target_far_more_often_than_delta():
    rng = np.random.default_rng(0)
    draws = [draw(rng, 300) for _ in range(500)]

    exceeded = np.mean([true_risk(naive_threshold(c, ok)) > TARGET for c, ok in draws])

    assert exceeded > 3 * DELTA


@pytest.mark.slow
def test_the_guarantee_holds_where_many_rows_share_one_confidence():
    rng = np.random.default_rng(1)
    levels = np.array([0.6, 0.8, 0.9, 1.0])  # answered from the highest: risks 0, 0.05, 0.1, then above the target
    wrong = np.array([0.4, 0.2, 0.1, 0.0])
    draws = [(level, rng.uniform(size=400) >= wrong[level]) for level in rng.integers(4, size=(2000, 400))]

    chosen = [choose_threshold(confidence=levels[x], correct=ok, target_risk=0.099, delta=DELTA) for x, ok in draws]

    exceeded = np.mean([result.found and result.threshold < 0.9 for result in chosen])
    assert exceeded <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / len(draws))


def test_more_rows_allow_a_higher_coverage():
    rng = np.random.default_rng(2)
    few, many = draw(rng, 200), draw(rng, 50000)

    coverage = [choose_threshold(confidence=c, correct=ok, target_risk=0.105).coverage for c, ok in (few, many)]

    assert coverage[0] < coverage[1] == pytest.approx(0.4)  # of all rows, 42 % have a risk of 0.105


def test_a_model_without_errors_answers_everything():
    confidence = np.linspace(0.5, 1.0, 200)

    chosen = choose_threshold(confidence=confidence, correct=np.ones(200, dtype=bool), target_risk=0.05)

    assert (chosen.threshold, chosen.coverage, chosen.n_errors) == (0.5, 1.0, 0)


def test_the_first_failure_ends_the_search():
    correct = np.ones(1000, dtype=bool)
    correct[100:150] = False  # rows 0 .. 149 have a risk of a third, all 1000 only 5 %

    chosen = choose_threshold(confidence=np.linspace(1, 0, 1000), correct=correct, target_risk=0.1)

    assert chosen.n_answered == 100


def test_the_reported_numbers_are_those_of_the_chosen_threshold():
    confidence, correct = draw(np.random.default_rng(3), 1000)

    chosen = choose_threshold(confidence=confidence, correct=correct, target_risk=0.1)

    answered = confidence >= chosen.threshold
    assert (chosen.n_answered, chosen.n_errors) == (answered.sum(), (~correct[answered]).sum())


def test_the_order_of_the_rows_does_not_matter():
    confidence, correct = draw(np.random.default_rng(4), 500)
    order = np.random.default_rng(5).permutation(500)

    chosen = [choose_threshold(confidence=confidence[x], correct=correct[x], target_risk=0.1) for x in (order, ...)]

    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(("n_errors", "n_rows"), [(0, 45), (3, 50), (20, 400)])
def test_at_the_bound_so_few_errors_have_probability_delta(n_errors, n_rows):
    from scipy.stats import binom

    (bound,) = risk_bound(np.array([n_errors]), np.array([n_rows]), DELTA)

    assert binom.cdf(n_errors, n_rows, bound) == pytest.approx(DELTA)


def test_the_bound_is_one_where_every_answer_is_wrong():
    assert risk_bound(np.array([7]), np.array([7]), DELTA) == [1.0]


@pytest.mark.parametrize(("target_risk", "delta"), [(0.05, 0.1), (0.01, 0.05), (0.3, 0.2)])
def test_rows_needed_is_the_smallest_number_whose_bound_without_errors_passes(target_risk, delta):
    needed = rows_needed(target_risk, delta)

    bounds = risk_bound(np.zeros(2, dtype=int), np.array([needed - 1, needed]), delta)

    assert bounds[1] <= target_risk < bounds[0]


def test_where_the_best_rows_are_too_often_wrong_the_numbers_are_those_of_the_first_threshold_tested():
    correct = np.arange(1000) % 4 > 0

    chosen = choose_threshold(confidence=np.linspace(1, 0, 1000), correct=correct, target_risk=0.05)

    assert not chosen.found
    assert (chosen.n_answered, chosen.n_errors) == (100, 25)


@pytest.mark.parametrize("n_rows", [0, 1, 44])
def test_where_the_rows_are_too_few_the_result_says_how_many_are_needed(n_rows):
    chosen = RiskThreshold(target_risk=0.05).fit(scored(np.ones(n_rows), np.ones(n_rows, dtype=bool)))

    assert (chosen.found, chosen.coverage) == (False, 0.0)
    assert chosen.n_needed >= 45
    assert "more are needed for 95 %" in str(chosen)


@pytest.mark.parametrize("name", ["target_risk", "delta"])
@pytest.mark.parametrize("value", [0, 1, 5, -0.1, True, float("nan"), "0.1"])
def test_a_risk_or_level_outside_zero_and_one_is_refused(name, value):
    options = {"target_risk": 0.1, "delta": 0.1} | {name: value}

    with pytest.raises(InvalidInputError, match=f"{name} must lie strictly between 0 and 1"):
        choose_threshold(confidence=np.ones(5), correct=np.ones(5, dtype=bool), **options)


def test_where_the_target_cannot_be_promised_the_sentence_names_one_that_can_and_how_many_rows_are_missing():
    confidence, correct = draw(np.random.default_rng(7), 200)

    chosen = RiskThreshold(target_risk=0.02).fit(scored(confidence, correct))

    assert not chosen.found
    assert choose_threshold(confidence=confidence, correct=correct, target_risk=chosen.best_risk).found
    best = f"{100 - 100 * chosen.best_risk:.0f} %"
    assert str(chosen) == (
        f"a precision of 98 % cannot be promised with these 200 held-out rows, {best} can; "
        "about 7,600 more are needed for 98 %"
    )


@pytest.mark.slow
def test_with_about_the_rows_it_says_are_needed_a_target_can_mostly_be_promised():
    rng = np.random.default_rng(8)
    first = [RiskThreshold(target_risk=0.05).fit(scored(*draw(rng, 300))) for _ in range(40)]
    needed = [one.n_needed for one in first if not one.found and one.n_needed is not None]

    found = [RiskThreshold(target_risk=0.05).fit(scored(*draw(rng, 2 * n))).found for n in needed]

    assert len(needed) > 10
    assert np.mean(found) > 0.6


def test_a_precision_and_a_risk_are_one_promise():
    rest = (0.1, None, "lac")
    (by_precision,), (by_risk,) = promised(0.95, None, *rest), promised(None, 0.05, *rest)

    assert by_precision == by_risk
    with pytest.raises(InvalidInputError, match="two names for one promise"):
        promised(0.95, 0.05, *rest)
    with pytest.raises(InvalidInputError, match="target_precision must lie strictly between 0 and 1, got 95"):
        promised(95, None, *rest)


def scored(confidence, correct):
    return Scored(confidence=confidence, class_names=("a", "b"), correct=correct)
