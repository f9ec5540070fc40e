"""The tiny models, one thread a process."""

from importlib.util import find_spec

import pytest

from tiny_models import tiny_model

__all__ = ["tiny_model"]


# For the session: a model trained by a fixture of a module would otherwise come before it.
@pytest.fixture(autouse=True, scope="session")
def one_thread():
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
