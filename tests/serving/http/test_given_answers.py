"""A folder that judges given answers, served: what a request must hold, what comes back, and how people label."""

import pytest

from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.toy import given_answers
from pipelines import TEXT

ROW = {"text": "a new match by goal", "answer": "food"}


def rows_of(outputs):
    names = outputs.class_names
    both = zip(outputs.texts, outputs.predicted, outputs.labels, strict=True)
    return [{"text": text, "answer": names[answer], "label": names[label]} for text, answer, label in both]


@pytest.fixture(scope="module")
def labeled():
    return rows_of(given_answers(n_labeled=120, n_test=60, seed=3)[0])


@pytest.fixture
def client(labeled, client_of, tmp_path):
    UncertaintyPipeline.from_answers().fit(labeled).save(tmp_path / "ue")
    return client_of(tmp_path / "ue", keep_recent=50)


def test_an_answer_is_scored_beside_what_the_verifier_finds_likelier(client):
    (answer,) = client.post("/predict", json={"inputs": [ROW | {"confidence": 0.9}]}).json()["answers"]

    assert answer["label"] == "food" and answer["raw_score"] == 0.9
    assert answer["score"] < 0.5 < answer["alternatives"]["sport"]
    assert 0 < answer["familiarity"] <= 1


@pytest.mark.parametrize(
    ("said", "label", "raw"),
    [
        ({"answer": None}, "", None),
        ({"samples": ["food", "sport", "food"]}, "food", 0.625),
        ({"answer": "?"}, "?", None),
    ],
    ids=str,
)
def test_whatever_was_answered_is_scored(client, said, label, raw):
    (answer,) = client.post("/predict", json={"inputs": [{"text": ROW["text"], **said}]}).json()["answers"]

    assert (answer["label"], answer["raw_score"]) == (label, raw)


@pytest.mark.parametrize(
    ("sent", "rule"),
    [
        ("a text", "input 0 has no answer, and this folder judges given ones"),
        ({"text": "a text"}, "input 0 has no answer, and this folder judges given ones"),
        ({"text": "a text", "answer": "food", "confidence": 95}, "less than or equal to 1"),
        ({"text": "a text", "answer": "food", "probabilities": {"food": 2}}, "must lie within 0 and 1"),
    ],
    ids=str,
)
def test_what_cannot_be_judged_is_refused_with_the_rule(client, sent, rule):
    found = client.post("/predict", json={"inputs": [sent]})

    assert found.status_code == 422
    assert rule in found.text


def test_an_answer_sent_to_a_model_that_gives_its_own_is_refused(asked):
    found = asked(TEXT).post("/predict", json={"inputs": [ROW]})

    assert found.status_code == 422
    assert "this folder's model gives its own: leave the answer out" in found.text


def test_the_reasons_come_with_labeled_rows_and_what_was_answered_there(client, labeled):
    (found,) = client.post("/explain", json={"inputs": [ROW | {"answer": "no idea"}], "top": 3}).json()["explanations"]

    (why,) = found["why"]
    assert why["label"] == "no idea" and why["classes"][0]["label"] == "no idea"
    assert "none of the labels" in why["in_words"]["against"]
    texts = {row["text"]: row["answer"] for row in labeled}
    assert [near["text"] in texts and near["given"] for near in why["neighbors"]]
    assert "labeled inputs" in found["familiarity_in_words"]


def test_inputs_to_label_keep_their_answers_and_lead_to_scores_of_a_domain(client, labeled):
    asked = [{"text": row["text"], "answer": row["answer"]} for row in labeled[:40]]
    assert client.post("/predict", json={"inputs": asked}).status_code == 200
    drawn = client.post("/sample", json={"n": 20}).json()["inputs"]
    truth = {row["text"]: row["label"] for row in labeled}

    found = client.post("/adapt", json={"examples": [{**row, "label": truth[row["text"]]} for row in drawn]})

    assert found.status_code == 200
    assert found.json()["n_rows"] == len(drawn)


def test_the_slider_shows_labeled_rows_as_if_they_were_new_and_the_form_knows_the_labels(client):
    curve, info = client.get("/validation").json(), client.get("/info").json()

    assert curve["as_new"] and 0.1 < curve["risk"][0] < 0.5
    assert info["judges_answers"] and info["labels"] == ["food", "sport", "travel"]
    assert all(len(sample) == 2 for sample in info["samples"])
