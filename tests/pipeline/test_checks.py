"""Mistakes that would make scores promise too much are refused or said aloud."""

import json

import numpy as np
import pytest

from cli_files import run, write_rows
from held import fitted_in
from knn_ue import Outputs
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.rows import warn_if_weak, warn_of_absent_classes
from pipelines import PAIR, TEXT, WORDS, scores_of
from tiny_models import ROWS


def pipe_of(models, task):
    return UncertaintyPipeline.from_pretrained(models[task], task, device="cpu")


@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_validation_rows_that_are_training_rows_are_refused(models, task):
    train, validation = ROWS[task](60), [*ROWS[task](30, start=100), *ROWS[task](2)]

    with pytest.raises(InvalidInputError, match=r"2 of 32 validation rows are also training rows .*allow_leakage=True"):
        pipe_of(models, task).fit(train, validation, n_neighbors=8)


def test_white_space_does_not_hide_a_training_row(models):
    train = ROWS[TEXT](60)
    validation = [*ROWS[TEXT](30, start=100), {"text": f"  {train[0]['text']}\n", "label": train[0]["label"]}]

    with pytest.raises(InvalidInputError, match="1 of 31 validation rows are also training rows"):
        pipe_of(models, TEXT).fit(train, validation, n_neighbors=8)


def test_outputs_that_are_stored_are_found_by_their_vectors(fitted):
    pipe = fitted[TEXT]
    train = pipe.outputs(ROWS[TEXT](60))

    with pytest.raises(InvalidInputError, match=r"10 of 10 validation rows .*distance 0 from stored ones"):
        UncertaintyPipeline(pipe.encoder).fit(train, train.take(slice(0, 10)), n_neighbors=8)


def test_leakage_can_be_allowed(models):
    rows = ROWS[TEXT](60)

    assert pipe_of(models, TEXT).fit(rows, rows, n_neighbors=8, allow_leakage=True).method_ == "knn-ue"


def test_the_command_line_names_its_own_flag(models, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", ROWS[TEXT](60))
    options = ["fit", models[TEXT], "--train", source, "--validation", source, "--neighbors", 8]

    refused = run(*options, "--out", tmp_path / "ue")
    allowed = run(*options, "--out", tmp_path / "ue", "--allow-leakage")

    assert refused.exit_code == 1 and "or pass --allow-leakage" in refused.stderr
    assert f"{source}, line 1" in refused.stderr and not (tmp_path / "ue" / "nothing").exists()
    assert allowed.exit_code == 0, allowed.output


def weak(n_rows, n_wrong):
    logits = np.tile([[0.0, 1.0]], (n_rows, 1))
    return Outputs(features=np.eye(n_rows, 3), logits=logits, labels=[int(row >= n_wrong) for row in range(n_rows)])


def test_few_rows_are_said_aloud():
    with pytest.warns(FitWarning, match="20 validation rows are too few to fit confidence on"):
        warn_if_weak(weak(20, 10))


def test_few_mistakes_are_said_aloud():
    with pytest.warns(FitWarning, match="the model is wrong on 2 of 200 validation rows, too few"):
        warn_if_weak(weak(200, 2))


def test_a_tagger_without_entities_is_said_aloud():
    outputs = Outputs(
        features=np.eye(4),
        logits=np.tile([[1.0, 0.0, 0.0]], (4, 1)),
        labels=[0, 1, 2, 0],
        groups=[0, 0, 1, 1],
        class_names=["O", "B-PER", "I-PER"],
    )

    with pytest.warns(FitWarning, match="predicts no entity") as said:
        warn_if_weak(outputs)
    assert len(said) == 2  # and the rows are few


def test_a_model_in_memory_gives_the_answers_of_its_folder(models, fitted, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    model = AutoModelForSequenceClassification.from_pretrained(models[TEXT])
    tokenizer = AutoTokenizer.from_pretrained(models[TEXT])
    rows, validation = ROWS[TEXT](60), ROWS[TEXT](40, start=100)
    asked = ["a fine film", "dull"]
    expected = scores_of(fitted[TEXT](asked))

    own = UncertaintyPipeline.from_model(model, tokenizer).fit(rows, validation, n_neighbors=8)
    wrapped = UncertaintyPipeline.from_model(pipeline("text-classification", model=model, tokenizer=tokenizer))
    own.save(tmp_path / "ue")

    assert scores_of(own(asked)) == pytest.approx(expected, rel=1e-5)
    assert scores_of(UncertaintyPipeline.load(tmp_path / "ue")(asked)) == pytest.approx(expected, rel=1e-5)
    assert wrapped.task == TEXT
    assert json.loads((fitted_in(tmp_path / "ue") / "fitted.json").read_text())


def test_a_model_without_its_tokenizer_is_refused(models):
    from transformers import AutoModelForSequenceClassification

    with pytest.raises(InvalidInputError, match="BertForSequenceClassification needs its tokenizer"):
        UncertaintyPipeline.from_model(AutoModelForSequenceClassification.from_pretrained(models[TEXT]))


def test_a_class_that_no_stored_row_has_is_said_aloud():
    stored = Outputs(logits=np.zeros((3, 3)), labels=np.array([0, 0, 2]), class_names=("a", "b", "c"))

    with pytest.warns(FitWarning, match=r"no training row has 1 of the model's 3 labels \(b\)"):
        warn_of_absent_classes(stored)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--neighbors", 1000), "--neighbors 1000 exceeds the 60 stored examples: lower it or add more"),
        (("--target-risk", 2), "--target-risk must lie strictly between 0 and 1, got 2.0"),
    ],
)
def test_the_shell_calls_options_by_their_flags(models, tmp_path, option, words):
    train = write_rows(tmp_path / "train.jsonl", ROWS[TEXT](60))
    validation = write_rows(tmp_path / "validation.jsonl", ROWS[TEXT](30, start=60))
    files = ["--train", train, "--validation", validation, "--out", tmp_path / "ue"]

    result = run("fit", models[TEXT], *files, *option)

    assert result.exit_code == 1
    assert words in result.output


def test_train_finds_unknown_labels_in_both_halves_of_the_validation_rows(models, tmp_path):
    train = write_rows(tmp_path / "train.jsonl", ROWS[TEXT](20))
    for number in range(4):
        rows = ROWS[TEXT](4, start=60)
        rows[number]["label"] = "neutral"
        validation = write_rows(tmp_path / f"{number}.jsonl", rows)
        files = ["--train", train, "--validation", validation, "--out", tmp_path / "model"]

        result = run("train", "--task", "text", "--encoder", models[TEXT], *files)

        assert (
            f"{number}.jsonl, line {number + 1} has the label 'neutral', which the model does not know" in result.output
        )
        assert not (tmp_path / "model").exists()
