"""`knn-ue spacy fit`, and the commands that take its pipeline for a UE folder."""

import json

import pytest
from typer.testing import CliRunner

from knn_ue.cli import app

spacy = pytest.importorskip("spacy")

from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
RENAMED = ("--map", "PERSON=PER", "--map", "GPE=LOC")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spacy")
    nlp = trained_pipeline()
    nlp.to_disk(folder / "plain")
    for name, seed in (("train", 1), ("dev", 2)):
        rows = [
            {
                "text": example.reference.text,
                "entities": [[ent.start_char, ent.end_char, ent.label_] for ent in example.reference.ents],
            }
            for example in examples(nlp, 80, seed=seed)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("spacy", "fit", str(folder / "plain"), *files(folder), "--out", str(folder / "fitted"), *RENAMED)
    return folder


def files(folder):
    return "--train", str(folder / "train.jsonl"), "--validation", str(folder / "dev.jsonl")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def test_fit_writes_a_pipeline_that_spacy_loads(place):
    doc = spacy.load(place / "fitted")("Ada Turing met Oslo")

    assert doc.ents and all(0 < ent._.confidence < 1 for ent in doc.ents)


def test_explain_takes_the_pipeline_for_a_ue_folder(place):
    result = run("explain", str(place / "fitted"), "Ada Turing met Oslo")

    assert "all entities right and none missed" in result.output


def test_fit_tells_types_without_a_score(place, tmp_path):
    result = run(
        "spacy", "fit", str(place / "plain"), *files(place), "--out", str(tmp_path / "out"), "--map", "PERSON=PER"
    )

    assert (
        "does not predict: LOC" in result.output and "without a score, because the data has none: GPE" in result.output
    )


def test_fit_refuses_a_folder_that_is_there(place):
    result = run("spacy", "fit", str(place / "plain"), *files(place), "--out", str(place / "fitted"), code=1)

    assert "already exists: pass --overwrite" in result.output


@pytest.mark.parametrize("pair", ["PERSON", "=PER", "PERSON="])
def test_a_map_that_is_no_pair_is_refused(place, tmp_path, pair):
    out = str(tmp_path / "out")

    result = run("spacy", "fit", str(place / "plain"), *files(place), "--out", out, "--map", pair, code=1)

    assert "A=B" in result.output


def test_a_name_that_is_no_pipeline_is_one_sentence(tmp_path):
    result = run("spacy", "fit", "no_such_pipeline", "--train", "x.jsonl", "--out", str(tmp_path / "out"), code=1)

    assert "must be a folder or an installed package with a spaCy pipeline" in result.output
