"""The Hugging Face hub, without the half minute of retries that its libraries make where there is no network."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

_SECONDS = 5.0


@contextmanager
def cache_only_if_unreachable() -> Iterator[None]:
    """While the hub cannot be reached, let its libraries answer from their caches at once, or say that they cannot."""
    from huggingface_hub import constants

    with _offline(when=constants.HF_HUB_OFFLINE or not _is_reachable(constants.ENDPOINT)):
        yield


@contextmanager
def cache_only() -> Iterator[None]:
    """Let the hub's libraries answer from their caches alone: for what nobody asked to download."""
    if find_spec("huggingface_hub") is None:
        yield
        return
    with _offline(when=True):
        yield


@contextmanager
def _offline(*, when: bool) -> Iterator[None]:
    from huggingface_hub import constants

    # Each library copies the setting when it is imported, so it is set in every copy.
    copies: list[Any] = [constants]
    if (datasets := sys.modules.get("datasets")) is not None:
        copies.append(datasets.config)
    before = [copy.HF_HUB_OFFLINE for copy in copies]
    for copy, setting in zip(copies, before, strict=True):
        copy.HF_HUB_OFFLINE = setting or when
    try:
        yield
    finally:
        for copy, setting in zip(copies, before, strict=True):
            copy.HF_HUB_OFFLINE = setting


@cache  # one question a process: a command loads configuration, tokenizer and weights one after the other
def _is_reachable(endpoint: str) -> bool:
    if {"http", "https", "all"} & getproxies().keys():  # the proxy looks up the name, which we may not be able to
        return True
    address = urlsplit(endpoint)
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), timeout=_SECONDS):
            return True
    except OSError:
        return False
