"""A datastore that learns while serving: durable before it answers, seen by the next request, never overtaken."""

import json
import shutil
import sqlite3
import threading
import warnings

import numpy as np
import pytest

from cli_files import run, write_rows
from held import held
from knn_ue.calibrators import KnnUE, KnnUEEntity
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import PAIR, TEXT, WORDS
from serving_checks import TEXT_ROW, add, near, nearest, stored_texts
from tiny_models import ROWS


def test_an_example_is_seen_by_the_next_request_and_is_on_disk(folder, client_of):
    path = folder()
    client = client_of(path)

    added = add(client, TEXT_ROW)

    assert added == {"ids": [[60]], "n_stored": 61}
    (near,) = nearest(client, TEXT_ROW["text"])
    assert near == {"id": 60, "label": "pos", "distance": pytest.approx(0, abs=1e-4), "text": TEXT_ROW["text"]} | {
        "agrees": near["agrees"]
    }
    assert stored_texts(path)[60] == TEXT_ROW["text"]


@pytest.mark.slow
@pytest.mark.parametrize("task", [PAIR, WORDS])
def test_pairs_and_sentences_are_learned_too(task, folder, client_of):
    client = client_of(folder(task))
    rows = ROWS[task](2, start=300)
    before = client.get("/info").json()["n_stored"]

    added = add(client, *rows)

    n_new = sum(len(row.get("tokens", [0])) for row in rows)
    assert [len(ids) for ids in added["ids"]] == [len(row.get("tokens", [0])) for row in rows]
    assert added["n_stored"] == before + n_new
    assert client.get("/info").json()["n_stored"] == before + n_new


def test_a_removed_example_is_gone_for_good(folder, client_of):
    path = folder()
    client = client_of(path)
    add(client, TEXT_ROW)

    assert client.delete("/examples/60").json() == {"removed": 60, "n_stored": 60}

    assert nearest(client, TEXT_ROW["text"])[0]["id"] != 60
    assert 60 not in stored_texts(path)
    again = client.delete("/examples/60")
    assert again.status_code == 404 and "60" in again.json()["error"]
    assert add(client, TEXT_ROW)["ids"] == [[61]]  # an id is never given again


BAD = [
    ({"text": "a", "label": "nonsense"}, "nonsense"),
    ({"text": "a"}, "label is missing"),
    ({"text": "", "label": "pos"}, "empty"),
    ({"tokens": ["a"], "tags": ["O"]}, "this model is for text-classification"),
]


@pytest.mark.parametrize(("row", "rule"), BAD, ids=range(len(BAD)))
def test_of_examples_with_one_bad_none_is_stored(row, rule, asked):
    client = asked()

    found = client.post("/examples", json={"examples": [TEXT_ROW, row]})

    assert found.status_code == 422 and rule in found.json()["error"]
    assert client.get("/info").json()["n_stored"] == 60


def test_words_and_tags_must_go_together(asked):
    found = asked(WORDS).post("/examples", json={"examples": [{"tokens": ["a", "b"], "tags": ["O"]}]})

    assert found.status_code == 422 and "2 words but 1 tags" in found.json()["error"]


def test_a_method_without_a_datastore_says_so(asked):
    client = asked(TEXT, "temperature")

    for found in (
        client.post("/examples", json={"examples": [TEXT_ROW]}),
        client.delete("/examples/0"),
        client.post("/refit"),
    ):
        assert found.status_code == 409 and "temperature" in found.json()["error"]


def test_a_read_only_server_changes_nothing(asked):
    client = asked(TEXT, read_only=True)

    for found in (
        client.post("/examples", json={"examples": [TEXT_ROW]}),
        client.delete("/examples/0"),
        client.post("/refit"),
    ):
        assert found.status_code == 403 and "--read-only" in found.json()["error"]


@pytest.mark.slow
def test_all_layers_of_dac_learn_in_one_step(folder, client_of):
    path = folder(TEXT, "dac")
    client = client_of(path)

    assert add(client, TEXT_ROW)["ids"] == [[60]]
    assert nearest(client, TEXT_ROW["text"])[0]["id"] == 60
    assert client.delete("/examples/3").status_code == 200

    layers = UncertaintyPipeline.load(path, device="cpu").calibrator_.stores.values()
    assert {tuple(store.ids.tolist()) for store in layers} == {tuple(n for n in range(61) if n != 3)}


