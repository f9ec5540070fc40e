"""Long work tells how far it is, wherever it runs."""

import pytest

from knn_ue import progress
from knn_ue.progress import LogLines, NotebookBars, as_progress


class Display:
    """What IPython's `display` gives: pages, the first displayed, the others updates of it."""

    def __init__(self):
        self.pages = []

    def __call__(self, page, *, raw, display_id):  # noqa: ARG002 (as IPython has them)
        self.pages.append(page)
        return self

    def update(self, page, *, raw):  # noqa: ARG002
        self.pages.append(page)


def test_a_notebook_shows_one_bar_for_each_kind_of_work():
    display = Display()
    bars = NotebookBars(display)

    bars("training", 10, 10)
    bars("<b>", 5, 5)

    assert display.pages[-1]["text/plain"] == "training: 10 of 10; <b>: 5 of 5"
    assert display.pages[-1]["text/html"].count("<progress ") == 2
    assert "&lt;b&gt;" in display.pages[-1]["text/html"]


def test_a_notebook_is_not_flooded_with_pictures():
    display = Display()
    bars = NotebookBars(display)

    for done in range(1000):
        bars("training", done, 1000)

    assert len(display.pages) < 100


def test_a_log_gets_a_line_a_minute(monkeypatch):
    clock = iter([0.0, 30.0, 61.0, 61.0, 90.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    said = []
    lines = LogLines(said.append)

    lines("training", 1, 9)  # after 30 s
    lines("training", 5, 9)  # after 61 s
    lines("training", 7, 9)  # 29 s later

    assert said == ["training: 5 of 9"]


@pytest.mark.parametrize("given", [None, False])
def test_nothing_is_shown_unless_it_is_asked_for(given):
    assert as_progress(given) is None


def test_true_shows_and_a_function_is_called_itself():
    assert isinstance(as_progress(True), LogLines)  # a test has no terminal
    assert as_progress(print) is print
