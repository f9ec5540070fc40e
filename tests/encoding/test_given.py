"""Answers that somebody else gave, as a judged model."""

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.encoding.given import GivenAnswers, given_answer
from knn_ue.encoding.inputs import Example, read_example
from knn_ue.errors import InvalidInputError

TEXT = "text-classification"


def row(answer, label="refund", **more):
    return read_example({"text": "where is my money?", "answer": answer, "label": label, **more}, TEXT)


ROWS = [row("refund"), row("transfer", "transfer"), row("I don't know"), row(""), row(None), row(7)]


def test_what_was_answered_is_the_prediction_whatever_it_is():
    encoder = GivenAnswers("text", ["refund", "transfer"])

    outputs = encoder.encode(ROWS)

    names = [outputs.class_names[number] for number in outputs.predicted]
    assert names == ["refund", "transfer", "(other)", "(other)", "(other)", "(other)"]
    assert outputs.labels.tolist() == [0, 1, 0, 0, 0, 0]


def test_a_frequent_answer_outside_the_list_has_a_class_of_its_own():
    rows = [row("unsure") for _ in range(5)] + [row("n/a"), row("transfer", "transfer")]

    encoder = GivenAnswers.of_examples("text", rows)

    assert encoder.class_names == ("refund", "transfer", "(other)", "unsure")
    assert encoder.encode(rows).predicted.tolist() == [3, 3, 3, 3, 3, 2, 1]


@pytest.mark.parametrize(
    ("said", "sure"),
    [
        ({"confidence": 0.25}, 0.25),
        ({"confidence": "0.25"}, 0.25),
        ({"logprob": np.log(0.25)}, 0.25),
        ({"probabilities": {"refund": 0.25, "transfer": 0.75}}, 0.25),
        ({"samples": ["refund", "refund ", "transfer"]}, 2.5 / 4),
        ({"samples": '["refund", "transfer"]'}, 1.5 / 3),
        ({"samples": ["transfer"], "confidence": 0.25}, 0.25),
        ({"samples": []}, None),
        ({"confidence": None}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_stated_confidence_is_the_softmax_of_the_answer(said, sure):
    encoder = GivenAnswers("text", ["refund", "transfer"])

    outputs = encoder.encode([row("refund", **said)])

    assert given_answer(row("refund", **said)) == ("refund", pytest.approx(sure))
    assert softmax(outputs.logits)[0, 0] == pytest.approx(1.0 if sure is None else sure, abs=1e-6)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"confidence": 95}, "must lie within 0 and 1, got 95.0: write 0.95 for 95 %"),
        ({"confidence": "high"}, "must be a number, got 'high'"),
        ({"confidence": True}, "must be a number, got 'True'"),
        ({"logprob": 0.1}, "must be at most 0, got 0.1"),
        ({"probabilities": [0.5]}, "must be an object"),
        ({"probabilities": {"refund": 2}}, "must lie within 0 and 1, got 2.0"),
        ({"samples": "refund, transfer"}, "must be a JSON list of answers"),
        ({"samples": {"refund": 2}}, "must be a list of answers"),
    ],
    ids=str,
)
def test_a_bad_confidence_is_refused_with_the_rule(said, rule):
    with pytest.raises(InvalidInputError, match=rule):
        given_answer(row("refund", **said))


def test_a_row_without_an_answer_says_how_to_name_its_column():
    with pytest.raises(InvalidInputError, match=r"row 3 has no answer: name its column \(answer='NAME'\)"):
        given_answer(Example(("a text",)), 3)


def test_one_label_is_no_choice():
    with pytest.raises(InvalidInputError, match="at least 2 labels to choose from, the rows have 1"):
        GivenAnswers.of_examples("text", [row("refund")])


def test_a_tagging_task_is_refused():
    with pytest.raises(InvalidInputError, match="labels of texts or pairs"):
        GivenAnswers("ner", ["a", "b"])
