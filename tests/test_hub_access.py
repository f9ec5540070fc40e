"""Without a network the hub's libraries answer from their caches at once; with one nothing changes."""

import socket

import pytest

from knn_ue.hub_access import cache_only_if_unreachable

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture(autouse=True)
def online(monkeypatch):
    """The settings of a user who asked for nothing; the tests themselves run offline."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_an_unreachable_hub_is_not_asked_and_the_setting_is_put_back(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", closed_port())

    with cache_only_if_unreachable():
        assert constants.HF_HUB_OFFLINE

    assert not constants.HF_HUB_OFFLINE


def test_a_hub_that_answers_is_asked(monkeypatch, server):
    monkeypatch.setattr(constants, "ENDPOINT", server)

    with cache_only_if_unreachable():
        assert not constants.HF_HUB_OFFLINE


def test_a_proxy_is_left_to_reach_the_hub(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", closed_port())
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    with cache_only_if_unreachable():
        assert not constants.HF_HUB_OFFLINE


def test_a_user_who_asked_to_stay_offline_stays_so(monkeypatch, server):
    monkeypatch.setattr(constants, "ENDPOINT", server)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with cache_only_if_unreachable():
        assert constants.HF_HUB_OFFLINE

    assert constants.HF_HUB_OFFLINE


def test_nothing_is_downloaded_unasked(monkeypatch):
    from huggingface_hub import constants

    from knn_ue.hub_access import cache_only

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    with cache_only():
        assert constants.HF_HUB_OFFLINE is True
    assert constants.HF_HUB_OFFLINE is False
