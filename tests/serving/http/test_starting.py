"""What a server refuses before it listens, and what it warns of."""

import json
import logging
import socket

import pytest

from held import fitted_in
from knn_ue.errors import KnnUeError, StorageError
from knn_ue.serving import ServeOptions, create_app
from knn_ue.serving.http.server import _bind
from knn_ue.serving.logs import JsonLines

DAMAGE = {
    "no folder at all": lambda path: path.rename(path.with_name("elsewhere")),
    "no contents": lambda path: (fitted_in(path) / "fitted.json").unlink(),
    "garbled contents": lambda path: (fitted_in(path) / "fitted.json").write_text("{"),
    "cut arrays": lambda path: (fitted_in(path) / "arrays.safetensors").write_bytes(b""),
    "no calibrator": lambda path: (fitted_in(path) / "calibrator").rename(path / "away"),
    "no model": lambda path: (fitted_in(path) / "encoder").rename(path / "away"),
    "no changes": lambda path: (path / "changes.db").unlink(),
    "other weights": lambda path: next(path.rglob("model.safetensors")).write_bytes(b"nonsense"),
    "garbled changes": lambda path: (path / "changes.db").write_bytes(b"nonsense"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_not_served(name, folder):
    path = folder()
    DAMAGE[name](path)

    with pytest.raises(KnnUeError) as refused:
        create_app(path, ServeOptions(device="cpu"))

    assert "\n" not in str(refused.value)


def test_a_port_that_is_taken_is_refused_with_the_way_out():
    refused = pytest.raises(StorageError, match="choose another --port")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        _bind(ServeOptions(port=taken.getsockname()[1]))


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "token": "correct-horse-battery-staple"}, False),
        ({"host": "127.0.0.1"}, False),
    ],
)
def test_listening_wider_without_a_token_is_warned_of(options, warned, caplog):
    caplog.set_level(logging.INFO, logger="knn_ue.serving")

    _bind(ServeOptions(port=0, **options)).close()

    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [(line["event"], line["level"]) for line in lines] == [("open_to_all", "warning")] * warned


def test_the_first_request_builds_nothing(folders, client_of, monkeypatch):
    client = client_of(folders())

    def late(**_):
        raise AssertionError("a route is built while clients wait")

    monkeypatch.setattr("fastapi.routing.get_dependant", late)

    assert client.post("/predict", json={"inputs": "a film"}).status_code == 200
    assert client.get("/info").status_code == 200
