"""A report about a method of no family of ours: one that finds other classes more probable, or explains itself."""

import numpy as np
import pytest

from fakes import FixedTemperature, Flipping, Pointing
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import answered_sets
from knn_ue.reasons import percent
from knn_ue.report import build_report
from knn_ue.report.headline import headline


@pytest.fixture(scope="module")
def test_set(toy):
    return toy[2].take(slice(0, 200))


@pytest.fixture(scope="module")
def right_rows(test_set):
    """Two rows that the model answers right, where the method finds the wrong class more probable."""
    return np.flatnonzero(test_set.predicted == test_set.labels)[:2]


@pytest.fixture
def undrawn(monkeypatch):
    """Drawing takes most of the time, and one test looks at the pictures."""
    monkeypatch.setattr("knn_ue.report.report.draw_pictures", lambda *_: ())


@pytest.fixture(scope="module")
def report(test_set, right_rows):
    return build_report({"flip": Flipping(right_rows)}, test_set, n_bootstrap=3)


@pytest.mark.slow
def test_the_lead_says_where_the_method_finds_another_class_more_probable(report):
    assert report.headline.lead[-1] == (
        "No prediction changes, only the confidence. In 2 of 200 rows of test, flip finds another class more probable."
    )


def test_a_right_answer_stays_right_whatever_class_is_most_probable(undrawn, test_set, right_rows):
    report = build_report({"flip": Flipping(right_rows)}, test_set, n_bootstrap=0, n_mistakes=200)

    assert not set(right_rows.tolist()) & {mistake.row for mistake in report.mistakes}
    assert "calibration changes none" in report.to_markdown()


def test_a_mistake_shows_the_models_answer_and_what_both_give_it(undrawn, test_set):
    wrong = np.flatnonzero(test_set.predicted != test_set.labels)
    prediction = Flipping(wrong).predict(test_set)

    found = build_report({"flip": Flipping(wrong)}, test_set, n_bootstrap=0, n_mistakes=2).mistakes

    assert [mistake.side for mistake in found] == ["before", "before", "after", "after"]
    for mistake in found:
        assert mistake.predicted == test_set.class_names[test_set.predicted[mistake.row]] != mistake.truth
        assert mistake.confidence == prediction.confidence[mistake.row] <= 0.5
        assert mistake.raw_confidence == prediction.raw_confidence[mistake.row] >= 0.5


@pytest.mark.slow
def test_the_pictures_are_of_the_models_answers(report, test_set, right_rows):
    risk, histogram = (next(x for x in report.pictures if x.kind == kind) for kind in ("risk-coverage", "confidence"))
    confidence = Flipping(right_rows).predict(test_set).confidence
    correct = test_set.predicted == test_set.labels

    assert f"up to {percent(1 - correct.mean())} when all are answered" in risk.description
    assert f"flip is {percent(confidence[correct].mean())} sure when right" in histogram.description


def test_neighbors_come_from_any_method_that_explains(undrawn, test_set):
    report = build_report({"point": Pointing(1.0)}, test_set, n_bootstrap=0)

    assert report.explained_by == "point"
    assert "a stored one" in report.to_html() and "a stored one" in report.to_markdown()


def test_a_given_explainer_is_called_by_its_kind(undrawn, test_set):
    report = build_report({"a": FixedTemperature(1.0)}, test_set, explain_with=Pointing(1.0), n_bootstrap=0)

    assert "found by <bdi>pointing</bdi>" in report.to_html()


def test_an_explainer_that_explains_nothing_is_refused(undrawn, test_set):
    method = FixedTemperature(1.0)

    with pytest.raises(InvalidInputError, match="explain_with must be a method that explains, such as knn-ue: fixed"):
        build_report({"a": method}, test_set, explain_with=method, n_bootstrap=0)


def test_a_method_that_was_not_compared_is_reported_as_such(test_set):
    sets = answered_sets({"a": FixedTemperature(1.0)}, test_set)

    verdict = headline(sets, "a", comparisons=[]).verdicts[0]

    assert verdict.startswith("Against the raw model: not compared")


def test_nothing_is_called_significant_without_intervals(undrawn, test_set):
    report = build_report({"a": FixedTemperature(9.0), "b": FixedTemperature(3.0)}, test_set, n_bootstrap=0)

    assert report.headline.verdicts and "ignificant" not in " ".join(report.headline.verdicts)
