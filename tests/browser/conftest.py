"""A real Chromium on a real server; skipped, with the reason, where there is none."""

import os
import shutil
from pathlib import Path

import pytest

from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import one_thread, save_tiny_model
from torture.forked_server import serving

__all__ = ["one_thread"]

_FAMILIES = {TEXT: "bert", PAIR: "roberta", WORDS: "bert"}


@pytest.fixture(scope="module")  # while it lives, its event loop runs: no test outside may meet it
def browser():
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium is installed: apt-get install chromium, or set CHROMIUM to its path")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # No sandbox: CI runs as root, and the only page it opens is ours.
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """Return a function (task, method, arguments) -> a server of a fresh folder, which runs until the session ends."""
    from contextlib import ExitStack

    place = tmp_path_factory.mktemp("browser")
    with ExitStack() as stack:
        made = {}

        def get(task=TEXT, method="knn-ue", *arguments):
            key = (task, method, *arguments)
            if key not in made:
                seed = 5 if method == "knn-ue-entity" else 0  # 5 says O at times: only then can anything be missed
                model: Path = place / f"{task}-{seed}"
                if not model.exists():
                    save_tiny_model(model, family=_FAMILIES[task], task=task, seed=seed)
                folder = place / f"ue-{len(made)}"
                fit(model, task, method=method, index="exact", false_alarm_rate=0.05).save(folder)
                made[key] = stack.enter_context(serving(folder, *arguments))
            return made[key]

        yield get


@pytest.fixture
def open_page(browser):
    """Return a function (server, options) -> an open explorer; whatever the browser complains of fails the test."""
    pages, complaints = [], []

    def get(server, path="/", **options):
        page = browser.new_page(**options)
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"{request.url} failed"))
        page.on("request", lambda request: _check_ours(request.url, server, complaints))
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        pages.append(page)
        return page

    yield get
    for page in pages:
        page.close()
    assert complaints == []


def _check_ours(url, server, complaints):
    if not url.startswith(f"http://127.0.0.1:{server.port}/"):
        complaints.append(f"{url} is not ours")
