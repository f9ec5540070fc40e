"""The promised speeds, with room to spare: see benchmarks/metrics.py for the measured ones."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from knn_ue.metrics import aurc, expected_calibration_error, score_entities, sentences

pytestmark = pytest.mark.slow


def fastest(step: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("decimals", [2, 17])
def test_ece_and_aurc_of_two_million_rows_cost_at_most_three_argsorts(decimals: int) -> None:
    confidence = np.random.default_rng(0).random(2_000_000).round(decimals)
    correct = confidence > 0.4

    argsort = fastest(lambda: np.argsort(confidence))
    ece = fastest(lambda: expected_calibration_error(confidence=confidence, correct=correct))
    area = fastest(lambda: aurc(confidence=confidence, correct=correct))

    assert ece + area <= 3 * argsort


def test_a_million_tokens_are_scored_in_seconds() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(50_000), 20)
    gold, predicted = rng.choice(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], size=(2, 1_000_000))
    confidence = sentences(rng.random(1_000_000), groups)

    taken = fastest(
        lambda: score_entities(
            gold=sentences(gold, groups), predicted=sentences(predicted, groups), confidence=confidence
        ),
        repeats=1,
    )

    assert taken < 10
