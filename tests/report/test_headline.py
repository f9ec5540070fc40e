"""The sentences a report begins with, and the numbers in them."""

import dataclasses

from fakes import FixedTemperature
from knn_ue.arrays import softmax
from knn_ue.evaluation import Comparison, answered_sets
from knn_ue.report.headline import headline, percent


def small(toy, **changes):
    return dataclasses.replace(toy[2].take(slice(0, 100)), **changes)


def answered(toy):
    return answered_sets({"a": FixedTemperature(3.0)}, small(toy))


def comparison(**changes):
    values = {"set_name": "test", "kind": "calibration", "method": "a", "other": "raw", "ours": 0.1, "theirs": 0.2}
    return Comparison(**{**values, "low": -0.2, "high": -0.05, **changes})


def test_the_headline_tells_how_often_sure_answers_are_right(hard_toy):
    test = hard_toy[2]
    sure = softmax(test.logits).max(axis=1) >= 0.9
    accuracy = (test.predicted == test.labels)[sure].mean()

    lead = headline(answered_sets({"a": FixedTemperature(3.0)}, test), "a", []).lead[0]

    assert f"({sure.sum():,} of 500 test rows" in lead
    assert f"it is right {percent(accuracy)} of the time" in lead


def test_the_headline_names_a_loss_with_both_numbers(toy):
    lost = comparison(other="temperature", ours=0.3, theirs=0.2, low=0.05, high=0.2)

    found = headline(answered(toy), "a", [comparison(), lost])

    assert (
        "Against temperature scaling: significantly worse in calibration error (test: 30.00 % against 20.00 %)."
        in found.verdicts
    )


def test_the_headline_names_another_method_that_does_better(toy):
    lost = comparison(other="b", kind="ranking", ours=0.3, theirs=0.2, low=0.05, high=0.2)

    found = headline(answered(toy), "a", [comparison(), lost])

    assert found.verdicts[-1] == (
        "Significantly worse than b in ranking of answers by confidence (test: 300.00 against 200.00)."
    )
