"""From rows with marked entities to scored ones: the pipeline, its folder, and the command line."""

import json
import warnings

import pytest
from typer.testing import CliRunner

from knn_ue import UncertaintyPipeline
from knn_ue.cli import app
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.verifying import READERS
from verifying.answered_spans import READER, answered_sentences


@pytest.fixture(scope="module", autouse=True)
def registered():
    READERS["by-hand"] = lambda: READER
    yield
    del READERS["by-hand"]


@pytest.fixture(scope="module")
def pipe():
    return UncertaintyPipeline.from_answers(reader=READER, task="ner").fit(answered_sentences(120))


def as_text(row):
    """The same row as a text with its entities marked by characters."""
    text, spans, start = " ".join(row["tokens"]), [], 0
    for word in row["tokens"]:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    marks = [one | {"start": spans[one["start"]][0], "end": spans[one["end"] - 1][1]} for one in row["answer"]]
    label = [
        {"start": first, "end": end, "type": tag[2:]}
        for (first, end), tag in zip(spans, row["tags"], strict=True)
        if tag != "O"
    ]
    return {"text": text, "answer": marks, "label": label}


def test_each_marked_entity_has_a_score_and_missed_ones_are_named(pipe):
    rows = answered_sentences(40, seed=1)

    answers = pipe(rows)

    for row, answer in zip(rows, answers, strict=True):
        assert [(x.start, x.end, x.type) for x in answer.entities] == [
            (one["start"], one["end"], one["type"]) for one in row["answer"]
        ]
        assert all(0 < x.score < 1 and x.raised_by is not None for x in answer.entities)
    assert any(answer.missed for answer in answers)


def test_texts_and_words_give_the_same_scores():
    rows = answered_sentences(120)
    by_words = UncertaintyPipeline.from_answers(reader=READER, task="ner").fit(rows)
    by_text = UncertaintyPipeline.from_answers(reader=READER, task="ner").fit([as_text(row) for row in rows])

    for one, other in zip(by_words(rows[:20]), by_text([as_text(row) for row in rows[:20]]), strict=True):
        assert [x.score for x in one.entities] == pytest.approx([x.score for x in other.entities])


def test_a_folder_gives_the_same_answers(pipe, tmp_path):
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue")

    rows = answered_sentences(10, seed=2)
    assert [x.to_dict() for x in loaded(rows)] == [x.to_dict() for x in pipe(rows)]


def test_a_promised_precision_abstains_on_whole_entities():
    pipe = UncertaintyPipeline.from_answers(reader=READER, task="ner")

    pipe.fit(answered_sentences(200), target_precision=0.8)

    entities = [entity for answer in pipe(answered_sentences(60, seed=3)) for entity in answer.entities]
    assert {entity.abstained for entity in entities} == {True, False}
    assert min(x.score for x in entities if not x.abstained) > max(x.score for x in entities if x.abstained)


def test_explanations_are_of_entities(pipe):
    (why,) = pipe.explain(answered_sentences(1, seed=4))

    assert why.entities and set(why.entities[0].terms) == {"type", "borders", "record", "own"}


def test_evaluate_shows_the_plain_rivals(pipe):
    found = pipe.evaluate(answered_sentences(80, seed=5))

    assert list(found.tables["test/entities"].scores)[1:] == [
        "constant per type",
        "regression on (span vector, type)",
        "span-verdict",
    ]


def test_strings_that_are_not_in_their_sentence_are_said():
    rows = answered_sentences(60)
    rows[3]["answer"] = [{"text": "Atlantis", "type": "LOC"}]

    with pytest.warns(FitWarning, match="1 marked strings are not in their sentences .*'Atlantis', row 3"):
        UncertaintyPipeline.from_answers(reader=READER, task="ner").fit(rows)


def test_too_few_sentences_are_refused():
    with pytest.raises(InvalidInputError, match="49 sentences with answers are too few"):
        UncertaintyPipeline.from_answers(reader=READER, task="ner").fit(answered_sentences(49))


def test_a_sentence_without_tags_is_refused():
    rows = answered_sentences(60)
    del rows[5]["tags"]

    with pytest.raises(InvalidInputError, match="row 5 has no tags and no label"):
        UncertaintyPipeline.from_answers(reader=READER, task="ner").fit(rows)


@pytest.mark.parametrize("shape", [dict, as_text], ids=["words", "texts"])
def test_the_command_line_goes_from_a_file_to_scored_lines(tmp_path, shape):
    answered, new, scored = (tmp_path / name for name in ("answered.jsonl", "new.jsonl", "scored.jsonl"))
    for path, rows in ((answered, answered_sentences(120)), (new, answered_sentences(10, seed=6))):
        path.write_text("".join(json.dumps(shape(row)) + "\n" for row in rows))
    run = CliRunner().invoke
    fit = ["fit", "--answers", answered, "--task", "ner", "--reader", "by-hand", "--out", tmp_path / "ue"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(app, [str(part) for part in fit]).exit_code == 0
        done = run(app, ["predict", str(tmp_path / "ue"), "--input", str(new), "--output", str(scored)])
        test = run(app, ["evaluate", str(tmp_path / "ue"), "--test", str(answered), "--json"])

    assert done.exit_code == 0, done.output
    assert test.exit_code == 0, test.output
    lines = [json.loads(line) for line in scored.read_text().splitlines()]
    assert len(lines) == 10 and all("score" in entity for line in lines for entity in line["entities"])


@pytest.fixture(scope="module")
def client(pipe, tmp_path_factory):
    testclient = pytest.importorskip("starlette.testclient")
    from knn_ue.serving.http.app import create_app
    from knn_ue.serving.options import ServeOptions

    folder = tmp_path_factory.mktemp("served") / "ue"
    pipe.save(folder)
    with testclient.TestClient(create_app(folder, ServeOptions()), base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize("path", ["/predict", "/explain"])
@pytest.mark.parametrize(
    "row",
    [
        {"text": "Ada saw Oslo", "answer": {"PER": ["Ada"]}},
        {"text": "Ada saw Oslo", "answer": '[{"text": "Ada", "type": "PER"}]'},
        {"tokens": ["Ada", "saw", "Oslo"], "answer": ["B-PER", "O", "O"]},
    ],
    ids=["text", "json", "words"],
)
def test_the_server_takes_marked_entities(client, path, row):
    sent = client.post(path, json={"inputs": [row]})

    assert sent.status_code == 200, sent.text
    found = sent.json()
    answer = found["answers"][0] if path == "/predict" else found["explanations"][0]["answer"]
    assert [(x["type"], x["text"]) for x in answer["entities"]] == [("PER", "Ada")]
    assert [x["text"] for x in answer["missed"]] == ["Oslo"]


def test_the_server_refuses_an_answer_that_cannot_be_read(client):
    sent = client.post("/predict", json={"inputs": [{"tokens": ["Ada"], "answer": ["O", "O"]}]})

    assert sent.status_code == 422 and "1 words but 2 tags" in sent.json()["error"]
