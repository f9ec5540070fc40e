"""UE folders on tiny models, by task and method, and a client of the app without a network."""

import shutil
from contextlib import ExitStack

import pytest

from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import TASKS, one_thread, save_tiny_model

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Return a function (task, method) -> UE folder; each is made once a session and must not be written to."""
    place = tmp_path_factory.mktemp("served")
    families = {TEXT: "bert", PAIR: "roberta", WORDS: "bert"}
    models = {task: save_tiny_model(place / task, family=families[task], task=task) for task in TASKS}
    # This tagger says O at times: only then can anything be missed.
    models["knn-ue-entity"] = save_tiny_model(place / "entities", family="bert", task=WORDS, seed=5)
    made = {}

    def get(task=TEXT, method="knn-ue"):
        if (task, method) not in made:
            made[task, method] = place / f"{task}-{method}"
            fit(models.get(method, models[task]), task, method=method, index="exact").save(made[task, method])
        return made[task, method]

    return get


@pytest.fixture
def folder(folders, tmp_path):
    """Return a function that copies a UE folder, for tests that change it."""

    def copy(task=TEXT, method="knn-ue", name="ue"):
        shutil.copytree(folders(task, method), tmp_path / name)
        return tmp_path / name

    return copy


@pytest.fixture(scope="session")
def asked(folders):
    """Return a function (task, method, options) -> a client of a running app that tests only ask; made once each."""
    with ExitStack() as stack:
        made = {}

        def get(task=TEXT, method="knn-ue", **options):
            key = (task, method, *sorted(options.items()))
            if key not in made:
                made[key] = stack.enter_context(_client(folders(task, method), options))
            return made[key]

        yield get


@pytest.fixture
def client_of():
    """Return a function (folder, options) -> a client whose app runs until the test ends."""
    with ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(_client(path, options))


def _client(path, options):
    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    options = {"device": "cpu", "watch_seconds": 0} | options
    return TestClient(create_app(path, ServeOptions(**options)), base_url="http://127.0.0.1")
