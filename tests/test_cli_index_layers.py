"""`index` on a folder with one datastore a layer: all layers change together, or none does."""

import json
import shutil
from pathlib import Path

import pytest

from cli_files import data_of, read_lines, run, write_rows
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import remove_from_all
from tiny_models import N_LAYERS, text_rows, tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")

__all__ = ["tiny_model"]


@pytest.fixture(scope="module")
def fitted(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dac")
    train, validation, _ = data_of("text", folder)
    options = ["--task", "text", "--neighbors", 8, "--method", "dac", "--out", folder / "ue"]
    model = tiny_model("bert", "text-classification")
    result = run("fit", model, "--train", train, "--validation", validation, *options)
    assert result.exit_code == 0, result.output
    return folder / "ue"


@pytest.fixture
def ue(fitted, tmp_path) -> Path:
    return shutil.copytree(fitted, tmp_path / "ue")


@pytest.fixture
def new(tmp_path) -> Path:
    return write_rows(tmp_path / "new.jsonl", text_rows(3, start=500))


def ids_of(ue: Path) -> list[list[int]]:
    return [store.ids.tolist() for store in UncertaintyPipeline.load(ue).calibrator_.stores.values()]


def test_predict_shows_the_texts_of_the_neighbors(ue, tmp_path):
    source = write_rows(tmp_path / "input.jsonl", text_rows(1))

    run("predict", ue, "--input", source, "--output", tmp_path / "answers.jsonl", "--top", 1)

    (answer,) = read_lines(tmp_path / "answers.jsonl")
    assert [near["text"] for near in answer["neighbors"]] == [text_rows(1)[0]["text"]]


@pytest.mark.slow
def test_examples_are_added_to_every_layer_and_removed_from_every_layer(ue, new):
    added = json.loads(run("index", "add", ue, "--input", new, "--json").stdout)
    after_add = ids_of(ue)
    removed = json.loads(run("index", "remove", ue, "--ids", "0,60-61,0", "--json").stdout)

    assert added == {"ids": [60, 61, 62], "examples": 63}
    assert after_add == [list(range(63))] * N_LAYERS
    assert removed == {"removed": [0, 60, 61], "examples": 60}
    assert ids_of(ue) == [[*range(1, 60), 62]] * N_LAYERS


def test_an_added_text_is_its_own_nearest_neighbor(ue, new, tmp_path):
    run("index", "add", ue, "--input", new)
    run("predict", ue, "--input", new, "--output", tmp_path / "answers.jsonl", "--top", 1)

    nearest = [answer["neighbors"][0] for answer in read_lines(tmp_path / "answers.jsonl")]
    assert [near["text"] for near in nearest] == [row["text"] for row in text_rows(3, start=500)]


def test_compact_keeps_what_is_stored(ue, new):
    run("index", "add", ue, "--input", new)

    result = run("index", "compact", ue)

    assert (result.exit_code, ids_of(ue)) == (0, [list(range(63))] * N_LAYERS)


def test_nothing_changes_if_an_id_is_unknown(ue):
    result = run("index", "remove", ue, "--ids", "0,999")

    assert (result.exit_code, ids_of(ue)) == (1, [list(range(60))] * N_LAYERS)


def test_a_disk_that_is_full_leaves_all_layers_as_they_were(ue, new, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    run("index", "add", ue, "--input", new)
    with monkeypatch.context() as patch:
        patch.setattr("knn_ue.folder.part.write_arrays", full)
        result = run("index", "compact", ue)

    assert result.exit_code == 1
    assert "cannot be written (No space left on device): what it held is unchanged" in result.stderr
    assert ids_of(ue) == [list(range(63))] * N_LAYERS


def test_a_change_that_fails_after_the_first_layer_leaves_all_layers_as_they_were(ue, new, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("knn_ue.folder.changes._commit", interrupt)
        result = run("index", "add", ue, "--input", new)

    assert result.exit_code != 0
    assert ids_of(ue) == [list(range(60))] * N_LAYERS


def test_one_layer_alone_cannot_change(ue):
    stores = UncertaintyPipeline.load(ue).calibrator_.stores

    with pytest.raises(InvalidInputError, match=rf"the {N_LAYERS} stores of .* change together: add through"):
        next(iter(stores.values())).add([[0.0] * next(iter(stores.values())).n_columns], [0])

    assert ids_of(ue) == [list(range(60))] * N_LAYERS


def test_what_another_process_added_meanwhile_is_kept(ue, new):
    pipe = UncertaintyPipeline.load(ue)
    run("index", "add", ue, "--input", new)

    pipe.opened.edit(lambda fitted: (fitted, remove_from_all(fitted.calibrator.stores, [0, 61])))

    assert ids_of(ue) == [[*range(1, 61), 62]] * N_LAYERS
    assert [store.ids.tolist() for store in pipe.calibrator_.stores.values()] == ids_of(ue)
