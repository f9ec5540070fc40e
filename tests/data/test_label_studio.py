import json

import pytest

from knn_ue.data import PairRow, TaggedRow, TextRow, read_rows
from knn_ue.errors import InvalidInputError


def exported(tmp_path, *tasks):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(list(tasks)))
    return path


def task(data, *values, **annotation):
    return {"id": 1, "data": data, "annotations": [{"result": [{"value": value} for value in values], **annotation}]}


def span(start, end, kind):
    return {"start": start, "end": end, "text": "...", "labels": [kind]}


def test_a_choice_is_the_label(tmp_path):
    path = exported(tmp_path, task({"text": "fine"}, {"choices": ["pos"]}))

    assert list(read_rows(path, "text-classification")) == [TextRow("fine", "pos")]


def test_tasks_that_were_never_labeled_are_refused_as_such(tmp_path):
    path = exported(tmp_path, {"data": {"text": "fine", "sample_weight": 1.0}})

    with pytest.raises(InvalidInputError, match="item 1: a task of Label Studio must be labeled"):
        list(read_rows(path, "text-classification"))


def test_a_pair_keeps_both_texts(tmp_path):
    path = exported(tmp_path, task({"premise": "a", "hypothesis": "b"}, {"choices": ["neutral"]}))

    assert list(read_rows(path, "text-pair")) == [PairRow("a", "b", "neutral")]


def test_marked_spans_become_tags_of_every_word_they_touch(tmp_path):
    words = ["Ada", "Lovelace", "met", "Babbage", "in", "London"]
    data = {"tokens": words, "text": " ".join(words)}
    path = exported(tmp_path, task(data, span(0, 12, "PER"), span(18, 21, "PER"), span(28, 34, "LOC")))

    [row] = read_rows(path, "token-classification")

    assert row == TaggedRow(tuple(words), ("B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"))


def test_spans_that_touch_stay_two_entities(tmp_path):
    path = exported(tmp_path, task({"tokens": ["a", "b"], "text": "a b"}, span(0, 1, "PER"), span(2, 3, "PER")))

    assert next(iter(read_rows(path, "token-classification"))).tags == ("B-PER", "B-PER")


def test_the_last_annotation_counts_and_cancelled_ones_do_not(tmp_path):
    first, second = task({"text": "x"}, {"choices": ["neg"]}), task({"text": "x"}, {"choices": ["pos"]})
    dropped = task({"text": "x"}, {"choices": ["neg"]}, was_cancelled=True)
    first["annotations"] += second["annotations"] + dropped["annotations"]

    assert next(iter(read_rows(exported(tmp_path, first), "text-classification"))).label == "pos"


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ({"data": {"text": "x"}, "annotations": []}, "must be labeled"),
        (task({"text": "x"}), "must have one choice"),
        (task({"text": "x"}, {"choices": ["a", "b"]}), "must have one choice"),
        (task({"tokens": ["a"], "text": "a"}, {"start": "0", "end": 1, "labels": ["X"]}), "needs start, end"),
        (task({"tokens": ["ab"], "text": "ab"}, span(0, 1, "X"), span(1, 2, "Y")), "must not share a word"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_with_its_place(tmp_path, found, rule):
    wanted = "token-classification" if "tokens" in found["data"] else "text-classification"

    with pytest.raises(InvalidInputError, match=rf"export.json.*item 1.*{rule}|{rule}.*export.json"):
        list(read_rows(exported(tmp_path, found), wanted))
