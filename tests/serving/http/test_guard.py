"""Who may ask, from where, how much: checked before the app sees a request."""

import json
import logging
import threading

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.serving import ServeOptions
from knn_ue.serving.logs import JsonLines
from pipelines import TEXT

TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_without_the_token_only_the_page_and_the_probes_answer(asked):
    client = asked(token=TOKEN)

    for path in ("/", "/docs", "/openapi.json", "/health", "/ready", "/page/explorer.js"):
        assert client.get(path).status_code == 200
    for method, path in (
        ("GET", "/info"),
        ("GET", "/metrics"),
        ("GET", "/drift"),
        ("GET", "/validation"),
        ("POST", "/predict"),
        ("POST", "/explain"),
        ("POST", "/examples"),
        ("POST", "/refit"),
        ("POST", "/reload"),
        ("DELETE", "/examples/1"),
    ):
        found = client.request(method, path)
        assert found.status_code == 401 and found.headers["WWW-Authenticate"] == "Bearer", path
    assert client.get("/info", headers=BEARER).status_code == 200


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é", f"Basic {TOKEN}", TOKEN]
)
def test_a_wrong_token_is_refused(given, asked):
    headers = {"Authorization": given.encode("latin-1")}

    assert asked(token=TOKEN).get("/info", headers=headers).status_code == 401


def test_the_name_of_the_scheme_may_be_written_in_any_case(asked):
    assert asked(token=TOKEN).get("/info", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("token", ["short", "with a space in it ok", "ünïcödé-ünïcödé-ünïcödé"])
def test_a_token_that_is_easy_to_guess_or_cannot_be_sent_is_refused(token):
    with pytest.raises(InvalidInputError, match="a token must be"):
        ServeOptions(token=token)


@pytest.mark.slow
def test_a_name_that_was_given_our_address_is_refused(asked):
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        assert asked().get("/info", headers={"Host": host}).status_code == 403
    for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]"):
        assert asked().get("/info", headers={"Host": host}).status_code == 200
    named = asked(allowed_hosts=("ue.example",))
    assert named.get("/info", headers={"Host": "UE.example:443"}).status_code == 200


