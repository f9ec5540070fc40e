"""A UE folder: equal after loading, movable, safe on disk."""

import json
import os
import shutil

import numpy as np
import pytest

from held import fitted_in, forge_database, forge_state
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import StaleFolderError, StorageError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.stores import Datastore, compact_folder, remove_from_all
from marks import slow_but
from pipelines import N_NEIGHBORS, TEXT, WORDS, fit, said_by_the_model
from tiny_models import ROWS, TASKS

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture
def saved(models, tmp_path):
    """Return a UE folder and the answers of the pipeline that wrote it; its model folder may be changed."""
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    pipe = fit(model, TEXT)
    pipe.save(tmp_path / "ue")
    return tmp_path / "ue", pipe(ROWS[TEXT](5, start=300))


def files_of(folder):
    return fitted_in(folder) / "encoder"


def reload(folder):
    return UncertaintyPipeline.load(folder, device="cpu")(ROWS[TEXT](5, start=300))


@pytest.mark.parametrize("task", slow_but(WORDS, TASKS))
def test_a_moved_folder_gives_identical_answers_without_the_model_folder(task, models, tmp_path):
    model = shutil.copytree(models[task], tmp_path / "model")
    pipe = fit(model, task)
    expected = pipe(ROWS[task](5, start=300))
    pipe.save(tmp_path / "ue")
    shutil.rmtree(model)
    (tmp_path / "ue").rename(tmp_path / "moved")

    loaded = UncertaintyPipeline.load(tmp_path / "moved", device="cpu")

    assert loaded(ROWS[task](5, start=300)) == expected


def test_loading_brings_back_what_fit_left(models, tmp_path):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu", max_length=16, context_words=1)
    validation = said_by_the_model(pipe, 40, start=100, wrong_every=40)
    pipe.fit(ROWS[WORDS](20), validation, n_neighbors=4, target_risk=0.5)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert (loaded.threshold_, loaded.encoder.options) == (pipe.threshold_, pipe.encoder.options)
    assert loaded.validation_.texts == pipe.validation_.texts
    for name in ("logits", "features", "labels", "groups"):
        np.testing.assert_array_equal(getattr(loaded.validation_, name), getattr(pipe.validation_, name))
    np.testing.assert_array_equal(loaded.fitted_.held_out, pipe.fitted_.held_out)
    np.testing.assert_array_equal(loaded.drift_.distance, pipe.drift_.distance)


def test_a_loaded_pipeline_can_be_saved_in_place(saved):
    folder, expected = saved

    UncertaintyPipeline.load(folder, device="cpu").save(folder)

    assert reload(folder) == expected


@pytest.mark.slow
def test_a_loaded_pipeline_can_be_saved_elsewhere(saved, tmp_path):
    folder, expected = saved
    UncertaintyPipeline.load(folder, device="cpu").save(tmp_path / "copy")

    shutil.rmtree(folder)

    assert reload(tmp_path / "copy") == expected


def test_a_pipeline_whose_folder_was_compacted_since_can_be_saved_elsewhere(saved, tmp_path):
    folder, expected = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    remove_from_all(pipe.calibrator_.stores, [3])
    compact_folder(folder)

    with pytest.raises(StaleFolderError, match="compacted, tuned or replaced since it was opened: open it again"):
        pipe.save(tmp_path / "copy")
    pipe.reloaded(folder).save(tmp_path / "copy")

    assert [answer.label for answer in reload(tmp_path / "copy")] == [answer.label for answer in expected]


def test_a_file_that_is_altered_after_it_was_verified_does_not_become_part_of_another_folder(saved, tmp_path):
    pipe = UncertaintyPipeline.load(saved[0], device="cpu")
    file = files_of(saved[0]) / "config.json"
    file.write_text(file.read_text() + " ")

    with pytest.raises(StorageError, match=r"config.json was altered since it was opened: restore"):
        pipe.save(tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


@pytest.mark.slow
def test_a_refitted_pipeline_replaces_what_the_folder_held(saved):
    folder, _ = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), method="temperature")

    pipe.save(folder)

    assert UncertaintyPipeline.load(folder, device="cpu").method_ == "temperature"
    assert len(list(folder.glob("fitted-*"))) == 1


def test_examples_added_to_a_loaded_store_are_there_after_saving_in_place(saved):
    folder, _ = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.calibrator_.store.add(np.zeros((1, 48)), [0], texts=["new"])

    pipe.save(folder)

    assert len(UncertaintyPipeline.load(folder, device="cpu").calibrator_.store) == 61


