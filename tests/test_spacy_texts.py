"""A raw text for a spaCy-backed UE folder: split by the pipeline's own tokenizer, answered as the component does."""

import json

import pytest
from typer.testing import CliRunner

from knn_ue import UncertaintyPipeline
from knn_ue.cli import app
from knn_ue.errors import InvalidInputError

spacy = pytest.importorskip("spacy")

from tiny_spacy import IN_THE_DATA, examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
TEXTS = [
    "Ada Turing met (Oslo).",
    'Grace Hopper saw  "Rome"!\nDonald Knuth called Lima, then Bern.',
    " Paris",
    "Alan Turing's dog\r\n\r\nthanked Barbara Liskov. ",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    nlp = trained_pipeline()
    nlp.add_pipe("sentencizer", before="ner")
    component = nlp.add_pipe("knn_ue_entities", config={"map": IN_THE_DATA})
    component.fit(examples(nlp, 80, seed=1), examples(nlp, 80, seed=2))
    nlp.to_disk(tmp_path_factory.mktemp("texts") / "pipeline")
    return tmp_path_factory.getbasetemp() / "texts0" / "pipeline"


@pytest.fixture(scope="module")
def nlp(folder):
    return spacy.load(folder)


@pytest.fixture(scope="module")
def pipe(folder):
    return UncertaintyPipeline.load(folder / "knn_ue_entities")


def of_spacy(doc):
    return [(ent.start_char, ent.end_char, ent.text, round(ent._.confidence, 6)) for ent in doc.ents]


def of_json(answer):
    return [(x["start_char"], x["end_char"], x["text"], round(x["score"], 6)) for x in answer["entities"]]


def predicted(folder, inputs, tmp_path, *options):
    out = tmp_path / "out.jsonl"
    result = CliRunner().invoke(
        app, ["predict", str(folder), "--input", str(inputs), "--output", str(out), *options], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_answered_as_the_component_scores_it(nlp, pipe, text):
    doc = nlp(text)

    (answer,) = pipe(text)

    assert of_json(answer.to_dict()) == of_spacy(doc)
    assert [word.word for word in answer.words] == [word.text for word in doc]
    assert answer.score == pytest.approx(doc._.confidence)
    found = [(x.start_char, x.end_char, x.text) for x in answer.missed]
    assert found == [(span.start_char, span.end_char, span.text) for span in doc._.likely_missed]


def test_some_text_has_entities_in_several_sentences(nlp):
    assert any(len(list(nlp(text).sents)) > 1 and len(nlp(text).ents) > 1 for text in TEXTS)


def test_a_list_of_texts_gives_what_each_gives_alone(pipe):
    together = [of_json(answer.to_dict()) for answer in pipe(TEXTS)]

    assert together == [of_json(pipe(text)[0].to_dict()) for text in TEXTS]


def test_given_words_have_no_characters(pipe):
    (answer,) = pipe([["Ada", "Turing", "met", "Oslo"]])

    assert answer.entities and all("start_char" not in x.to_dict() for x in answer.entities)


@pytest.mark.parametrize("name", ["in.jsonl", "in.txt", "in.csv", "in.parquet"])
def test_predict_reads_texts_from_any_file(nlp, folder, tmp_path, name):
    texts = [TEXTS[0], "Donald Knuth called Lima, then Bern."]
    if name == "in.jsonl":
        (tmp_path / name).write_text("".join(json.dumps({"id": 7, "text": text}) + "\n" for text in texts))
    elif name == "in.txt":
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    elif name == "in.csv":
        (tmp_path / name).write_text("id,text\n" + "".join(f'7,"{text}"\n' for text in texts))
    else:
        pytest.importorskip("pandas").DataFrame({"id": 7, "text": texts}).to_parquet(tmp_path / name)

    answers = predicted(folder, tmp_path / name, tmp_path)

    assert [of_json(answer) for answer in answers] == [of_spacy(nlp(text)) for text in texts]
    assert [answer["text"] for answer in answers] == texts
    assert name == "in.txt" or all(str(answer["id"]) == "7" for answer in answers)


def test_a_column_of_texts_may_have_any_name(nlp, folder, pipe, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"body": TEXTS[0]}) + "\n")
    frame = pytest.importorskip("pandas").DataFrame({"body": TEXTS[:1]})

    (from_file,) = predicted(folder, tmp_path / "in.jsonl", tmp_path, "--text-column", "body")
    (from_frame,) = pipe(frame, text="body")

    assert of_json(from_file) == of_json(from_frame.to_dict()) == of_spacy(nlp(TEXTS[0]))


def test_explain_shows_the_text_as_it_was_written(folder):
    result = CliRunner().invoke(app, ["explain", str(folder), TEXTS[0], "--json"])

    (sentence,) = json.loads(result.stdout)
    assert sentence["text"] == TEXTS[0]
    assert all(TEXTS[0][x["start_char"] : x["end_char"]] == x["text"] for x in sentence["entities"])


def test_the_server_splits_a_text_with_the_tokenizer(nlp, folder):
    testing = pytest.importorskip("fastapi.testclient")
    from knn_ue.serving.http.app import create_app

    with testing.TestClient(create_app(folder / "knn_ue_entities"), base_url="http://127.0.0.1:8000") as client:
        answers = client.post("/predict", json={"inputs": [TEXTS[1], {"text": TEXTS[0]}]}).json()["answers"]
        explained = client.post("/explain", json={"inputs": TEXTS[1]}).json()["explanations"][0]
        words = [word["word"] for word in answers[0]["words"]]
        stored = client.post("/examples", json={"examples": [{"tokens": words, "tags": ["O"] * len(words)}]})

    assert [of_json(answer) for answer in answers] == [of_spacy(nlp(TEXTS[1])), of_spacy(nlp(TEXTS[0]))]
    assert of_json(explained["answer"]) == of_spacy(nlp(TEXTS[1])) and len(explained["why"]) == len(nlp(TEXTS[1]))
    assert stored.status_code == 201, stored.text  # line breaks are words of this tokenizer


def test_a_text_longer_than_the_pipeline_takes_is_one_sentence(pipe):
    pipe.encoder.nlp.max_length, before = 50, pipe.encoder.nlp.max_length

    with pytest.raises(InvalidInputError, match=r"at most 50 characters, nlp\.max_length"):
        pipe("Oslo " * 20)

    pipe.encoder.nlp.max_length = before
