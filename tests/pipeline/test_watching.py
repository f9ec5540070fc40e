"""`pipe.watch` and `knn-ue watch`: what labels that arrive later say of the promises of a fitted folder."""

import json

import numpy as np
import pytest

from cli_files import run, write_rows
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import N_NEIGHBORS, TEXT, WORDS, fit, said_by_the_model
from tiny_models import ROWS, one_thread, save_tiny_model

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    """Return a folder that promises a precision and a coverage, and its pipeline."""
    place = tmp_path_factory.mktemp("promised")
    pipe = UncertaintyPipeline.from_pretrained(
        save_tiny_model(place / "m", family="bert", task=TEXT), TEXT, device="cpu"
    )
    validation = said_by_the_model(pipe, 120, start=100, wrong_every=100)
    pipe.fit(ROWS[TEXT](60), validation, n_neighbors=N_NEIGHBORS, target_precision=0.8, coverage=0.9)
    assert pipe.threshold_.found
    pipe.save(place / "ue")
    return place / "ue", pipe


def wrong(rows):
    return [row | {"label": "neg" if row["label"] == "pos" else "pos"} for row in rows]


def test_a_promise_holds_as_long_as_the_answers_are_right_and_is_broken_when_they_are_not(promised):
    _, pipe = promised
    right = said_by_the_model(pipe, 80, start=500, wrong_every=100)

    good, bad = pipe.watch(right), pipe.watch(right + wrong(said_by_the_model(pipe, 80, start=700, wrong_every=100)))

    assert [one.holds for one in good] == [True, True]
    assert not bad[0].holds and bad[0].broken_after > 80
    assert bad[0].promise == pipe.promises[0]


def test_the_command_says_so_by_its_exit_code(promised, tmp_path):
    folder, pipe = promised
    right = said_by_the_model(pipe, 80, start=500, wrong_every=100)
    good, bad = write_rows(tmp_path / "good.jsonl", right), write_rows(tmp_path / "bad.jsonl", wrong(right))

    holds = run("watch", folder, "--labeled", good)
    broken = run("watch", folder, "--labeled", bad)
    plain = run("watch", folder, "--labeled", bad, "--json")

    assert (holds.exit_code, broken.exit_code, plain.exit_code) == (0, 3, 3)
    assert "promised: at least 80 % of the answers given are right" in holds.stdout
    assert "holds so far (evidence 1 : " in holds.stdout
    assert "broken (evidence 1 : " in broken.stdout
    assert json.loads(plain.stdout)["promises"][0]["holds"] is False


def test_evaluate_and_its_report_say_what_the_test_rows_say_of_each_promise(promised, tmp_path):
    folder, pipe = promised
    test = write_rows(tmp_path / "test.jsonl", said_by_the_model(pipe, 60, start=500, wrong_every=100))

    shown = run("evaluate", folder, "--test", test)
    reported = run("evaluate", folder, "--test", test, "--report", tmp_path / "report", "--bootstrap", 10)

    assert (shown.exit_code, reported.exit_code) == (0, 0), reported.output
    assert "promised: at least 80 % of the answers given are right" in shown.stdout
    assert "holds so far (evidence 1 : " in shown.stdout
    context = json.loads((tmp_path / "report" / "report.json").read_text())["context"]
    assert context["promise 1"].startswith("at least 80 % of the answers given are right")
    assert "on the test rows it holds so far" in context["promise 2"]


def test_without_a_promise_there_is_nothing_to_watch(models):
    with pytest.raises(InvalidInputError, match="nothing was promised that could be watched"):
        fit(models[TEXT], TEXT).watch(ROWS[TEXT](10, start=900))


def test_in_tagging_sentences_are_what_is_counted(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 200, start=100, wrong_every=1000)
    pipe.fit(ROWS[WORDS](30), validation, n_neighbors=N_NEIGHBORS, target_precision=0.5)

    (found,) = pipe.watch(said_by_the_model(pipe, 25, start=900, wrong_every=1000))

    assert (found.n_units, found.holds) == (25, True)
    assert found.n_shown <= 25 * pipe.threshold_.cap
    assert np.isclose(found.risk, 0.5)