@pytest.mark.slow
def test_refit_uses_what_was_learned(folder, client_of):
    path = folder()
    client = client_of(path)
    before = UncertaintyPipeline.load(path, device="cpu")
    add(client, *({"text": text, "label": "pos"} for text in before.validation_.texts))

    found = client.post("/refit").json()

    after = UncertaintyPipeline.load(path, device="cpu")
    expected = KnnUE(after.calibrator_.store, n_neighbors=8).fit(after.validation_)
    assert found["changed"] and len(after.calibrator_.store) == 100
    assert after.calibrator_.params_ == expected.params_ != before.calibrator_.params_
    answer = client.post("/predict", json={"inputs": "a film", "top": 1}).json()["answers"][0]
    assert answer["score"] == pytest.approx(after("a film")[0].score, abs=1e-4)


def test_a_promise_is_not_made_again_on_validation_texts_that_were_stored(tmp_path, folders, client_of):
    pipe = UncertaintyPipeline.load(folders(TEXT, "knn-ue"), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), n_neighbors=8, target_risk=0.9, delta=0.3)
    pipe.save(tmp_path / "ue")
    client, promised = client_of(tmp_path / "ue"), pipe.threshold_
    (held_out,) = np.flatnonzero(pipe.fitted_.held_out)[:1]
    (ids,) = add(client, {"text": pipe.validation_.texts[held_out], "label": "pos"})["ids"]

    refused = client.post("/refit")

    assert refused.status_code == 422
    assert "1 of the 20 validation rows held out for the promise are stored examples" in refused.json()["error"]
    assert f"remove these examples (ids {ids[0]})" in refused.json()["error"]
    assert UncertaintyPipeline.load(tmp_path / "ue", device="cpu").threshold_ == promised
    client.delete(f"/examples/{ids[0]}")
    assert client.post("/refit").status_code == 200


@pytest.mark.slow
def test_entities_learn_from_an_example_at_once_and_from_a_refit_as_a_fit_would(folder, client_of):
    path = folder(WORDS, "knn-ue-entity")
    client = client_of(path)
    before = UncertaintyPipeline.load(path, device="cpu")
    row = {"tokens": ["Ada", "Lovelace", "went", "to", "Oslo", "."], "tags": ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]}
    question = {"inputs": {"tokens": row["tokens"]}, "top": 1}

    ids = add(client, row)["ids"][0]

    (answer,) = client.post("/predict", json=question).json()["answers"]
    assert answer["entities"] and answer["missed"]
    assert all(e["neighbors"][0]["id"] == ids[e["start"]] for e in answer["entities"])

    add(client, *ROWS[WORDS](8, start=100))  # of the validation set, so that its neighbors are others now
    assert client.post("/refit").json()["changed"]

    after = UncertaintyPipeline.load(path, device="cpu")
    expected = KnnUEEntity(after.calibrator_.store, n_neighbors=8).fit(after.validation_)
    assert after.calibrator_.entities_ == expected.entities_ != before.calibrator_.entities_
    (now,) = client.post("/predict", json=question).json()["answers"]
    assert near(now, after({"tokens": row["tokens"]}, top=1)[0].to_dict())


@pytest.mark.slow
def test_what_the_command_line_adds_is_kept_and_followed(folder, client_of, tmp_path):
    path = folder()
    client = client_of(path)
    rows = write_rows(tmp_path / "new.jsonl", [{"text": "from the shell", "label": "neg"}])

    add(client, TEXT_ROW)
    assert run("index", "add", path, "--input", rows, "--device", "cpu").exit_code == 0
    added = add(client, {"text": "from a client", "label": "neg"})  # the server does not know of the shell's yet

    assert added["ids"] == [[62]]
    texts = stored_texts(path)
    assert [texts[number] for number in (60, 61, 62)] == [TEXT_ROW["text"], "from the shell", "from a client"]
    assert nearest(client, "from the shell")[0]["id"] == 61


@pytest.mark.slow
def test_changes_of_another_process_are_followed_without_a_request(folder, client_of, tmp_path):
    path = folder()
    client = client_of(path, watch_seconds=0.05)
    rows = write_rows(tmp_path / "new.jsonl", [{"text": "from the shell", "label": "neg"}])
    assert run("index", "add", path, "--input", rows, "--device", "cpu").exit_code == 0
    assert run("index", "compact", path).exit_code == 0

    for _ in range(600):
        if client.get("/info").json()["n_stored"] == 61:
            break
        threading.Event().wait(0.05)

    assert nearest(client, "from the shell")[0]["id"] == 60