def test_a_page_of_another_site_can_neither_ask_nor_change(asked):
    client = asked()
    body = {"inputs": "a film"}

    assert client.post("/predict", json=body, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/predict", json=body, headers={"Origin": "null"}).status_code == 403
    assert client.post("/predict", json=body, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    # A form may send plain text without asking first: that is not JSON.
    plain = client.post("/predict", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415
    assert "access-control-allow-origin" not in client.get("/info", headers={"Origin": "http://evil.example"}).headers


def test_a_named_site_may_ask(asked):
    client = asked(cors_origins=("https://good.example",), token=TOKEN)
    origin = {"Origin": "https://good.example"}
    preflight = origin | {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }

    assert client.options("/predict", headers=preflight).status_code == 200
    found = client.post("/predict", json={"inputs": "a film"}, headers=origin | BEARER)
    assert found.status_code == 200 and found.headers["access-control-allow-origin"] == "https://good.example"
    other = client.options("/predict", headers=preflight | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origin", ["*", "good.example", "https://good.example/", "https://good.example/a"])
def test_an_origin_that_no_browser_sends_is_refused(origin):
    with pytest.raises(InvalidInputError, match="CORS origin"):
        ServeOptions(cors_origins=(origin,))


def test_a_body_that_is_too_large_is_refused_by_its_header_or_as_it_comes(asked):
    client = asked(max_body_bytes=1000)
    headers = {"Content-Type": "application/json"}

    known = client.post("/predict", content=b" " * 1001, headers=headers)
    streamed = client.post("/predict", content=(b" " * 100 for _ in range(20)), headers=headers)

    for found in (known, streamed):
        assert found.status_code == 413 and "1000 bytes" in found.json()["error"]


@pytest.mark.slow
def test_whoever_is_refused_for_a_while_learns_how_long(folders, client_of, monkeypatch):
    client = client_of(folders(TEXT), max_items=2, max_queue=2)
    service = client.app.state.service
    body = {"inputs": ["a film", "a dog"]}

    monkeypatch.setattr(service.batcher, "n_waiting", 1)
    full = client.post("/predict", json=body)
    monkeypatch.setattr(service.batcher, "n_waiting", 2)
    unready = client.get("/ready")
    monkeypatch.setattr(service.batcher, "n_waiting", 0)
    monkeypatch.setattr(service, "is_crowded", lambda: True)
    crowded = client.post("/predict", json=body)
    healthy = client.get("/health")
    monkeypatch.setattr(service, "is_crowded", lambda: False)
    monkeypatch.setattr(service, "draining", True)
    draining = client.get("/ready")

    refused = {"queue_full": full, "not_ready": unready, "too_many_connections": crowded}
    for code, found in [*refused.items(), ("not_ready", draining)]:
        assert (found.status_code, found.json()["code"]) == (503, code)
        assert int(found.headers["Retry-After"]) >= 1 and "try again in" in found.json()["error"]
    assert crowded.headers["Connection"] == "close" and healthy.status_code == 200


def test_too_many_open_requests_are_refused(folders, client_of):
    client = client_of(folders(TEXT), max_open_requests=1)
    entered, release, held = threading.Event(), threading.Event(), []

    def hold(works):
        entered.set()
        release.wait(300)
        return run(works)

    service = client.app.state.service
    run, service.batcher._run = service.batcher._run, hold
    thread = threading.Thread(target=lambda: held.append(client.post("/predict", json={"inputs": "a film"})))
    thread.start()
    assert entered.wait(300)
    refused = client.get("/info")
    probe = client.get("/health")
    release.set()
    thread.join()

    assert (refused.status_code, refused.json()["code"]) == (503, "too_many_requests")
    assert int(refused.headers["Retry-After"]) >= 1 and probe.status_code == 200 and held[0].status_code == 200
    assert client.get("/info").status_code == 200


def test_every_answer_has_headers_that_keep_browsers_careful(asked):
    for path in ("/", "/info", "/nowhere"):
        headers = asked().get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert len(headers["x-request-id"]) == 16


def test_no_file_outside_the_page_is_served(asked):
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "/etc/passwd"):
        assert asked().get(f"/page/{name}").status_code == 404


def test_the_pages_name_no_address_outside_this_server(asked):
    import re

    client = asked()
    names = {"/", "/docs"}
    seen = {}
    while names:
        name = names.pop()
        found = client.get(name)
        assert found.status_code == 200, name
        seen[name] = found.text
        linked = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', found.text))
        linked |= {f"/page/{part}" for part in re.findall(r'from "\./([^"]+)"', found.text)}
        names |= linked - seen.keys()

    assert len(seen) > 12
    for name, text in seen.items():
        outside = set(re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]+", text)) - {"http://www.w3.org"}
        assert not outside, name


SECRET = "nobody may ever read this sentence"


def test_logs_and_metrics_never_hold_what_users_send(asked, caplog):
    client = asked()
    caplog.set_level(logging.DEBUG, logger="knn_ue.serving")

    for body in (
        {"inputs": SECRET},
        {"inputs": [SECRET, 3]},
        {"inputs": {"tokens": [SECRET]}},
        {"inputs": "a", SECRET: 1},
        {"inputs": SECRET * 1000},
    ):
        client.post("/predict", json=body)
    client.post("/examples", json={"examples": [{"text": SECRET, "label": SECRET}]})
    client.get(f"/{SECRET}")
    client.request(SECRET.split()[0].upper(), "/predict")

    lines = [JsonLines().format(record) for record in caplog.records]
    assert len(lines) >= 8 and all(json.loads(line)["event"] == "request" for line in lines)
    everything = "\n".join([*lines, client.get("/metrics").text])
    assert SECRET not in everything and SECRET.split()[0] not in everything.lower()


def test_a_failure_is_logged_without_its_message(asked, caplog, monkeypatch):
    client = asked()
    service = client.app.state.service

    def fail(_works):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(service.batcher, "_run", fail)
    found = client.post("/predict", json={"inputs": "a film"})

    assert found.status_code == 500 and SECRET not in found.text
    (line,) = [JsonLines().format(record) for record in caplog.records if record.levelname == "ERROR"]
    assert json.loads(line)["error"] == "RuntimeError" and any("fail" in place for place in json.loads(line)["at"])
    assert json.loads(line)["request"] in found.json()["error"] and SECRET not in line


def test_metrics_count_what_happened(folders, client_of):
    client = client_of(folders(TEXT))
    client.post("/predict", json={"inputs": ["a film", "a dog"]})
    client.post("/predict", json={"inputs": ""})

    lines = client.get("/metrics").text.splitlines()

    for line in (
        'knn_ue_requests_total{method="POST",path="/predict",status="200"} 1.0',
        'knn_ue_requests_total{method="POST",path="/predict",status="422"} 1.0',
        "knn_ue_confidence_count 2.0",
        "knn_ue_examples_stored 60.0",
        "knn_ue_drift_inputs 2.0",
        "knn_ue_queue_items 0.0",
        "knn_ue_ready 1.0",
    ):
        assert line in lines
    assert any(line.startswith('knn_ue_drift_beyond_ratio{quantity="familiarity"}') for line in lines)


@pytest.mark.parametrize(
    "value",
    [{"max_items": 0}, {"max_items": 20_000, "max_queue": 20_000}, {"max_queue": 3}, {"port": 70000}, {"max_wait": -1}],
)
def test_options_that_make_no_sense_are_refused(value):
    with pytest.raises(InvalidInputError):
        ServeOptions(**value)


@pytest.mark.parametrize("origin", ["http://[", "http://]", "//[::", "null", "http://x:y:z", "\x00"])
def test_an_origin_that_is_no_address_is_foreign(origin, asked):
    client = asked()

    assert client.get("/health", headers={"Origin": origin}).status_code == 200
    assert client.post("/refit", headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("number", [2**31, 2**63, 10**40, -(10**40)])
def test_a_number_beyond_every_type_is_refused(number, asked):
    client = asked()

    for body in ({"top_k": number}, {"top": number}):
        assert client.post("/predict", json={"inputs": "a film"} | body).status_code == 422
    assert client.post("/sample", json={"n": number}).status_code == 422
    assert client.delete(f"/examples/{number}").status_code in (404, 422)
