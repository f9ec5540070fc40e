"""A folder of tiny data sets laid out as the real one, and a tiny encoder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_data import write_data
from tiny_models import one_thread, tiny_model

__all__ = ["one_thread", "tiny_model"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def encoder(tiny_model: Callable[..., Path]) -> Path:
    return tiny_model("bert", "text-classification")
