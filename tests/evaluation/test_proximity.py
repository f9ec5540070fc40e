"""PIECE is in the tables where validation rows say what is near, and only there."""

from dataclasses import replace

import numpy as np
import pytest

import reference
from fakes import FixedTemperature, Reading
from knn_ue import metrics
from knn_ue.entities import find_entities
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import answered_sets, evaluate
from knn_ue.toy import pockets, tagged_sentences
from knn_ue_lab.calibrators import ProximityCalibration

METHOD = FixedTemperature(2.0)


@pytest.fixture(scope="module")
def sets():
    """Validation, test and labeled out-of-domain rows."""
    _, validation, test, out = pockets(n_train=60, n_validation=80, n_test=120, n_out=90, seed=0)
    return validation, test, replace(out, labels=np.arange(90) % test.n_classes)


def test_piece_is_that_of_the_slow_reference(sets):
    validation, test, _ = sets
    near = ProximityCalibration().fit(validation).proximity(test)

    found = evaluate(METHOD, test, validation=validation, n_bins=5)

    for method in ("raw", "calibrated"):
        answered = answered_sets(METHOD, test)["test"]
        rows = answered.confidence(method).tolist(), answered.correct.tolist(), near.tolist()
        assert found[method]["piece"] == pytest.approx(reference.piece(*rows, 5))
        assert found[method]["piece"] >= found[method]["ece"]


def test_piece_stands_with_the_other_calibration_errors(sets):
    validation, test, out = sets

    found = evaluate(METHOD, test, out_of_domain=out, validation=validation)

    names = list(found["raw"])
    assert names[names.index("piece") - 1] == "smooth_ece"
    assert "piece" in found.tables["out_of_domain"]["raw"]
    assert "piece" not in found.tables["out_of_domain/detection"]["raw"]
    assert "| PIECE % ↓ |" in found.to_markdown()


def test_nothing_else_depends_on_validation_rows(sets):
    validation, test, _ = sets

    found = evaluate(METHOD, test, validation=validation)["calibrated"]

    assert {name: value for name, value in found.items() if name != "piece"} == evaluate(METHOD, test)["calibrated"]


@pytest.mark.parametrize("missing", [0, 1])
def test_without_features_there_is_no_piece(sets, missing):
    both = [replace(x, features=None) if number == missing else x for number, x in enumerate(sets[:2])]

    assert "piece" not in evaluate(METHOD, both[1], validation=both[0])["raw"]


def test_features_of_another_encoder_are_refused(sets):
    validation, test, _ = sets
    wider = replace(validation, features=np.ones((80, 7)))

    with pytest.raises(InvalidInputError, match=r"features must have 7 columns, got \d+: use the same encoder"):
        evaluate(METHOD, test, validation=wider)


def test_an_entity_is_as_near_as_its_words_are_on_average():
    _, validation, test = tagged_sentences(seed=0)
    answered = answered_sets(METHOD, test, validation=validation)["test"]
    spans = find_entities(test, test.predicted)
    gold = find_entities(test, test.labels)
    words = [range(first, last + 1) for first, last in zip(spans.first, spans.last, strict=True)]

    found = evaluate(METHOD, test, validation=validation).tables["test/entities"]["calibrated"]["piece"]

    confidence = answered.confidence("calibrated")
    rows = {
        "confidence": np.array([np.prod(confidence[list(entity)]) for entity in words]),
        "correct": spans.same_in(gold),
        "proximity": np.array([answered.proximity[list(entity)].mean() for entity in words]),
    }
    assert found == pytest.approx(metrics.proximity_informed_calibration_error(**rows))


def test_sentences_have_no_piece():
    _, validation, test = tagged_sentences(seed=0)

    tables = evaluate(Reading(0.75), test, validation=validation).tables

    assert "piece" in tables["test/entities"]["raw"] and "piece" not in tables["test/sentences"]["raw"]


def test_weights_and_intervals_are_those_of_every_metric(sets):
    validation, test, _ = sets
    weights = 1 + np.arange(120) % 3
    twice = test.take(np.repeat(np.arange(120), weights))

    table = evaluate(METHOD, test, validation=validation, sample_weight=weights, n_bootstrap=5).tables["test"]

    interval = table.intervals["calibrated"]["piece"]
    expected = evaluate(METHOD, twice, validation=validation)["calibrated"]["piece"]
    assert table["calibrated"]["piece"] == interval.estimate == pytest.approx(expected)
    assert interval.low <= interval.estimate <= interval.high


def test_of_many_validation_rows_two_thousand_evenly_spread_ones_are_read(sets):
    validation, test, _ = sets
    many = validation.take(np.arange(80).repeat(60))

    near = answered_sets(METHOD, test, validation=many)["test"].proximity

    spread = np.linspace(0, len(many) - 1, 2000).astype(int)
    np.testing.assert_allclose(near, ProximityCalibration().fit(many.take(spread)).proximity(test))
