"""Options, batches and the model folder: what training rests on, without a model."""

import errno
import json

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.training import TrainingOptions
from knn_ue.training.folder import RECORD, disk_errors, new_model_folder, read_record, write_record
from knn_ue.training.trainer import LengthBatches
from knn_ue_lab.training.posterior import Posterior

LENGTHS = np.random.default_rng(0).integers(1, 100, size=1000).tolist()


def test_the_defaults_are_the_papers_settings():
    options = TrainingOptions()

    assert (options.batch_size, options.learning_rate, options.clip_norm) == (32, 1e-5, 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"freeze_lower": 1.5}, r"freeze_lower is a share and must lie within \[0, 1\], got 1.5"),
        ({"schedule": "cosine"}, "schedule must be one of 'constant', 'linear', got 'cosine'"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_a_wrong_option_is_refused(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        TrainingOptions(**wrong)


def test_every_row_is_in_exactly_one_batch():
    batches = list(LengthBatches(LENGTHS, batch_size=32, seed=0))

    assert sorted(row for batch in batches for row in batch) == list(range(1000))
    assert len(batches) == len(LengthBatches(LENGTHS, batch_size=32, seed=0))


def test_batches_are_of_similar_length():
    padding = sum(
        max(LENGTHS[row] for row in batch) - LENGTHS[row]
        for batch in LengthBatches(LENGTHS, batch_size=32, seed=0)
        for row in batch
    )

    assert padding < 0.15 * sum(LENGTHS)


def test_each_epoch_has_its_own_order():
    batches = LengthBatches(LENGTHS, batch_size=32, seed=0)

    assert list(batches) != list(batches)


def test_the_seed_decides_the_order():
    assert list(LengthBatches(LENGTHS, batch_size=32, seed=3)) == list(LengthBatches(LENGTHS, batch_size=32, seed=3))


def test_batches_do_not_run_from_short_to_long():
    means = [np.mean([LENGTHS[row] for row in batch]) for batch in LengthBatches(LENGTHS, batch_size=32, seed=0)]

    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.5


def test_what_a_killed_run_left_is_removed_but_not_what_another_run_is_writing(tmp_path):
    abandoned, foreign = tmp_path / ".model.0123abcd.draft", tmp_path / ".models.0123abcd.draft"
    for folder in (abandoned, foreign):
        folder.mkdir()
        (folder / "weights").write_text("half")

    with new_model_folder(tmp_path / "model") as draft:
        with pytest.raises(KeyboardInterrupt), new_model_folder(tmp_path / "model"):
            raise KeyboardInterrupt
        left = sorted(tmp_path.iterdir())

    assert left == sorted([draft, foreign])


def test_a_finished_folder_appears_whole(tmp_path):
    with new_model_folder(tmp_path / "deep" / "model") as draft:
        write_record(draft, {"method": "plain"})
        assert not (tmp_path / "deep" / "model").exists()

    assert [path.name for path in (tmp_path / "deep").rglob("*")] == ["model", RECORD]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_nothing_behind(tmp_path, error):
    with pytest.raises(error), new_model_folder(tmp_path / "model") as draft:
        (draft / "weights").write_text("half")
        raise error

    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_the_old_model_in_place(tmp_path):
    with new_model_folder(tmp_path / "model") as draft:
        write_record(draft, {"method": "plain"})

    with pytest.raises(KeyboardInterrupt), new_model_folder(tmp_path / "model", overwrite=True):
        raise KeyboardInterrupt

    assert read_record(tmp_path / "model") == {"method": "plain"}


def test_a_model_is_replaced_only_when_asked(tmp_path):
    with new_model_folder(tmp_path / "model") as draft:
        write_record(draft, {"method": "old"})

    with pytest.raises(StorageError, match="already holds a model: pass overwrite=True"):
        new_model_folder(tmp_path / "model").__enter__()
    with new_model_folder(tmp_path / "model", overwrite=True) as draft:
        write_record(draft, {"method": "new"})

    assert read_record(tmp_path / "model") == {"method": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_empty_folder_may_be_used(tmp_path):
    with new_model_folder(tmp_path) as draft:
        write_record(draft, {"method": "plain"})

    assert [path.name for path in tmp_path.iterdir()] == [RECORD]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_somebody_else_is_never_replaced(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(StorageError, match=f"holds other files and no {RECORD}"):
        new_model_folder(tmp_path, overwrite=overwrite).__enter__()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "model").write_text("not a folder")

    with pytest.raises(StorageError, match="is a file: choose a folder"):
        new_model_folder(tmp_path / "model", overwrite=True).__enter__()


def test_a_full_disk_is_told_in_one_sentence(tmp_path):
    message = r"model cannot be written \(No space left on device\)"
    with pytest.raises(StorageError, match=message), disk_errors(tmp_path / "model"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_model_of_somebody_else_has_no_record(tmp_path):
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"epochs": 3})])
def test_a_damaged_record_is_refused(tmp_path, content):
    (tmp_path / RECORD).write_text(content)

    with pytest.raises(StorageError, match=RECORD):
        read_record(tmp_path)


def test_options_of_a_method_are_read_as_people_type_them():
    method = Posterior().with_options({"scaled": "False", "latent_dim": "4", "entropy_weight": "1e-4"})

    assert method == Posterior(scaled=False, latent_dim=4, entropy_weight=1e-4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"scaled": "yes"}, "scaled must be true or false, got 'yes'"),
        ({"latent_dim": "2.5"}, "latent_dim must be a whole number, got '2.5'"),
        ({"entropy_weight": "little"}, "entropy_weight must be a number, got 'little'"),
    ],
)
def test_an_option_of_another_kind_is_refused(given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        Posterior().with_options(given)
