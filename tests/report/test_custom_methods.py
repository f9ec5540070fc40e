"""A report about a method of no family of ours: one that changes predictions, or explains in its own way."""

import numpy as np
import pytest

from fakes import FixedTemperature, Flipping, Pointing
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import answered_sets
from knn_ue.report import build_report
from knn_ue.report.headline import headline


@pytest.fixture(scope="module")
def test_set(toy):
    return toy[2].take(slice(0, 200))


@pytest.fixture(scope="module")
def right_rows(test_set):
    """Two rows that the model answers right, and the method therefore wrong."""
    return np.flatnonzero(test_set.predicted == test_set.labels)[:2]


@pytest.fixture
def undrawn(monkeypatch):
    """Drawing takes most of the time, and one test looks at the pictures."""
    monkeypatch.setattr("knn_ue.report.report.draw_pictures", lambda *_: ())


@pytest.fixture(scope="module")
def report(test_set, right_rows):
    return build_report({"flip": Flipping(right_rows)}, test_set, n_bootstrap=3)


@pytest.mark.slow
def test_the_lead_counts_the_changed_predictions_and_names_both_accuracies(report, test_set):
    n_right = int((test_set.predicted == test_set.labels).sum())

    expected = (
        f"flip changes the prediction in 2 of 200 rows of test; accuracy on test goes from {n_right / 2:.1f} % to "
    )

    assert report.headline.lead[-1] == f"{expected}{(n_right - 2) / 2:.1f} %."


def test_a_prediction_the_method_made_wrong_is_among_its_mistakes(undrawn, test_set, right_rows):
    found = build_report({"flip": Flipping(right_rows)}, test_set, n_bootstrap=0, n_mistakes=200).mistakes

    assert set(right_rows.tolist()) <= {mistake.row for mistake in found if mistake.side == "after"}


def test_a_mistake_after_calibration_shows_the_methods_answer_and_its_confidence(undrawn, test_set, right_rows):
    found = build_report({"flip": Flipping(right_rows)}, test_set, n_bootstrap=0, n_mistakes=200).mistakes
    mistake = next(x for x in found if x.row == right_rows[0])

    probs = Flipping(right_rows).predict_proba(test_set)[mistake.row]

    assert mistake.predicted == test_set.class_names[probs.argmax()] != mistake.truth
    assert mistake.confidence == probs.max()
    assert mistake.raw_confidence == pytest.approx(probs.min(), abs=1e-12)


def test_a_mistake_of_the_model_that_the_method_corrects_is_shown_before_only(undrawn, test_set):
    wrong = np.flatnonzero(test_set.predicted != test_set.labels)

    found = build_report({"flip": Flipping(wrong)}, test_set, n_bootstrap=0, n_mistakes=200).mistakes

    assert {mistake.side for mistake in found} == {"before"}


@pytest.mark.slow
def test_the_risk_curve_names_the_error_of_each_method_where_they_differ(report):
    picture = next(x for x in report.pictures if x.kind == "risk-coverage")

    assert "% (raw) and" in picture.description and "% (flip) when all are answered" in picture.description


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
