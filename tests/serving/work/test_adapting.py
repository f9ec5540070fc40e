"""Domains while serving: labels in, scores that hold there, and back."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from knn_ue.data.columns import Columns
from knn_ue.pipeline import UncertaintyPipeline
from marks import slow_but
from pipelines import PAIR, TEXT, WORDS
from tiny_models import ROWS

INPUT = {TEXT: "good plot", PAIR: {"premise": "a b", "hypothesis": "c"}, WORDS: {"tokens": ["Ada", "wrote"]}}


def labels(task=TEXT, n=30):
    return ROWS[task](n, start=300)


def adapt(client, task=TEXT, **more):
    found = client.post("/adapt", json={"examples": labels(task), "domain": "reviews", "force": True} | more)
    assert found.status_code == 200, found.text
    return found.json()


def answer(client, inputs, **more):
    found = client.post("/predict", json={"inputs": inputs} | more)
    assert found.status_code == 200, found.text
    return found.json()["answers"]


@pytest.mark.parametrize("task", slow_but(TEXT, [TEXT, PAIR, WORDS]))
def test_labels_change_the_scores_of_their_domain_on_disk_too(task, folder, client_of):
    path = folder(task)
    client = client_of(path)
    before = answer(client, INPUT[task])

    told = adapt(client, task)
    there = answer(client, INPUT[task], domain="reviews")

    assert told["applied"] and told["kept"] and told["before"]["count"] and told["after"]["accuracy"]
    assert answer(client, INPUT[task]) == before and there != before
    assert there[0]["domain"] == "reviews"
    assert list(UncertaintyPipeline.load(path, device="cpu").domains_) == ["reviews"]
    assert client.get("/info").json()["domains"] == ["reviews"]


@pytest.mark.slow
def test_each_input_may_name_its_domain(folder, client_of):
    client = client_of(folder())
    adapt(client)

    first, second = answer(client, [{"text": "good plot", "domain": "reviews"}, {"text": "good plot"}])
    explained = client.post(
        "/explain", json={"inputs": [{"text": "good plot", "domain": "reviews"}, "good plot"], "top": 2}
    ).json()["explanations"]

    assert first["domain"] == "reviews" and "domain" not in second and first["score"] != second["score"]
    assert [x["answer"]["score"] for x in explained] == pytest.approx([first["score"], second["score"]], rel=1e-4)
    assert [x["why"][0]["score"] for x in explained] == pytest.approx([first["score"], second["score"]], rel=1e-4)


def test_a_strange_input_is_told_of_the_domain_its_score_was_adapted_to(folder, client_of):
    path = folder()
    pipe = UncertaintyPipeline.load(path, device="cpu")
    familiarity = copy(pipe.fitted_.familiarity)
    familiarity.false_alarm_rate = 0.999  # everything is strange
    pipe.fitted_ = replace(pipe.fitted_, familiarity=familiarity)
    pipe.save(path.with_name("strange"))
    client = client_of(path.with_name("strange"))
    adapt(client)

    there, general = client.post(
        "/explain", json={"inputs": [{"text": "good plot", "domain": "reviews"}, "good plot"]}
    ).json()["explanations"]

    assert "adapted with labels of the domain reviews" in there["familiarity_in_words"]
    assert there["why"][0]["adapted_to"] == "reviews"
    assert there["why"][0]["in_words"]["familiarity"] == there["familiarity_in_words"]
    assert "calibrated on other inputs" in general["familiarity_in_words"]


def test_an_unknown_domain_is_refused(asked):
    found = asked().post("/predict", json={"inputs": "a text", "domain": "tweets"})

    assert found.status_code == 422 and "'tweets' is not a domain" in found.json()["error"]


@pytest.mark.slow
def test_a_domain_can_be_forgotten(folder, client_of):
    client = client_of(folder())
    before = answer(client, "good plot")
    adapt(client, domain="default")
    assert answer(client, "good plot") != before

    assert client.delete("/domains/default").json() == {"forgot": "default", "domains": []}
    assert answer(client, "good plot") == before
    assert client.delete("/domains/default").status_code == 404


@pytest.mark.slow
def test_a_method_without_a_datastore_adapts_too(folder, client_of):
    client = client_of(folder(TEXT, "temperature"))

    assert adapt(client)["applied"]


@pytest.mark.slow
def test_corrections_count_as_labels_only_if_they_are_a_random_sample(folder, client_of):
    client = client_of(folder())
    body = {"examples": labels(n=12), "labels_of": "reviews"}

    biased = client.post("/examples", json=body).json()["labels"]
    drawn = client.post("/examples", json=body | {"random_sample": True}).json()["labels"]
    more = client.post("/examples", json=body | {"random_sample": True}).json()["labels"]

    assert not biased["kept"] and "not a random sample" in biased["doubts"][0]
    assert drawn["kept"] and (drawn["n_rows"], more["n_rows"]) == (12, 24)


def test_labels_that_do_not_replace_older_ones_are_not_called_kept(folder, client_of):
    client = client_of(folder())
    adapt(client)

    few = adapt(client, examples=labels(n=3), force=False)
    biased = adapt(client, force=False, random_sample=False)

    assert [(x["kept"], x["before"], x["after"]) for x in (few, biased)] == [(False, None, None)] * 2
    assert "stays as it was" in few["doubts"][0]


def test_the_picture_after_a_forced_scale_is_of_that_scale(folder, client_of):
    told = adapt(client_of(folder()))

    picture, mean = told["after"], told["units"]["rows"]["confidence_after"]
    assert np.average(picture["confidence"], weights=picture["count"]) == pytest.approx(mean, abs=1e-6)


def test_labels_of_a_method_that_stores_no_examples_are_refused_before_they_count(folder, client_of):
    client = client_of(folder(TEXT, "temperature"))

    found = client.post("/examples", json={"examples": labels(), "labels_of": "reviews", "random_sample": True})

    assert found.status_code == 409 and "temperature stores no examples" in found.json()["error"]
    assert client.get("/info").json()["domains"] == []


def test_a_random_sample_of_no_domain_is_refused(asked):
    found = asked().post("/examples", json={"examples": labels(), "random_sample": True})

    assert found.status_code == 422 and "name it in labels_of" in found.json()["error"]


def test_a_number_that_breaks_a_rule_is_shown(asked):
    weighted = [labels()[0] | {"sample_weight": -1}]

    found = asked().post("/adapt", json={"examples": weighted}), asked().post("/sample", json={"n": 501})

    assert "sample_weight must be greater than 0, got -1" in found[0].json()["error"]
    assert "n must be less than or equal to 500, got 501" in found[1].json()["error"]


def test_a_server_that_changes_nothing_adapts_to_nothing(asked):
    client = asked(read_only=True)

    assert client.post("/adapt", json={"examples": labels()}).status_code == 403
    assert client.delete("/domains/x").status_code == 403


@pytest.mark.slow
def test_inputs_to_label_come_from_the_file_of_the_operator(folder, client_of, tmp_path):
    pool = tmp_path / "pool.txt"
    pool.write_text("".join(f"text number {number}\n" for number in range(30)))
    client = client_of(folder(), ask=str(pool))

    found = client.post("/sample", json={"n": 12}).json()

    texts = {row["text"] for row in found["inputs"]}
    assert len(texts) == 12 and texts <= {f"text number {number}" for number in range(30)}
    assert (found["source"], found["n_pool"]) == ("file", 30)
    assert client.get("/info").json()["pool"] == {"source": "file", "n": 30}


@pytest.mark.slow
def test_a_pool_may_have_columns_of_other_names(folder, client_of, tmp_path):
    pool = tmp_path / "pool.csv"
    pool.write_text("Review Text,Mood?\n" + "".join(f"text number {number},good\n" for number in range(12)))
    client = client_of(folder(), ask=str(pool), ask_columns=Columns(text="Review Text"))

    assert client.get("/info").json()["pool"] == {"source": "file", "n": 12}


def test_recent_inputs_are_kept_only_where_that_was_allowed(asked):
    keeping, silent = asked(keep_recent=3), asked()

    for client in (keeping, silent):
        answer(client, [f"text {number}" for number in range(5)])
    kept = keeping.post("/sample", json={}).json()

    assert {row["text"] for row in kept["inputs"]} == {"text 2", "text 3", "text 4"}
    assert silent.post("/sample", json={}).status_code == 409
    assert "--keep-recent" in silent.post("/sample", json={}).json()["error"]


def test_the_rows_a_method_is_fitted_on_are_counted_without_those_held_out(folder, client_of):
    path = folder()
    pipe = UncertaintyPipeline.load(path)
    n_rows = len(pipe.validation_)
    held_out = pipe.fitted_.held_out.copy()
    held_out[: n_rows // 2] = True
    pipe.fitted_ = replace(pipe.fitted_, held_out=held_out)
    pipe.save(path.with_name("halved"))

    info = client_of(path.with_name("halved")).get("/info").json()

    assert (info["n_validation"], info["n_fitted"]) == (n_rows, n_rows - n_rows // 2)
