"""`knn-ue spacy fit`, and the commands that take its pipeline for a UE folder."""

import json
import shutil

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

    assert "does not predict: LOC (try --map GPE=LOC)" in result.output
    assert "without a score, because the data has none: GPE" in result.output


def test_a_map_is_proposed_where_types_have_other_names(place, tmp_path):
    result = run("spacy", "fit", str(place / "plain"), *files(place), "--out", str(tmp_path / "out"), code=1)

    assert "the texts suggest --map GPE=LOC --map PERSON=PER" in result.output


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
    assert "check the name; installed: " in result.output


def rows(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


BAD_FILES = {
    "no entity": (
        [{"text": f"nobody came {n}", "entities": []} for n in range(4)],
        "the training texts must hold labeled entities",
    ),
    "an entity past the end": ([{"text": "Oslo", "entities": [[0, 9, "LOC"]]}], "must lie within its text of 4"),
    "a number for an entity": ([{"text": "Oslo", "entities": [7]}], "an entity must be start, end and type"),
    "a type that is missing": ([{"text": "Oslo", "entities": [[0, 4, None]]}], "an entity must be start, end and type"),
    "offsets that are texts": ([{"text": "Oslo", "entities": [["0", "4", "LOC"]]}], "must be numbers of characters"),
    "entities that overlap": (
        [{"text": "Ada Turing", "entities": [[0, 10, "PER"], [4, 10, "LOC"]]}],
        "entities must not overlap",
    ),
    "no text": ([{"text": 7, "entities": []}], "a line must hold a text and its entities"),
    "other tags": ([{"tokens": ["Oslo"], "tags": ["LOC"]}], "a tag must be O, B-TYPE, I-TYPE"),
}


@pytest.mark.parametrize(("lines", "words"), BAD_FILES.values(), ids=list(BAD_FILES))
def test_a_bad_training_file_is_one_sentence(place, tmp_path, lines, words):
    train, out = rows(tmp_path / "bad.jsonl", *lines), str(tmp_path / "out")

    result = run("spacy", "fit", str(place / "plain"), "--train", train, "--out", out, *RENAMED, code=1)

    assert words in result.output and "Traceback" not in result.output


def test_a_validation_file_without_entities_or_rows_is_one_sentence(place, tmp_path):
    train, out = ("--train", str(place / "train.jsonl")), ("--out", str(tmp_path / "out"))
    none = rows(tmp_path / "none.jsonl", *[{"text": f"nobody came {n}", "entities": []} for n in range(4)])
    empty = rows(tmp_path / "empty.jsonl")

    without = run("spacy", "fit", str(place / "plain"), *train, "--validation", none, *out, *RENAMED, code=1)
    nothing = run("spacy", "fit", str(place / "plain"), *train, "--validation", empty, *out, *RENAMED, code=1)

    assert "the validation texts must hold labeled entities" in without.output
    assert "is empty: at least one row is needed" in nothing.output


def test_entities_that_cut_a_word_are_counted(place, tmp_path):
    lines = [json.loads(line) for line in (place / "train.jsonl").read_text().splitlines()]
    cut = {"text": "Ada Turing called", "entities": [[0, 8, "PER"]]}
    train = rows(tmp_path / "cut.jsonl", *lines, cut)

    result = run("spacy", "fit", str(place / "plain"), "--train", train, "--out", str(tmp_path / "out"), *RENAMED)

    assert "1 labeled entity begins or ends inside a word" in result.output and "line 81, 'Ada Turi'" in result.output


def test_a_map_of_an_unknown_type_names_those_there_are(place, tmp_path):
    out = str(tmp_path / "out")

    result = run("spacy", "fit", str(place / "plain"), *files(place), "--out", out, "--map", "PERSN=PER", code=1)

    assert "must be one that the pipeline predicts (GPE, PERSON), got PERSN" in result.output


def test_a_pipeline_without_a_recognizer_names_its_components(place, tmp_path):
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.to_disk(tmp_path / "blank")

    result = run("spacy", "fit", str(tmp_path / "blank"), *files(place), "--out", str(tmp_path / "out"), code=1)

    assert "has no component 'ner', only sentencizer: pass --source" in result.output


@pytest.mark.parametrize("damaged", ["config.cfg", "ner/model", "ner/moves", "vocab/strings.json", "meta.json"])
def test_a_damaged_pipeline_is_one_sentence(place, tmp_path, damaged):
    shutil.copytree(place / "plain", tmp_path / "damaged")
    (tmp_path / "damaged" / damaged).write_bytes(b"\x00 not what it was")

    result = run("spacy", "fit", str(tmp_path / "damaged"), *files(place), "--out", str(tmp_path / "out"), code=1)

    assert "must be a folder or an installed package with a spaCy pipeline" in result.output