@pytest.mark.slow
def test_two_servers_on_one_folder_lose_nothing(folder, client_of):
    path = folder()
    clients = [client_of(path), client_of(path)]
    acknowledged: list[tuple[int, str]] = []

    def work(number):
        for step in range(12):
            text = f"client {number} step {step}"
            ids = add(clients[number % 2], {"text": text, "label": "pos"})["ids"]
            acknowledged.append((ids[0][0], text))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(acknowledged) == len(dict(acknowledged)) == 48
    texts = stored_texts(path)
    assert all(texts[number] == text for number, text in acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["knn-ue", "dac"])
def test_a_server_waits_for_its_turn_and_is_then_the_only_one(method, folder, client_of):
    path = folder(TEXT, method)
    client = client_of(path)
    added = []

    with held(path):
        thread = threading.Thread(target=lambda: added.append(add(client, TEXT_ROW)))
        thread.start()
        thread.join(1)
        assert not added
    thread.join()

    assert added == [{"ids": [[60]], "n_stored": 61}]


@pytest.mark.slow
def test_an_id_that_is_not_written_in_plain_digits_removes_nothing(folder, client_of):
    client = client_of(folder())
    numbers = ["1_1", "1.0", "1e1", "+1", "-1", "01", "%201", "1%20", "٣", "0x1", "9" * 30, "x"]

    found = {client.delete(f"/examples/{number}").status_code for number in numbers}

    assert found == {422}
    assert client.delete("/examples/11").json() == {"removed": 11, "n_stored": 59}


@pytest.mark.slow
def test_a_writer_that_hangs_makes_nobody_wait_for_ever(folder, client_of):
    path = folder()
    client = client_of(path, max_wait=0.3)
    found = []

    def change(method, address, **options):
        found.append(client.request(method, address, **options))

    with held(path):
        threads = [
            threading.Thread(target=change, args=("POST", "/examples"), kwargs={"json": {"examples": [TEXT_ROW]}}),
            threading.Thread(target=change, args=("POST", "/refit")),
            threading.Thread(target=change, args=("DELETE", "/examples/3")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert client.post("/predict", json={"inputs": "a film"}).status_code == 200

    # One waits for the writer, the others for that one; none of them happens afterwards.
    codes = [one.json()["code"] for one in found]
    assert len(codes) == 3 and "storage" in codes and set(codes) <= {"storage", "waited_too_long"}
    assert all(one.status_code == 503 and int(one.headers["Retry-After"]) >= 1 for one in found)
    assert add(client, TEXT_ROW) == {"ids": [[60]], "n_stored": 61}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["knn-ue", "dac"])
def test_refits_and_rewrites_of_another_server_lose_nothing(method, folder, client_of):
    path = folder(TEXT, method)
    one, two = client_of(path), client_of(path)
    acknowledged: dict[int, str] = {}
    stop = threading.Event()

    def work():
        step = 0
        while not stop.is_set():
            text = f"step {step}"
            acknowledged[add(one, {"text": text, "label": "pos"})["ids"][0][0]] = text
            step += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        refitted = [two.post("/refit") for _ in range(3)]
    finally:
        stop.set()
        thread.join()

    assert [found.status_code for found in refitted] == [200] * 3
    store = UncertaintyPipeline.load(path, device="cpu").fitted_.calibrator
    store = list(store.stores.values())[-1]
    assert acknowledged and store.texts_of(list(acknowledged)) == list(acknowledged.values())


def test_a_disk_that_refuses_is_told_and_nothing_changes(folder, client_of, monkeypatch):
    from knn_ue.folder.changes import Transaction

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    path = folder()
    client = client_of(path)
    monkeypatch.setattr(Transaction, "insert", full)

    found = client.post("/examples", json={"examples": [TEXT_ROW]})

    assert found.status_code == 503 and "disk is full" in found.json()["error"]
    monkeypatch.undo()
    assert client.get("/info").json()["n_stored"] == 60
    assert add(client, TEXT_ROW)["ids"] == [[60]]


def test_a_folder_that_vanishes_is_served_on_from_memory(folder, client_of):
    path = folder()
    client = client_of(path)
    before = client.post("/predict", json={"inputs": "a film"}).json()
    shutil.rmtree(path)

    assert client.post("/predict", json={"inputs": "a film"}).json() == before
    found = client.post("/examples", json={"examples": [TEXT_ROW]})
    assert found.status_code == 503 and json.dumps(found.json()["error"])
