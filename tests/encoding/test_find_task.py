"""What a model is for is read from the model, and a wrong task is refused with the right one."""

import json
import shutil

import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.loading import find_task
from knn_ue.encoding.model_files import RECORD
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.training.finetune import finetune
from knn_ue.training.options import TrainingOptions
from tiny_models import ROWS, TASKS

pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXT, PAIR, WORDS = TASKS


@pytest.fixture(scope="module")
def pair_model(tiny_model, tmp_path_factory):
    """A model for pairs that our own command trained; it must not be written to."""
    out = tmp_path_factory.mktemp("pair") / "model"
    rows, options = ROWS[PAIR](6), TrainingOptions(epochs=1, max_steps=1)
    finetune(rows, rows, task="pair", encoder=tiny_model("bert", PAIR), out=out, options=options, device="cpu")
    return out


@pytest.mark.parametrize("task", [TEXT, WORDS])
def test_the_architecture_tells_the_task(tiny_model, task):
    assert UncertaintyPipeline.from_pretrained(tiny_model("bert", task), device="cpu").task == task


def test_a_model_for_texts_reads_pairs_when_asked(tiny_model):
    assert HuggingFaceEncoder.from_pretrained(tiny_model("bert", PAIR), "pair").task == PAIR


@pytest.mark.slow
def test_a_model_that_we_trained_for_pairs_is_known_as_one(pair_model):
    assert find_task(pair_model) == PAIR


def test_a_model_of_an_earlier_version_is_known_by_its_record(tiny_model, tmp_path):
    shutil.copytree(tiny_model("bert", PAIR), tmp_path / "model")
    record = {"method": "plain", "task": PAIR}
    (tmp_path / "model" / RECORD).write_text(json.dumps(record), encoding="utf-8")

    assert find_task(tmp_path / "model") == PAIR


def test_another_task_than_that_of_the_training_is_refused_with_the_right_one(pair_model):
    with pytest.raises(InvalidInputError, match="was trained for text-pair, got task='text': use task='text-pair'"):
        HuggingFaceEncoder.from_pretrained(pair_model, "text")


def test_another_task_than_that_of_the_architecture_is_refused_with_the_right_one(tiny_model):
    with pytest.raises(InvalidInputError, match=r"cannot do text-classification: use task='token-classification'"):
        HuggingFaceEncoder.from_pretrained(tiny_model("bert", WORDS), "text")


def test_a_model_that_does_not_tell_is_refused_with_the_way_out(tiny_model, tmp_path):
    shutil.copytree(tiny_model("bert", TEXT), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("BertForSequenceClassification", "BertModel"))

    with pytest.raises(InvalidInputError, match="does not record what it was trained for: pass task='text', 'pair'"):
        HuggingFaceEncoder.from_pretrained(tmp_path / "model")
