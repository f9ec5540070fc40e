"""Marked entities as a judged model: its tags, its confidence, types that labeled rows did not have, folders."""

import numpy as np
import pytest

from knn_ue.encoding import read_example
from knn_ue.encoding.given_spans import GivenSpans
from knn_ue.errors import InvalidInputError
from knn_ue.verifying import UNSTATED

NER = "token-classification"
ROW = {
    "tokens": ["Ada", "Lovelace", "saw", "Oslo"],
    "tags": ["B-PER", "I-PER", "O", "B-LOC"],
    "answer": [{"text": "Ada Lovelace", "type": "PER", "confidence": 0.9}, {"text": "Oslo", "type": "CITY"}],
}


@pytest.fixture
def encoder():
    return GivenSpans.of_examples([read_example(ROW, NER)])


def test_types_are_those_of_the_tags_and_of_the_answers(encoder):
    assert encoder.types == ("LOC", "PER", "CITY")


def test_marks_are_the_decoded_tags(encoder):
    outputs = encoder.encode([ROW])

    assert [encoder.class_names[number] for number in outputs.predicted] == ["B-PER", "I-PER", "O", "B-CITY"]
    assert [encoder.class_names[number] for number in outputs.labels] == ROW["tags"]
    assert outputs.words == tuple(ROW["tokens"])


def test_the_stated_confidence_is_in_the_logits(encoder):
    logits = encoder.encode([ROW]).logits
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    np.testing.assert_allclose(probs.max(axis=1)[:2], 0.9)
    assert probs.max(axis=1)[2:].min() > 1 / (1 + np.exp(-UNSTATED + 0.01))


def test_a_type_that_labeled_rows_did_not_have_is_another_one(encoder):
    outputs = encoder.encode([{"tokens": ["Rex"], "answer": {"ANIMAL": ["Rex"]}}])

    assert [encoder.class_names[number] for number in outputs.predicted] == ["B-(other)"]


def test_sentences_are_groups_and_one_without_words_has_none(encoder):
    outputs = encoder.encode([ROW, {"tokens": [], "tags": [], "answer": []}, ROW])

    assert outputs.groups.tolist() == [0, 0, 0, 0, 2, 2, 2, 2]


def test_a_text_is_split_at_marks_and_its_label_marks_its_entities(encoder):
    row = {"text": "Ada saw Oslo.", "answer": {"PER": ["Ada"]}, "label": [{"start": 8, "end": 12, "type": "LOC"}]}

    outputs = encoder.encode([row])

    assert outputs.words == ("Ada", "saw", "Oslo", ".")
    assert [encoder.class_names[number] for number in outputs.labels] == ["O", "O", "B-LOC", "O"]


def test_a_label_that_is_not_in_its_text_is_refused(encoder):
    row = {"text": "Ada saw Oslo.", "answer": [], "label": {"LOC": ["Rome"]}}

    with pytest.raises(InvalidInputError, match="the label of row 0 has 'Rome', which is not in its text"):
        encoder.encode([row])


def test_a_row_without_an_answer_is_refused(encoder):
    with pytest.raises(InvalidInputError, match="row 0 has no answer"):
        encoder.encode([{"tokens": ["Ada"]}])


def test_labeled_rows_without_any_entity_are_refused():
    with pytest.raises(InvalidInputError, match="no labeled row has an entity"):
        GivenSpans.of_examples([read_example({"tokens": ["a"], "tags": ["O"], "answer": []}, NER)])


def test_a_folder_opens_the_same_encoder(encoder):
    opened = GivenSpans.from_part(encoder.to_part(), device="cpu", trust_remote_code=False)

    np.testing.assert_array_equal(opened.encode([ROW]).logits, encoder.encode([ROW]).logits)
    assert opened.class_names == encoder.class_names
