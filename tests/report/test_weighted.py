"""A report of weighted rows says so, and its sentences, pictures and mistakes count as its numbers do."""

import dataclasses
import json

import numpy as np
import pytest

from fakes import FixedTemperature
from knn_ue.evaluation import answered_sets
from knn_ue.report import build_report
from knn_ue.report.headline import headline

METHOD = {"a": FixedTemperature(2.0)}


@pytest.fixture(scope="module")
def test_set(toy):
    return toy[2].take(slice(0, 100))


@pytest.fixture(scope="module")
def report(test_set):
    far = dataclasses.replace(test_set, labels=None)
    weights = {"test": np.arange(100) % 4, "far": 1.0 + np.arange(100) % 3}
    return build_report(METHOD, test_set, {"far": far}, n_bootstrap=3, sample_weight=weights)


def test_every_form_of_a_report_says_that_rows_are_weighted(report):
    for text in (report.to_html(), report.to_markdown(), "\n".join(json.loads(report.to_json())["notes"])):
        assert "The rows of test and far are weighted" in text
    assert "test: 100 rows, weighted" in report.to_html()
    assert json.loads(report.to_json())["tables"]["test"]["weighted"] is True


def test_a_report_without_weights_says_nothing_of_them(test_set):
    report = build_report(METHOD, test_set, n_bootstrap=0)

    assert report.notes == () and "weighted" not in report.to_markdown()


def test_the_numbers_of_a_report_are_weighted(report, test_set):
    weights = np.arange(100) % 4
    right = test_set.predicted == test_set.labels

    assert report.evaluation["a"]["accuracy"] == pytest.approx(np.average(right, weights=weights))


def test_the_first_sentence_is_that_of_repeated_rows(test_set):
    weights = np.arange(100) % 4
    twice = test_set.take(np.repeat(np.arange(100), weights))

    found, expected = (
        headline(answered_sets(METHOD, outputs, sample_weight=given), "a", []).lead[0]
        for outputs, given in ((test_set, weights), (twice, None))
    )

    assert found == expected.replace("(in domain)", "(in domain, weighted)")


def test_the_words_under_the_pictures_are_those_of_repeated_rows(test_set):
    pytest.importorskip("matplotlib")
    weights = np.arange(100) % 4
    twice = test_set.take(np.repeat(np.arange(100), weights))

    found, expected = (
        {x.kind: x.description for x in build_report(METHOD, outputs, n_bootstrap=0, sample_weight=given).pictures}
        for outputs, given in ((test_set, weights), (twice, None))
    )

    assert found["confidence"] == expected["confidence"]
    assert found["reliability"] == expected["reliability"]


def test_a_mistake_that_does_not_count_is_not_shown(test_set):
    wrong = np.flatnonzero(test_set.predicted != test_set.labels)
    weights = np.ones(100)
    weights[wrong[1:]] = 0.0

    report = build_report(METHOD, test_set, n_bootstrap=0, sample_weight=weights)

    assert len(wrong) > 1
    assert [mistake.row for mistake in report.mistakes] == [wrong[0]]
