"""A repeated request is answered as the first time and done once; all that a request asks is done, or nothing."""

import sqlite3
import threading
from contextlib import closing

import pytest

from held import held
from knn_ue.folder import DATABASE, changes, database
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import TEXT
from serving_checks import TEXT_ROW, stored_texts
from tiny_models import ROWS

BODY = {"examples": [TEXT_ROW]}
LABELED = {"examples": ROWS[TEXT](20, start=300), "labels_of": "reviews", "random_sample": True}
KEY = {"Idempotency-Key": "a-key-of-mine"}


def counts(path):
    """Return how many examples are stored and how many labels the domain has, on disk."""
    pipe = UncertaintyPipeline.load(path, device="cpu")
    return len(pipe.calibrator_.store), sum(one.n_rows for one in pipe.domains_.values())


@pytest.mark.parametrize(
    ("method", "address", "body"),
    [
        ("POST", "/examples", BODY),
        ("POST", "/examples", LABELED),
        ("POST", "/adapt", {"examples": LABELED["examples"], "domain": "reviews", "add": True}),
        ("POST", "/refit", None),
        ("DELETE", "/examples/3", None),
        ("DELETE", "/domains/reviews", None),
    ],
)
def test_a_repeated_change_is_made_once_and_answered_as_the_first_time(method, address, body, folder, client_of):
    path = folder()
    client = client_of(path)
    client.post("/adapt", json={"examples": LABELED["examples"], "domain": "reviews"}).raise_for_status()

    first = client.request(method, address, json=body, headers=KEY)
    after = counts(path)
    again = [client.request(method, address, json=body, headers=KEY) for _ in range(2)]

    assert first.status_code in (200, 201)
    assert [(one.status_code, one.json()) for one in again] == [(first.status_code, first.json())] * 2
    assert counts(path) == after


def test_a_repetition_is_known_to_another_server_and_after_a_restart(folder, client_of):
    path = folder()
    first = client_of(path).post("/examples", json=BODY, headers=KEY).json()

    assert client_of(path).post("/examples", json=BODY, headers=KEY).json() == first == {"ids": [[60]], "n_stored": 61}


def test_a_key_of_another_request_is_refused(folder, client_of):
    client = client_of(folder())
    client.post("/examples", json=BODY, headers=KEY).raise_for_status()

    for found in (client.post("/examples", json=LABELED, headers=KEY), client.post("/refit", headers=KEY)):
        assert found.status_code == 422 and "belongs to another request: use a new key" in found.json()["error"]
    assert client.get("/info").json()["n_stored"] == 61


@pytest.mark.parametrize("key", ["", "two words", "x" * 129, "ä".encode()])
def test_a_key_that_cannot_be_one_is_refused(key, asked):
    assert asked().post("/refit", headers={"Idempotency-Key": key}).status_code == 422


def test_what_was_refused_may_be_asked_again_with_the_same_key(folder, client_of):
    client = client_of(folder())

    assert client.delete("/examples/60", headers=KEY).status_code == 404
    client.post("/examples", json=BODY).raise_for_status()

    assert client.delete("/examples/60", headers=KEY).json() == {"removed": 60, "n_stored": 60}


def test_answers_are_kept_for_a_day_and_for_the_last_ones_only(folder, client_of, monkeypatch):
    path = folder()
    client = client_of(path)
    monkeypatch.setattr(changes, "MOST_ANSWERS", 3)

    def add(key):
        return client.post("/examples", json=BODY, headers={"Idempotency-Key": str(key)}).json()["ids"][0][0]

    assert [add(key) for key in range(5)] == [60, 61, 62, 63, 64]
    with closing(sqlite3.connect(path / DATABASE)) as opened:
        assert [key for (key,) in opened.execute("select key from requests order by rowid")] == ["2", "3", "4"]
    assert (add(4), add(0)) == (64, 65)
    now = changes.time.time()
    monkeypatch.setattr(changes.time, "time", lambda: now + 86_401)
    assert add(4) == 66


