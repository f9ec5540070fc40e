"""The record that `evaluate` returns, and what its Markdown and JSON promise."""

import json
import math
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from fakes import FixedTemperature
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import STYLES, Evaluation, EvaluationOptions, Table, evaluate
from knn_ue.metrics import Interval
from knn_ue.toy import two_blobs
from knn_ue.types import Outputs

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def tagged(n_sentences=60, n_words=9, seed=0, class_names=TAGS):
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(TAGS), size=n_sentences * n_words)
    logits = 2.0 * np.eye(len(TAGS))[labels] + rng.normal(size=(len(labels), len(TAGS)))
    groups = np.repeat(np.arange(n_sentences), n_words)
    return Outputs(logits=logits, labels=labels, groups=groups, class_names=class_names)


def small(n_rows=200, seed=0):
    return two_blobs(n_train=n_rows, n_validation=n_rows, n_test=n_rows, seed=seed)[2]


def table(raw, ours, metric="ece", intervals=None):
    return Table(caption="test", n=5, scores={"raw": {metric: raw}, "ours": {metric: ours}}, intervals=intervals or {})


def test_markdown_shows_percent_and_areas_times_a_thousand():
    scores = {"raw": {"ece": 0.1234, "e_aurc": 0.0567, "nll": 1.5}}
    markdown = Table(caption="test", n=5, scores=scores).to_markdown()

    assert "| ECE % ↓ | 12.34 |" in markdown
    assert "| E-AURC ×1000 ↓ | 56.70 |" in markdown
    assert "| NLL ↓ | 1.5000 |" in markdown


def test_markdown_marks_the_best_value_where_it_beats_the_raw_model():
    assert "| ECE % ↓ | 20.00 | **10.00** |" in table(0.2, 0.1).to_markdown()


def test_markdown_knows_where_higher_is_better():
    assert "| AUROC % ↑ | 20.00 | 10.00 |" in table(0.2, 0.1, metric="auroc").to_markdown()


@pytest.mark.parametrize("ours", [0.3, 0.2, 0.199999])
def test_markdown_marks_nothing_that_does_not_look_better_than_the_raw_model(ours):
    assert "**" not in table(0.2, ours).to_markdown().replace("**test**", "")


def test_markdown_marks_nothing_whose_interval_overlaps_the_raw_models():
    wide = {"raw": {"ece": Interval(low=0.1, high=0.3, estimate=0.2)}}
    wide["ours"] = {"ece": Interval(low=0.05, high=0.15, estimate=0.1)}

    assert "| 20.00 | 10.00 |" in table(0.2, 0.1, intervals=wide).to_markdown()


def test_markdown_shows_a_dash_where_a_number_is_not_defined():
    all_correct = Outputs(logits=[[2.0, 0.0], [3.0, 0.0]], labels=[0, 0])

    assert "| AUROC % ↑ | – | – |" in evaluate(FixedTemperature(2.0), all_correct).to_markdown()


def test_markdown_folds_the_intervals_away():
    markdown = evaluate(FixedTemperature(2.0), small(), n_bootstrap=3).to_markdown()

    assert "<summary>95 % intervals from 3 bootstrap draws</summary>" in markdown


def test_a_strange_name_cannot_break_the_markdown_table():
    lines = evaluate({"a|b": FixedTemperature(2.0)}, small()).to_markdown().splitlines()

    assert lines[2] == r"|  | raw | a\|b |"


def test_every_line_of_the_markdown_table_has_as_many_cells():
    lines = evaluate({"a": FixedTemperature(2.0), "b": FixedTemperature(3.0)}, small()).to_markdown().splitlines()

    assert {line.count("|") for line in lines if line.startswith("|")} == {5}


def test_json_holds_the_numbers_and_how_they_were_made():
    test = small()
    evaluation = evaluate(FixedTemperature(2.0), test, n_bins=7, n_bootstrap=3, level=0.9, seed=5)

    content = json.loads(evaluation.to_json())

    assert content["tables"]["test"]["scores"]["calibrated"] == evaluation["calibrated"]
    assert content["options"] == {"n_bins": 7, "n_bootstrap": 3, "level": 0.9, "seed": 5}
    assert (content["n"], content["n_classes"], content["version"]) == (len(test), 2, version("knn-ue"))


def test_json_holds_low_and_high_of_each_interval():
    evaluation = evaluate(FixedTemperature(2.0), small(), n_bootstrap=3)

    found = json.loads(evaluation.to_json())["tables"]["test"]["intervals"]["raw"]["nll"]

    interval = evaluation.tables["test"].intervals["raw"]["nll"]
    assert found == [interval.low, interval.high]


def test_json_has_null_where_a_number_is_not_defined():
    options = EvaluationOptions()
    evaluation = Evaluation(n=5, n_classes=2, options=options, tables={"test": table(math.nan, 0.1, metric="auroc")})

    assert json.loads(evaluation.to_json())["tables"]["test"]["scores"]["raw"] == {"auroc": None}


def test_every_metric_has_a_style():
    test = replace(tagged(), features=np.ones((540, 1)))
    evaluation = evaluate(FixedTemperature(2.0), test, out_of_domain=tagged(seed=1), validation=test)

    assert {metric for found in evaluation.tables.values() for metric in found["raw"]} == set(STYLES)


def test_a_record_cannot_be_changed():
    evaluation = evaluate(FixedTemperature(2.0), small())

    with pytest.raises(AttributeError):
        evaluation.n = 0


def test_an_unknown_method_is_named_with_those_there_are():
    with pytest.raises(InvalidInputError, match="'knn' was not evaluated: choose one of raw, calibrated"):
        evaluate(FixedTemperature(2.0), small())["knn"]
