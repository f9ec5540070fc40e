"""One UE folder, several writers and readers: nothing acknowledged is lost, and a model in memory is kept."""

import threading
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from held import fitted_in
from knn_ue.errors import StaleFolderError, StorageError
from knn_ue.folder import head_of
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.fitted import DriftQuantiles
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.folder import OpenedFolder
from pipelines import TEXT, fit
from tiny_models import save_tiny_model


@pytest.fixture
def path(fitted, tmp_path):
    fitted[TEXT].save(tmp_path / "ue")
    return tmp_path / "ue"


def load(path):
    return UncertaintyPipeline.load(path, device="cpu")


def add(path, number=1.0):
    store = load(path).calibrator_.store
    return store.add(np.full((1, store.n_columns), number), [0], texts=["new"])


def fitted_again(fitted):
    return refit(fitted, copy(fitted.calibrator)), None


def scaled(fitted):
    return replace(fitted, calibrator=fitted.calibrator.with_log_scales({"rows": 0.5})), None


def compacted(fitted):
    calibrator = fitted.calibrator
    stores = {name: store.compacted() for name, store in calibrator.stores.items()}
    return replace(fitted, calibrator=calibrator.with_stores(stores)), None


@pytest.mark.parametrize("change", [fitted_again, compacted])
def test_an_example_added_while_the_folder_is_changed_waits_and_is_not_lost(path, change):
    opened, other = OpenedFolder.open(path), load(path).calibrator_.store
    outcome = []

    def add_one():
        try:
            outcome.append(other.add(np.ones((1, other.n_columns)), [0]).tolist())
        except StorageError:
            outcome.append("refused")

    thread = threading.Thread(target=add_one)

    def slow(fitted):
        thread.start()
        thread.join(0.3)  # time enough to add, if nothing stood in its way
        assert not outcome
        return change(fitted)

    opened.edit(slow)
    thread.join()

    assert outcome == ([[60]] if change is fitted_again else ["refused"])
    assert len(load(path).calibrator_.store) == 61 - (change is compacted)


@pytest.mark.parametrize("change", [fitted_again, compacted])
def test_what_changed_since_a_folder_was_opened_is_taken_over_by_its_next_change(path, change):
    opened = OpenedFolder.open(path)
    add(path)

    opened.edit(change)

    assert len(opened.fitted.calibrator.store) == 61
    assert load(path).calibrator_.store.texts_of([60]) == ["new"]


def test_what_is_made_of_the_rows_of_before_is_refused_where_they_are_others_now(path):
    pipe = load(path)
    pipe.fitted_ = compacted(pipe.fitted_)[0]
    load(path).opened.edit(compacted)

    with pytest.raises(StaleFolderError, match="was saved, compacted, tuned or replaced since it was opened"):
        pipe.save(path)


def test_a_refit_of_another_process_is_taken_over(path):
    opened = OpenedFolder.open(path)
    OpenedFolder.open(path).edit(scaled)

    assert opened.fitted.calibrator.log_scales == {}
    assert opened.refresh()
    assert opened.fitted.calibrator.log_scales == {"rows": 0.5}
    assert not opened.refresh()


def test_a_change_that_fails_leaves_the_folder_as_it_was(path):
    opened, before = OpenedFolder.open(path), head_of(path)
    fitted = opened.fitted

    def change(fitted):
        opened.live.put("domain/half", {})
        fitted_again(fitted)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened.edit(change)

    assert head_of(path) == before
    assert opened.fitted is fitted
    opened.edit(fitted_again)
    assert load(path).domains_ == {}


def test_an_error_while_it_is_written_leaves_the_folder_as_it_was(path, monkeypatch):
    opened, before = OpenedFolder.open(path), fitted_in(path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="No space left on device"):
        patch.setattr("knn_ue.folder.part.write_arrays", fail)
        add(path)
        opened.edit(compacted)

    assert fitted_in(path) == before
    opened.edit(compacted)
    assert len(load(path).calibrator_.store) == 61


def test_a_change_needs_no_model_and_keeps_it(path):
    expected = load(path)("a film")

    OpenedFolder.open(path).edit(fitted_again)

    assert load(path)("a film") == expected


def test_nothing_is_written_where_the_record_stays_the_same(path):
    before = head_of(path)

    assert OpenedFolder.open(path).edit(lambda fitted: (fitted, 7)) == 7

    assert head_of(path) == before


def test_a_pipeline_saved_in_place_keeps_what_others_changed(path):
    pipe = load(path)
    number = add(path).tolist()
    load(path).opened.edit(scaled)
    quantiles = np.linspace(0.0, 1.0, 101)
    pipe.fitted_ = replace(pipe.fitted_, drift=DriftQuantiles(distance=quantiles, agreement=quantiles))

    pipe.save(path)

    now = load(path)
    assert now.calibrator_.store.texts_of(number) == ["new"]
    assert now.calibrator_.log_scales == {"rows": 0.5}
    np.testing.assert_array_equal(now.drift_.distance, quantiles)


def test_a_reload_keeps_the_model_and_reads_the_rest(path):
    pipe = load(path)
    add(path)

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is pipe.encoder
    assert len(again.calibrator_.store) == 61
    assert len(pipe.calibrator_.store) == 60
    assert again("a film")[0].raw_score == pipe("a film")[0].raw_score


@pytest.mark.slow
def test_a_reload_loads_another_model_where_the_folder_holds_one(path, tmp_path):
    pipe = load(path)
    fit(save_tiny_model(tmp_path / "other", family="bert", task=TEXT, seed=9), TEXT).save(path)

    again = pipe.reloaded(path, device="cpu")

    assert again.encoder is not pipe.encoder
    assert again("a film")[0].raw_score == load(path)("a film")[0].raw_score