def test_large_files_of_the_model_take_no_space_twice(models, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.folder.disk._LINKED_BYTES", 0)
    fit(models[TEXT], TEXT).save(tmp_path / "ue")

    weights = files_of(tmp_path / "ue") / "model.safetensors"

    assert weights.samefile(models[TEXT] / "model.safetensors")


def test_where_links_are_impossible_the_model_is_copied(models, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr("knn_ue.folder.disk._LINKED_BYTES", 0)
    monkeypatch.setattr(os, "link", refuse)
    pipe = fit(models[TEXT], TEXT)

    pipe.save(tmp_path / "ue")

    assert reload(tmp_path / "ue") == pipe(ROWS[TEXT](5, start=300))


def test_states_of_a_training_run_are_not_copied(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    for name in ("optimizer.pt", "training_args.bin", "pytorch_model.bin", ".hidden"):
        (model / name).write_bytes(b"x")
    fit(model, TEXT).save(tmp_path / "ue")

    assert {path.name for path in files_of(tmp_path / "ue").iterdir()} == {path.name for path in models[TEXT].iterdir()}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_altered_model_file_is_found_out(name, saved):
    file = files_of(saved[0]) / name
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)

    with pytest.raises(StorageError, match="does not match its checksum"):
        reload(saved[0])


def test_a_file_slipped_into_the_model_is_found_out(saved):
    (files_of(saved[0]) / "modeling.py").write_text("", encoding="utf-8")

    with pytest.raises(StorageError, match=r"modeling\.py should not be there"):
        reload(saved[0])


def test_a_link_out_of_the_folder_is_found_out(saved):
    file = files_of(saved[0]) / "config.json"
    file.rename(saved[0].parent / "config.json")
    file.symlink_to(saved[0].parent / "config.json")

    with pytest.raises(StorageError, match=r"config\.json is not a plain file: do not trust this folder"):
        reload(saved[0])


def test_a_file_missing_from_the_model_is_found_out(saved):
    file = files_of(saved[0]) / "config.json"
    file.unlink()

    with pytest.raises(StorageError, match=r"config\.json is missing"):
        reload(saved[0])


def test_a_model_that_changed_after_loading_is_not_saved(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    pipe = fit(model, TEXT)
    (model / "config.json").write_text("{}", encoding="utf-8")

    with pytest.raises(StorageError, match="was changed after it was loaded"):
        pipe.save(tmp_path / "ue")


def test_an_interrupted_save_leaves_what_was_there(saved, monkeypatch):
    folder, expected = saved
    pipe = UncertaintyPipeline.load(folder, device="cpu")
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), method="temperature")
    before = fitted_in(folder)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("knn_ue.folder.part.sync_tree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pipe.save(folder)
    monkeypatch.undo()

    assert fitted_in(folder) == before
    assert reload(folder) == expected


def test_a_folder_of_another_kind_is_refused(tmp_path):
    Datastore.build([[0.0], [1.0]], [0, 1]).save(tmp_path / "store")

    with pytest.raises(StorageError, match="holds a 'datastore', not a 'pipeline'"):
        UncertaintyPipeline.load(tmp_path / "store", device="cpu")


def test_a_model_of_the_hub_is_recorded_by_name(models, tmp_path, monkeypatch):
    monkeypatch.chdir(models[TEXT].parent)
    pipe = fit(models[TEXT], TEXT)
    pipe.encoder.source = type(pipe.encoder.source)(name=str(models[TEXT]), commit="abc")
    pipe.save(tmp_path / "ue")

    contents = json.loads((fitted_in(tmp_path / "ue") / "fitted.json").read_text(encoding="utf-8"))

    encoder = contents["parts"]["encoder"]
    assert encoder["state"]["model"] == {"name": str(models[TEXT]), "commit": "abc"}
    assert encoder["files"] == {}


def test_a_model_that_is_only_in_memory_is_saved_with_the_folder(models, tmp_path):
    loaded = HuggingFaceEncoder.from_pretrained(models[TEXT], device="cpu")
    pipe = UncertaintyPipeline(HuggingFaceEncoder(loaded.model, loaded.tokenizer, "text"))
    pipe.fit(ROWS[TEXT](60), ROWS[TEXT](40, start=100), n_neighbors=N_NEIGHBORS).save(tmp_path / "ue")

    assert reload(tmp_path / "ue") == pipe(ROWS[TEXT](5, start=300))


@pytest.mark.parametrize("number", [1, 3])
def test_a_folder_of_another_version_is_refused_with_the_way_out(saved, number):
    forge_database(saved[0], f"update folder set format = {number}")

    with pytest.raises(StorageError, match=rf"has format {number}, this version reads 2: refit, or upgrade"):
        reload(saved[0])


def test_a_folder_of_the_time_before_databases_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "meta.json").write_text('{"format": 1}', encoding="utf-8")

    with pytest.raises(StorageError, match=r"has no changes\.db, so it is not a knn-ue folder"):
        reload(tmp_path)


def test_parts_that_contradict_each_other_are_refused_though_checksums_agree(saved):
    forge_state(saved[0], class_names=["one", "two", "three"])

    with pytest.raises(StorageError, match="does not hold a valid pipeline"):
        reload(saved[0])
