"""What other tools write, as rows: places that fit the text, confidences, and what is refused."""

import json
import math

import pytest

from knn_ue.data import read_rows
from knn_ue.data.tool_answers import (
    docbin_rows,
    label_studio_answer,
    langextract_rows,
    openai_answer,
    presidio_row,
)
from knn_ue.encoding import read_example
from knn_ue.encoding.given_spans import GivenSpans, given_entities
from knn_ue.errors import InvalidInputError

TEXT = "Ada Lovelace met Alan in Oslo."
ENCODER = GivenSpans(("LOC", "PER"))


def marked(row):
    """The words of each entity that a row marks, its type and its confidence."""
    example = read_example(row, "token-classification", words_of=ENCODER.words_of)
    found = given_entities(example).found
    return [(example.text_of(one.first, one.last + 1), one.kind, one.confidence) for one in found]


def test_langextract_places_and_strings_are_found():
    extractions = [
        {"extraction_class": "PER", "extraction_text": "Ada", "char_interval": {"start_pos": 0, "end_pos": 12}},
        {"extraction_class": "LOC", "extraction_text": "Oslo", "char_interval": None},
    ]

    (row,) = langextract_rows([{"document_id": "d1", "text": TEXT, "extractions": extractions}])

    assert row["id"] == "d1" and marked(row) == [("Ada Lovelace", "PER", None), ("Oslo", "LOC", None)]


def test_gliner_results_are_an_answer_as_they_are():
    results = [{"start": 17, "end": 21, "text": "Alan", "label": "PER", "score": 0.75}]

    assert marked({"text": TEXT, "answer": results}) == [("Alan", "PER", 0.75)]


def test_presidio_results_are_plain_or_objects():
    plain = {"entity_type": "LOC", "start": 25, "end": 29, "score": 0.5}
    object_ = type("RecognizerResult", (), plain)()

    for result in (plain, object_):
        assert marked(presidio_row(TEXT, [result])) == [("Oslo", "LOC", 0.5)]


def test_a_label_of_a_chat_has_the_log_probability_of_its_tokens():
    tokens = [{"token": " re", "logprob": -0.5}, {"token": "fund", "logprob": -0.25}]
    chat = {"choices": [{"message": {"content": " refund"}, "logprobs": {"content": tokens}}]}
    completion = {
        "choices": [{"text": " refund", "logprobs": {"tokens": [" re", "fund"], "token_logprobs": [-0.5, -0.25]}}]
    }

    assert openai_answer(chat) == openai_answer(completion) == {"answer": "refund", "logprob": -0.75}


@pytest.mark.parametrize("content", [None, ""])
def test_a_refusal_is_an_empty_answer(content):
    assert openai_answer({"choices": [{"message": {"content": content}}]}) == {"answer": ""}


def test_each_entity_of_a_chat_is_as_sure_as_the_tokens_that_wrote_it():
    parts = [('{"PER": ["', -0.01), ("Ada", -0.5), (" Lovelace", -0.25), ('", "', -0.1), ("Alan", -1.0), ('"]}', 0.0)]
    content = "".join(token for token, _ in parts)
    logprobs = {"content": [{"token": token, "logprob": value} for token, value in parts]}

    found = openai_answer({"choices": [{"message": {"content": content}, "logprobs": logprobs}]}, entities=True)

    assert marked({"text": TEXT, **found}) == [
        ("Ada Lovelace", "PER", pytest.approx(math.exp(-0.75))),
        ("Alan", "PER", pytest.approx(math.exp(-1.0))),
    ]


@pytest.mark.parametrize("content", ['Sure: [{"text": "Oslo", "type": "LOC"}]', '```json\n{"LOC": ["Oslo"]}\n```'])
def test_json_is_found_among_other_words(content):
    found = openai_answer({"choices": [{"message": {"content": content}}]}, entities=True)

    assert marked({"text": TEXT, **found}) == [("Oslo", "LOC", None)]


def test_what_is_no_json_marks_nothing():
    assert openai_answer({"choices": [{"message": {"content": '{"LOC": ["Os'}}]}, entities=True) == {"answer": []}


def test_a_response_without_choices_is_refused():
    with pytest.raises(InvalidInputError, match="at least one choice, got none"):
        openai_answer({"choices": []})


def task(**rest):
    value = {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]}
    gold = {"start": 25, "end": 29, "text": "Oslo", "labels": ["LOC"]}
    return {
        "data": {"text": TEXT},
        "predictions": [{"result": [{"type": "labels", "value": value, "score": 0.8}]}],
        "annotations": [{"result": [{"type": "labels", "value": gold}]}],
    } | rest


def test_a_file_of_label_studio_has_predictions_as_answers_and_annotations_as_labels(tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task()]))

    (row,) = read_rows(path, "token-classification")

    example = read_example(row, "token-classification", words_of=ENCODER.words_of)
    assert example.labels == ("O", "O", "O", "O", "O", "B-LOC", "O")
    assert [(x.kind, x.first, x.last, x.confidence) for x in given_entities(example).found] == [("PER", 0, 1, 0.8)]


def test_predictions_without_annotations_are_read_to_be_scored(tmp_path):
    path = tmp_path / "export.json"
    unlabeled = task()
    del unlabeled["annotations"]
    path.write_text(json.dumps([unlabeled]))

    (row,) = read_rows(path, "token-classification", labeled=False)

    assert row.given["answer"][0]["type"] == "PER"


def test_a_predicted_choice_is_a_label_with_its_score():
    prediction = {"score": 0.6, "result": [{"type": "choices", "value": {"choices": ["refund"]}}]}

    assert label_studio_answer({"predictions": [prediction]}) == {"answer": "refund", "confidence": 0.6}


def test_a_task_without_predictions_has_no_answer():
    assert label_studio_answer({"predictions": []}) == {}


def test_documents_of_spacy_are_rows_of_words():
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import DocBin, Span

    nlp = spacy.blank("en")
    found, right = nlp(TEXT), nlp(TEXT)
    found.ents = [Span(found, 0, 1, label="PER")]
    right.ents = [Span(right, 0, 2, label="PER"), Span(right, 5, 6, label="LOC")]
    stored = DocBin(docs=[found]).to_bytes()

    (row,) = docbin_rows(DocBin().from_bytes(stored).get_docs(nlp.vocab), [right])

    assert row["tags"] == ["B-PER", "I-PER", "O", "O", "O", "B-LOC", "O"]
    assert marked(row) == [("Ada", "PER", None)]
    assert "tags" not in next(docbin_rows([found]))


def test_what_a_tool_did_not_write_is_refused():
    with pytest.raises(InvalidInputError, match="document 0 of LangExtract must have text, a string"):
        list(langextract_rows([{"extractions": []}]))
    with pytest.raises(InvalidInputError, match="must be a list of objects, got 'Ada'"):
        list(langextract_rows([{"text": TEXT, "extractions": "Ada"}]))
