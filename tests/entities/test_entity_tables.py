"""The comparison of entity scores: each model has its own entities, slow methods their own sentences."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from knn_ue import metrics

PLACE = Path(__file__).parents[2] / "benchmarks" / "entity_tables.py"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("entity_tables", PLACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["entity_tables"] = module
    spec.loader.exec_module(module)
    return module


def cell(scores, correct, sentence, n_sentences, *, n_gold=4):
    found = {"n_gold": n_gold, "n_sentences": n_sentences, "sentence": sentence, "correct": correct}
    return found | dict.fromkeys(("own", "product", "mean", "min"), scores)


def test_each_side_of_a_draw_has_the_entities_of_its_own_model(tables):
    ours = cell([1.0, 1.0], [1, 1], [0, 1], 2)
    theirs = cell([1.0, 1.0, 1.0, 1.0, 1.0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1], 2)

    low, high = tables.interval([(ours, theirs)], "product", metrics.expected_calibration_error, 100)

    # Ours is always right. Of theirs one in three is right in the first sentence and none in the second.
    assert low == pytest.approx(-100)
    assert high == pytest.approx(-100 * 2 / 3)


def test_entities_are_ordered_by_sentence_with_what_belongs_to_them(tables):
    confidence, correct, bounds = tables.by_sentence(cell([0.3, 0.1, 0.2], [1, 0, 1], [2, 0, 2], 3), "own")

    assert confidence.tolist() == [0.1, 0.3, 0.2]
    assert correct.tolist() == [False, True, True]
    assert bounds.tolist() == [0, 1, 1, 3]


def test_a_slow_method_is_compared_with_ours_on_its_sentences_and_seeds(tables):
    rng = np.random.default_rng(0)
    ours = {
        seed: cell(rng.random(60).tolist(), rng.integers(0, 2, 60).tolist(), np.repeat(range(30), 2).tolist(), 30)
        for seed in (0, 1)
    }
    slow = {1: cell([0.5, 1.0], [1, 0], [0, 3], 10)}

    assert tables.is_short(slow, ours)
    assert not tables.is_short(ours, ours)
    found = tables.on_fewer(slow, ours)

    expected = metrics.expected_calibration_error(
        confidence=np.array(ours[1]["own"][:20]), correct=np.array(ours[1]["correct"][:20], dtype=bool)
    )
    assert (found["n_sentences"], found["seeds"]) == (10, 1)
    assert found["ece"] == [75.0, pytest.approx(100 * expected, abs=1e-3)]


def test_a_model_that_finds_less_than_half_of_what_the_plain_one_does_is_no_rival(tables):
    plain = cell([0.9] * 4, [1, 1, 1, 1], [0, 1, 2, 3], 4)
    poor = cell([0.25] * 4, [1, 0, 0, 0], [0, 1, 2, 3], 4)
    fair = cell([0.5] * 4, [1, 1, 0, 0], [0, 1, 2, 3], 4)

    assert tables.unlearned({"softmax": {0: plain}, "poor": {0: poor}, "fair": {0: fair}}) == {"poor": 25.0}
    assert tables.unlearned({"poor": {0: poor}}) == {}
