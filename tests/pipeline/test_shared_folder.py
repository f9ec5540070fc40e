"""One UE folder, several writers and readers: nothing acknowledged is lost, and a model in memory is kept."""

import threading
from copy import copy

import numpy as np
import pytest
from knn_ue.pipeline.editing import edit, open_folder
from knn_ue.storage import generation_of

from knn_ue.calibrators import KnnUE
from knn_ue.errors import StorageError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.fitting import refit
from pipelines import TEXT, fit
from tiny_models import save_tiny_model


@pytest.fixture
def path(fitted, tmp_path):
    fitted[TEXT].save(tmp_path / "ue")
    return tmp_path / "ue"


def load(path):
    return UncertaintyPipeline.load(path, device="cpu")


def fitted_again(fitted):
    return refit(fitted, copy(fitted.calibrator)), None


def test_an_example_added_between_the_check_and_the_commit_is_refused_and_not_lost(path, monkeypatch):
    opened = open_folder(path)
    other = load(path).calibrator_.store
    outcome = []

    def add():
        try:
            other.add(np.ones((1, other.n_columns)), [0])
            outcome.append("acknowledged")
        except StorageError:
            outcome.append("refused")

    thread = threading.Thread(target=add)
    save = KnnUE.save

    def slow_save(calibrator, target):
        thread.start()
        thread.join(0.5)  # time enough to add, if nothing stood in its way
        return save(calibrator, target)

    monkeypatch.setattr(KnnUE, "save", slow_save)
    edit(path, fitted_again, opened=opened)
    thread.join()

    assert outcome == ["refused"]
    assert len(load(path).calibrator_.store) == 60


def test_a_folder_that_changed_since_it_was_loaded_is_not_written_over(path):
    opened = open_folder(path)
    load(path).calibrator_.store.add(np.ones((1, 48)), [0])

    with pytest.raises(StorageError, match="changed by another"):
        edit(path, fitted_again, opened=opened)

    assert len(load(path).calibrator_.store) == 61


def test_a_folder_that_changed_while_it_was_being_changed_is_not_written_over(path):
    def change(fitted):
        load(path).calibrator_.store.add(np.ones((1, 48)), [0])
        return fitted_again(fitted)

    with pytest.raises(StorageError, match="changed by another"):
        edit(path, change)

    assert len(load(path).calibrator_.store) == 61


def test_a_change_that_fails_leaves_the_folder_as_it_was(path):
    before = sorted(file.name for file in path.iterdir())

    def change(fitted):
        fitted_again(fitted)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        edit(path, change)

    assert sorted(file.name for file in path.iterdir()) == before


def test_a_change_needs_no_model_and_keeps_it(path):
    expected = load(path)("a film")

    edit(path, fitted_again)

    assert load(path)("a film") == expected


def test_nothing_is_saved_where_the_record_stays_the_same(path):
    generation = generation_of(path)

    assert edit(path, lambda fitted: (fitted, 7)) == 7

    assert generation_of(path) == generation


def test_a_reload_keeps_the_model_and_reads_the_rest(path):
    pipe = load(path)
    load(path).calibrator_.store.add(np.ones((1, 48)), [0], texts=["new"])

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is pipe.encoder
    assert len(again.calibrator_.store) == 61 and len(pipe.calibrator_.store) == 60
    assert again("a film")[0].raw_score == pipe("a film")[0].raw_score


@pytest.mark.slow
def test_a_reload_loads_another_model_where_the_folder_holds_one(path, tmp_path):
    pipe = load(path)
    fit(save_tiny_model(tmp_path / "other", family="bert", task=TEXT, seed=9), TEXT).save(path)

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is not pipe.encoder
    assert again("a film")[0].raw_score == load(path)("a film")[0].raw_score
