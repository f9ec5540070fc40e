"""Measured against the raw model, and explained by neighbors."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import evaluate
from pipelines import TEXT, fit
from tiny_models import ROWS, TASKS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("task", TASKS)
def test_evaluate_measures_the_method_beside_the_raw_model(task, fitted):
    rows = ROWS[task](12, start=300)

    evaluation = fitted[task].evaluate(rows, out_of_domain={"far": ROWS[task](6, start=900)})

    outputs = fitted[task].outputs(rows)
    assert evaluation["knn-ue"]["accuracy"] == pytest.approx((outputs.predicted == outputs.labels).mean())
    assert {"raw", "knn-ue"} == set(evaluation.tables["far"].scores)


def test_an_out_of_domain_set_with_other_labels_is_only_told_apart(fitted):
    far = [{"text": "a great film", "label": "sarcastic"}, {"text": "a boring film", "label": "neg"}]

    evaluation = fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain=far)

    assert set(evaluation.tables) == {"test", "out_of_domain/detection"}


def test_an_out_of_domain_set_may_be_unlabeled(fitted):
    evaluation = fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain={"far": iter(["a film", "a dog"])})

    assert set(evaluation.tables) == {"test", "far/detection"}


def test_a_broken_line_out_of_domain_is_no_missing_label(fitted, tmp_path):
    (tmp_path / "far.jsonl").write_text('{"text": "fine", "label": "pos"}\n{"text": 5}\n', encoding="utf-8")

    with pytest.raises(InvalidInputError, match=r"far\.jsonl.*line 2.*text must be a string"):
        fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain=tmp_path / "far.jsonl")


def test_test_rows_with_an_unknown_label_are_refused(fitted):
    with pytest.raises(InvalidInputError, match="test row 0 has the label 'meh', which the model does not know"):
        fitted[TEXT].evaluate([("a film", "meh")])


@pytest.mark.parametrize("task", TASKS)
def test_rows_count_by_their_own_sample_weight(task, fitted):
    rows = ROWS[task](12, start=300)
    weighted = [row | {"sample_weight": 1 + number % 3} for number, row in enumerate(rows)]
    weights = [1 + number % 3 for number in range(12)]

    found = fitted[task].evaluate(weighted)

    assert found.to_json() == fitted[task].evaluate(rows, sample_weight=weights).to_json()
    assert found.tables["test"].weighted and found["raw"]["nll"] != fitted[task].evaluate(rows)["raw"]["nll"]


def test_weights_that_are_given_replace_those_of_the_rows(fitted):
    rows = [row | {"sample_weight": 5 if number else 1} for number, row in enumerate(ROWS[TEXT](12))]
    far = [row | {"sample_weight": 5 if number else 1} for number, row in enumerate(ROWS[TEXT](12, start=50))]

    found = fitted[TEXT].evaluate(rows, out_of_domain={"far": far}, sample_weight={"test": np.ones(12)})

    own = fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain={"far": far})
    assert found["raw"] == pytest.approx(own["raw"])
    assert found.tables["far"].weighted and found.tables["far"].scores == own.tables["far"].scores


def test_a_set_with_the_name_of_the_test_set_is_refused(fitted):
    with pytest.raises(InvalidInputError, match="must not be named 'test'"):
        fitted[TEXT].evaluate(ROWS[TEXT](12), out_of_domain={"test": ROWS[TEXT](12)})


@pytest.mark.parametrize("task", TASKS)
def test_proximity_is_to_the_validation_rows_of_the_pipeline(task, fitted):
    outputs = fitted[task].outputs(ROWS[task](12, start=300))

    found = fitted[task].evaluate(outputs)["knn-ue"]["piece"]

    calibrator, validation = fitted[task].calibrator_, fitted[task].validation_
    assert found == evaluate(calibrator, outputs, validation=validation)["calibrated"]["piece"]


def test_explain_agrees_with_the_answers(fitted):
    (explained,) = fitted[TEXT].explain("a great film")

    (answer,) = fitted[TEXT]("a great film")
    assert (explained.label, explained.score) == (answer.label, answer.score)


def test_explain_says_which_methods_have_explanations(models):
    pipe = fit(models[TEXT], TEXT, method="temperature")

    with pytest.raises(InvalidInputError, match="explain needs the method knn-ue, knn-ue-no-label or knn-ue-entity"):
        pipe.explain("a film")
