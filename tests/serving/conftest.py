"""UE folders on tiny models, by task and method, and a client of the app without a network."""

import shutil

import pytest

from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import TASKS, one_thread, save_tiny_model

__all__ = ["one_thread"]

pytest.importorskip("fastapi")
pytest.importorskip("torch")


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Return a function (task, method) -> UE folder; each is made once a session and must not be written to."""
    place = tmp_path_factory.mktemp("served")
    families = {TEXT: "bert", PAIR: "roberta", WORDS: "bert"}
    models = {task: save_tiny_model(place / task, family=families[task], task=task) for task in TASKS}
    made = {}

    def get(task=TEXT, method="knn-ue"):
        if (task, method) not in made:
            made[task, method] = place / f"{task}-{method}"
            fit(models[task], task, method=method, index="exact").save(made[task, method])
        return made[task, method]

    return get


@pytest.fixture
def folder(folders, tmp_path):
    """Return a function that copies a UE folder, for tests that change it."""

    def copy(task=TEXT, method="knn-ue", name="ue"):
        shutil.copytree(folders(task, method), tmp_path / name)
        return tmp_path / name

    return copy


@pytest.fixture
def client_of():
    """Return a function (folder, options) -> a client whose app is running."""
    from contextlib import ExitStack

    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    with ExitStack() as stack:

        def make(path, **options):
            options = {"device": "cpu", "watch_seconds": 0} | options
            app = create_app(path, ServeOptions(**options))
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1"))

        yield make
