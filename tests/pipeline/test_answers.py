"""What a pipeline answers: equal to the arrays path, in order, streaming."""

import json
from collections.abc import Iterator

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.calibrators import KnnUE
from knn_ue.data import PairRow, TaggedRow, TextRow
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.pipeline.answers import passed_on
from knn_ue.stores import Datastore
from pipelines import N_NEIGHBORS, PAIR, TEXT, WORDS, scores_of
from tiny_models import CLASS_NAMES, ROWS, TASKS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("task", TASKS)
def test_scores_equal_those_computed_by_hand_from_arrays(task, models, fitted):
    encoder = HuggingFaceEncoder.from_pretrained(models[task], task, device="cpu")
    rows = ROWS[task]
    train, validation, test = (encoder.encode(part) for part in (rows(60), rows(40, start=100), rows(12, start=300)))
    by_hand = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=N_NEIGHBORS).fit(validation)

    answers = fitted[task](rows(12, start=300))

    np.testing.assert_allclose(scores_of(answers), by_hand.predict_proba(test).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_raw_scores_are_the_models_own_softmax(task, fitted):
    rows = ROWS[task](12, start=300)

    answers = fitted[task](rows)

    raw = [word.raw_score for answer in answers for word in getattr(answer, "words", [answer])]
    np.testing.assert_allclose(raw, softmax(fitted[task].outputs(rows).logits).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("task", [TEXT, PAIR])
def test_the_label_is_the_models_own(task, fitted):
    rows = ROWS[task](12, start=300)

    answers = fitted[task](rows)

    expected = [CLASS_NAMES[task][number] for number in fitted[task].outputs(rows).predicted]
    assert [answer.label for answer in answers] == expected


@pytest.mark.parametrize("task", TASKS)
def test_answers_can_be_written_as_json(task, fitted):
    answers = [answer.to_dict() for answer in fitted[task](ROWS[task](3), abstain_below=0.5)]

    assert json.loads(json.dumps(answers)) == answers


@pytest.mark.parametrize("task", TASKS)
def test_streaming_equals_calling(task, fitted):
    rows = ROWS[task](9, start=300)

    streamed = list(fitted[task].predict_stream(iter(rows)))

    np.testing.assert_allclose(scores_of(streamed), scores_of(fitted[task](rows)), rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_windows_of_any_size_give_the_same_answers(task, fitted, monkeypatch):
    rows = ROWS[task](9, start=300)
    expected = fitted[task](rows)
    monkeypatch.setattr("knn_ue.encoding.inputs.WINDOW_BATCHES", 1 / 16)

    streamed = list(fitted[task].predict_stream(rows))

    np.testing.assert_allclose(scores_of(streamed), scores_of(expected), rtol=1e-5)


def test_a_stream_reads_no_more_than_one_window_ahead(fitted):
    read = []

    def endless() -> Iterator[str]:
        while True:
            read.append("a great film")
            yield read[-1]

    next(fitted[TEXT].predict_stream(endless()))

    assert len(read) == 32 * 32


def test_one_string_gives_a_list_with_one_answer(fitted):
    assert len(fitted[TEXT]("a great film")) == 1


def test_no_input_gives_no_answer(fitted):
    assert [fitted[task]([]) for task in TASKS] == [[], [], []]


def test_pairs_may_be_dicts_tuples_or_records(fitted):
    pair = ("Ada was great", "Ada was not great")
    as_dict = {"premise": pair[0], "hypothesis": pair[1]}

    answers = [fitted[PAIR](inputs) for inputs in (pair, [pair], as_dict, PairRow(*pair))]

    assert answers[0] == answers[1] == answers[2] == answers[3]


@pytest.mark.parametrize(
    ("task", "as_dicts", "as_tuples", "as_records"),
    [
        (TEXT, {"text": "a film", "label": "neg"}, ("a film", "neg"), TextRow("a film", "neg")),
        (
            PAIR,
            {"premise": "Ada was", "hypothesis": "great", "label": "neutral"},
            ("Ada was", "great", "neutral"),
            PairRow("Ada was", "great", "neutral"),
        ),
        (
            WORDS,
            {"tokens": ["Ada", "was"], "tags": ["B-PER", "O"]},
            (["Ada", "was"], ["B-PER", "O"]),
            TaggedRow(("Ada", "was"), ("B-PER", "O")),
        ),
    ],
)
def test_labeled_rows_may_be_dicts_tuples_or_records(task, as_dicts, as_tuples, as_records, fitted):
    labels = [fitted[task].outputs([row]).labels.tolist() for row in (as_dicts, as_tuples, as_records)]

    assert labels[0] == labels[1] == labels[2] != []


def test_rows_may_be_the_name_of_a_file(tmp_path, fitted):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[TEXT](4)), encoding="utf-8")

    streamed = list(fitted[TEXT].predict_stream(path))

    assert streamed == fitted[TEXT](ROWS[TEXT](4))


def test_neighbors_are_training_texts_with_their_labels(fitted):
    (answer,) = fitted[TEXT](ROWS[TEXT](1)[0]["text"], top=3)

    first = answer.neighbors[0]
    assert len(answer.neighbors) == 3
    assert (first.id, first.label, first.text) == (0, "neg", ROWS[TEXT](1)[0]["text"])
    assert first.distance == pytest.approx(0, abs=1e-4)


def test_top_zero_leaves_the_neighbors_out(fitted):
    assert fitted[TEXT]("a great film", top=0)[0].neighbors == ()


def test_a_neighbor_agrees_when_it_carries_the_answer(fitted):
    (answer,) = fitted[TEXT]("a great film")

    assert all(near.agrees == (near.label == answer.label) for near in answer.neighbors)


def test_no_column_is_lost_where_a_renamed_one_would_have_its_name():
    row = TextRow("fine", extra={"label": "neg", "input_label": "other", "input_score": 1, "score": 2})

    passed = passed_on(row, {"label": "pos", "score": 0.9})

    assert passed["label"] == "pos"
    assert sorted(map(str, passed.values())) == ["0.9", "1", "2", "fine", "neg", "other", "pos"]
    assert passed["input_label"] == "other"
    assert passed["input_input_label"] == "neg"
