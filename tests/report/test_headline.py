"""The sentences a report begins with, and the numbers in them."""

import dataclasses

import pytest

from fakes import FixedTemperature
from knn_ue.arrays import softmax
from knn_ue.evaluation import Comparison, answered_sets
from knn_ue.reasons import percent
from knn_ue.report.headline import headline


def small(toy, **changes):
    return dataclasses.replace(toy[2].take(slice(0, 100)), **changes)


def answered(toy):
    return answered_sets({"a": FixedTemperature(3.0)}, small(toy))


def comparison(**changes):
    values = {"set_name": "test", "kind": "calibration", "method": "a", "other": "raw", "ours": 0.1, "theirs": 0.2}
    return Comparison(**{**values, "low": -0.2, "high": -0.05, **changes})


def test_each_set_has_a_sentence_that_anyone_understands(hard_toy):
    test = hard_toy[2]
    gap = softmax(test.logits).max(axis=1).mean() - (test.predicted == test.labels).mean()

    lead = headline(answered_sets({"a": FixedTemperature(1.0)}, test), "a", []).lead

    said = f"overstates its accuracy by {100 * gap:.1f} points"
    assert gap > 0.005
    assert lead[0] == f"On test (in domain), the model {said}; calibrated with a, by {100 * gap:.1f} points."
    assert lead[1] == "No prediction changes, only the confidence."


@pytest.mark.parametrize(
    ("temperature", "said"), [(1.0, "by "), (100.0, "it understates its accuracy by ")], ids=["same kind", "other kind"]
)
def test_a_gap_of_another_kind_is_named_again(hard_toy, temperature, said):
    lead = headline(answered_sets({"a": FixedTemperature(temperature)}, hard_toy[2]), "a", []).lead

    assert lead[0].split("calibrated with a, ")[1].startswith(said)


def test_a_set_without_labels_has_its_mean_confidence(toy):
    outside = small(toy, labels=None)

    lead = headline(answered_sets({"a": FixedTemperature(3.0)}, small(toy), {"new": outside}), "a", []).lead

    mean = percent(softmax(outside.logits).max(axis=1).mean())
    assert lead[1].startswith(f"On new (no labels), the mean confidence is {mean} before and ")


def test_the_headline_names_a_loss_and_leaves_the_numbers_to_the_tables(toy):
    lost = comparison(other="temperature", ours=0.3, theirs=0.2, low=0.05, high=0.2)

    found = headline(answered(toy), "a", [comparison(), lost])

    assert "Against temperature scaling: significantly worse in calibration error (test)." in found.verdicts


def test_the_headline_names_another_method_that_does_better(toy):
    lost = comparison(other="b", kind="ranking", ours=0.3, theirs=0.2, low=0.05, high=0.2)

    found = headline(answered(toy), "a", [comparison(), lost])

    assert found.verdicts[-1] == "Significantly worse than b in ranking of answers by confidence (test)."
