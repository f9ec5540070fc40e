"""The watch over a promise: its wealth by plain loops, false alarms under peeking and delay by simulation."""

import math

import numpy as np
import pytest

from knn_ue.decisions import Losses, PredictionSets, RiskThreshold, Scored, Watchable, watch
from knn_ue.decisions.watching import log_wealth
from knn_ue.errors import InvalidInputError

ALARM = 0.1


def rows(rng, n, precision):
    return Losses(shown=np.ones(n), wrong=(rng.random(n) > precision).astype(float), risk=0.05, cap=1)


def sentences(rng, n, precision, size=4):
    """Return sentences of up to `size` entities that are right or wrong together."""
    shown = rng.integers(0, size + 1, n).astype(float)
    return Losses(shown=shown, wrong=shown * (rng.random(n) > precision), risk=0.05, cap=size)


def joined(first, second):
    shown, wrong = (np.concatenate([getattr(x, name) for x in (first, second)]) for name in ("shown", "wrong"))
    return Losses(shown=shown, wrong=wrong, risk=first.risk, cap=first.cap)


def test_wealth_is_that_of_a_plain_loop():
    losses = sentences(np.random.default_rng(0), 250, 0.9)
    sizes = [size / (losses.risk * losses.cap) for size in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)]
    wealth: dict[tuple[int, float], float] = {}
    expected = []
    for number, (shown, wrong) in enumerate(zip(losses.shown, losses.wrong, strict=True)):
        begun = number // 100 + 1
        for bet in sizes:
            wealth.setdefault((begun, bet), 1 / (begun * (begun + 1)) / len(sizes))
        wealth = {key: kept * (1 + key[1] * (wrong - losses.risk * shown)) for key, kept in wealth.items()}
        expected.append(math.log(sum(wealth.values()) + 1 / (begun + 1)))

    np.testing.assert_allclose(log_wealth(losses), expected, rtol=1e-9)


@pytest.mark.parametrize("drawn", [rows, sentences])
def test_looking_after_every_label_raises_no_more_than_the_stated_share_of_false_alarms(drawn):
    rng = np.random.default_rng(1)

    alarms = [not watch(drawn(rng, 2000, 0.95), "95 %", alarm=ALARM).holds for _ in range(300)]

    assert np.mean(alarms) <= ALARM + 2.5 * np.sqrt(ALARM * (1 - ALARM) / 300)


@pytest.mark.parametrize("drawn", [rows, sentences])
def test_a_change_is_noticed_within_a_few_hundred_labels(drawn):
    rng = np.random.default_rng(2)
    changed = [joined(drawn(rng, 1000, 0.97), drawn(rng, 1000, 0.85)) for _ in range(60)]

    found = [watch(losses, "95 %", alarm=ALARM) for losses in changed]

    delays = [(one.broken_after or 9999) - 1000 for one in found]
    assert np.median(delays) < 300


def test_what_was_broken_stays_broken_and_the_sentence_says_since_when():
    rng = np.random.default_rng(3)
    losses = joined(rows(rng, 200, 0.6), rows(rng, 5000, 1.0))

    found = watch(losses, "95 %", alarm=0.01)

    assert not found.holds and found.broken_after < 200
    assert str(found).startswith("broken (evidence 1 : more than 1,000,000 after 5200 labels, alarm after ")


def test_a_longer_file_never_takes_an_alarm_back():
    rng = np.random.default_rng(4)
    losses = rows(rng, 400, 0.85)
    parts = [Losses(shown=losses.shown[:n], wrong=losses.wrong[:n], risk=0.05, cap=1) for n in (100, 200, 400)]

    after = [watch(part, "95 %", alarm=ALARM).broken_after for part in parts]

    assert after[-1] is not None
    assert all(earlier in (None, after[-1]) for earlier in after)


def scored(rng, n, right):
    probs = np.column_stack([1 - rng.random(n) / 2, np.zeros(n)])
    probs[:, 1] = 1 - probs[:, 0]
    correct = rng.random(n) < right
    return Scored(
        confidence=probs[:, 0],
        class_names=("a", "b"),
        probs=probs,
        predicted=np.zeros(n, dtype=int),
        correct=correct,
        labels=np.where(correct, 0, 1),
    )


def test_a_threshold_is_watched_on_the_answers_it_gives():
    rng = np.random.default_rng(5)
    promised = RiskThreshold(target_risk=0.1).fit(scored(rng, 400, 0.97))
    later = scored(rng, 300, 0.97)

    losses = promised.losses(later)

    assert isinstance(promised, Watchable)
    np.testing.assert_array_equal(losses.shown == 1, later.confidence >= promised.threshold)
    np.testing.assert_array_equal(losses.wrong, losses.shown * ~later.correct)


def test_where_nothing_was_promised_nothing_is_watched():
    rng = np.random.default_rng(6)

    promised = RiskThreshold(target_risk=0.01).fit(scored(rng, 100, 0.5))

    assert promised.losses(scored(rng, 10, 0.5)) is None


def test_sets_are_watched_by_what_their_rows_guarantee():
    rng = np.random.default_rng(7)
    alarms = []
    for _ in range(150):
        fitted = PredictionSets(coverage=0.9).fit(scored(rng, 60, 0.8))
        alarms.append(not watch(fitted.losses(scored(rng, 1500, 0.8)), str(fitted), alarm=0.05).holds)

    assert np.mean(alarms) <= 0.1 + 0.05 + 2.5 * np.sqrt(0.15 * 0.85 / 150)


def test_an_alarm_that_is_no_share_is_refused():
    with pytest.raises(InvalidInputError, match="alarm must lie strictly between 0 and 1"):
        watch(rows(np.random.default_rng(8), 10, 0.9), "95 %", alarm=0)
