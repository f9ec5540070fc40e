"""Measured against the raw model, and explained by neighbors."""

import pytest

from knn_ue.errors import InvalidInputError
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


def test_explain_agrees_with_the_answers(fitted):
    (explained,) = fitted[TEXT].explain("a great film")

    (answer,) = fitted[TEXT]("a great film")
    assert (explained.label, explained.score) == (answer.label, answer.score)


def test_explain_says_which_methods_have_explanations(models):
    pipe = fit(models[TEXT], TEXT, method="temperature")

    with pytest.raises(InvalidInputError, match="explain needs the method knn-ue, knn-ue-no-label or knn-ue-entity"):
        pipe.explain("a film")