def test_labels_and_examples_of_a_request_are_stored_together_or_not_at_all(folder, client_of, monkeypatch):
    path = folder()
    client = client_of(path)
    before = counts(path)

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    for name in ("insert", "put"):  # the examples, the labels
        monkeypatch.setattr(changes.Transaction, name, full)
        assert client.post("/examples", json=LABELED).status_code == 503
        monkeypatch.undo()
        assert counts(path) == before

    assert client.post("/examples", json=LABELED).status_code == 201
    assert counts(path) == (before[0] + 20, 20)


def test_a_client_that_goes_away_leaves_all_of_its_request_or_nothing(folder, client_of):
    path = folder()
    client = client_of(path, max_wait=0.3)
    before = counts(path)

    with held(path):  # the change cannot begin, and is given up
        thread = threading.Thread(target=lambda: client.post("/examples", json=LABELED))
        thread.start()
        thread.join(30)

    assert counts(path) == before
    assert client.post("/examples", json=LABELED).status_code == 201
    assert counts(path) == (before[0] + 20, 20)


class Disk:
    """Makes the writes that it `fails` fail; where it `commits`, a commit is made before that."""

    def __init__(self, monkeypatch):
        self.fails, self.commits = set(), False
        disk = self

        class Flaky(sqlite3.Connection):
            def execute(self, sql, *more):
                if sql == "commit" and "commit" in disk.fails:
                    if disk.commits:
                        super().execute(sql)
                    raise sqlite3.OperationalError("disk I/O error")
                if sql == "update folder set mark = mark" and "confirm" in disk.fails:
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(sql, *more)

        connect = sqlite3.connect
        monkeypatch.setattr(database.sqlite3, "connect", lambda *a, **o: connect(*a, **{"factory": Flaky} | o))


@pytest.mark.parametrize("method", ["knn-ue", "dac"])
@pytest.mark.parametrize(
    ("fails", "commits", "status", "made"),
    [
        ({"commit"}, False, 503, 0),  # undone, and told so
        ({"commit"}, True, 201, 1),  # made, and confirmed by the next write
        ({"commit", "confirm"}, True, 503, 1),  # made: told to look before repeating it
    ],
    ids=["not made", "made", "not confirmed"],
)
def test_a_change_whose_commit_fails_is_never_made_twice(
    method, fails, commits, status, made, folder, client_of, monkeypatch
):
    path = folder(TEXT, method)
    client = client_of(path)
    disk = Disk(monkeypatch)
    disk.fails, disk.commits = fails, commits

    found = client.post("/examples", json=LABELED, headers=KEY)
    disk.fails = set()
    stored = {len(store) for store in UncertaintyPipeline.load(path, device="cpu").calibrator_.stores.values()}
    again = client.post("/examples", json=LABELED, headers=KEY)

    assert found.status_code == status, found.text
    assert ("look before you repeat it" in found.text) == ("confirm" in fails)
    assert stored == {60 + 20 * made}
    assert again.status_code == 201 and again.json()["n_stored"] == 80 == client.get("/info").json()["n_stored"]
    assert again.json()["labels"]["n_rows"] == 20


def test_threads_that_repeat_one_request_at_once_get_one_answer(folder, client_of):
    path = folder()
    clients = [client_of(path), client_of(path)]
    found = []

    def ask(client):
        found.append(client.post("/examples", json=BODY, headers=KEY).json())

    threads = [threading.Thread(target=ask, args=(clients[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [{"ids": [[60]], "n_stored": 61}] * 8
    assert len(stored_texts(path)) == 61


@pytest.mark.parametrize("answer", ["[", "[1]", "null", "[" * 100_000], ids=["cut", "a list", "null", "deep"])
def test_a_kept_answer_that_is_none_is_an_error_and_no_crash(answer, folder, client_of):
    path = folder()
    client = client_of(path)
    client.post("/examples", json=BODY, headers=KEY).raise_for_status()
    with closing(sqlite3.connect(path / DATABASE)) as opened, opened:
        opened.execute("update requests set answer = ?", (answer,))

    found = client.post("/examples", json=BODY, headers=KEY)

    assert found.status_code == 503 and found.json()["code"] == "storage"
    assert client.get("/info").json()["n_stored"] == 61
