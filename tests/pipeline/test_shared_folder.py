"""One UE folder, several writers and readers: nothing acknowledged is lost, and a model in memory is kept."""

import threading

import numpy as np
import pytest

from knn_ue.errors import StorageError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline import folder as folder_module
from knn_ue.pipeline.folder import save_unless_changed
from knn_ue.storage import generation_of
from pipelines import TEXT, fit
from tiny_models import save_tiny_model


@pytest.fixture
def path(fitted, tmp_path):
    fitted[TEXT].save(tmp_path / "ue")
    return tmp_path / "ue"


def load(path):
    return UncertaintyPipeline.load(path, device="cpu")


def test_an_example_added_between_the_check_and_the_commit_is_refused_and_not_lost(path, monkeypatch):
    pipe, generation = load(path), generation_of(path)
    other = load(path).calibrator_.store
    outcome = []

    def add():
        try:
            other.add(np.ones((1, other.n_columns)), [0])
            outcome.append("acknowledged")
        except StorageError:
            outcome.append("refused")

    thread = threading.Thread(target=add)
    save = folder_module._save_calibrator

    def slow_save(calibrator, target):
        thread.start()
        thread.join(0.5)  # time enough to add, if nothing stood in its way
        return save(calibrator, target)

    monkeypatch.setattr(folder_module, "_save_calibrator", slow_save)
    save_unless_changed(path, pipe.encoder, pipe.fitted_, before=pipe.fitted_, generation=generation)
    thread.join()

    assert outcome == ["refused"]
    assert len(load(path).calibrator_.store) == 60


def test_a_folder_that_changed_since_it_was_loaded_is_not_written_over(path):
    pipe, generation = load(path), generation_of(path)
    load(path).calibrator_.store.add(np.ones((1, 24)), [0])

    with pytest.raises(StorageError, match="changed by another"):
        save_unless_changed(path, pipe.encoder, pipe.fitted_, before=pipe.fitted_, generation=generation)

    assert len(load(path).calibrator_.store) == 61


def test_a_reload_keeps_the_model_and_reads_the_rest(path):
    pipe = load(path)
    load(path).calibrator_.store.add(np.ones((1, 24)), [0], texts=["new"])

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is pipe.encoder
    assert len(again.calibrator_.store) == 61 and len(pipe.calibrator_.store) == 60
    assert again("a film")[0]["raw_score"] == pipe("a film")[0]["raw_score"]


def test_a_reload_loads_another_model_where_the_folder_holds_one(path, tmp_path):
    pipe = load(path)
    fit(save_tiny_model(tmp_path / "other", family="bert", task=TEXT, seed=9), TEXT).save(path)

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is not pipe.encoder
    assert again("a film")[0]["raw_score"] == load(path)("a film")[0]["raw_score"]
