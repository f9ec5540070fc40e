"""A model, in a UE folder or given, reads no file outside its folder, executes nothing, and fails in one sentence."""

import json
import os
import pickle
import shutil

import pytest

from held import fitted_in, forge, seal
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline import UncertaintyPipeline
from pipelines import TEXT, fit
from tiny_models import ROWS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

CONFIGS = {
    "dtype": ["x", 3, "int8", []],
    "hidden_act": ["x", 3, None],
    "id2label": [["neg", "pos"], 3, {"x": "neg", "y": "pos"}, {"0": "neg"}],
    "num_hidden_layers": [10**6, -1, "x"],
    "hidden_size": [10**6, 0, None],
    "vocab_size": [10**12, 0],
    "num_attention_heads": [0, -1, 10**6],
    "layer_norm_eps": [float("nan"), "x"],
    "model_type": ["evil", None],
    "transformers_weights": ["../../../model.safetensors"],
}


class Evil:
    """What a pickle can do."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "ue"
    fit(models[TEXT], TEXT).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "ue")


def files_of(folder):
    return fitted_in(folder) / "encoder"


def is_refused(folder):
    seal(folder)
    with pytest.raises(StorageError) as error:
        UncertaintyPipeline.load(folder, device="cpu")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def shard(model, target):
    """Let an index name `target` as the file of every weight."""
    names = list(safetensors.load_file(model / "model.safetensors"))
    content = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, target)})
    (model / "model.safetensors.index.json").write_text(content)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in CONFIGS.items() for value in values])
def test_a_hostile_config_is_refused(folder, key, value):
    path = files_of(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    is_refused(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "x.pkl", "model.pt", "adapter_config.json"])
def test_a_folder_with_a_pickle_or_an_adapter_is_refused(folder, name):
    (files_of(folder) / name).write_bytes(b"x")

    is_refused(folder)


def test_a_pickle_in_the_place_of_the_weights_is_not_read(folder, tmp_path):
    (files_of(folder) / "model.safetensors").unlink()
    (files_of(folder) / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(tmp_path / "done")))

    is_refused(folder)

    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("absolute", [True, False])
def test_weights_outside_the_folder_are_refused(folder, tmp_path, absolute):
    files = files_of(folder)
    shutil.copy(files / "model.safetensors", tmp_path / "outside.safetensors")
    shard(files, str(tmp_path / "outside.safetensors") if absolute else "../../../outside.safetensors")

    is_refused(folder)


def test_weights_outside_the_folder_are_refused_in_a_model_that_is_given(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    shard(model, "../outside.safetensors")
    (model / "model.safetensors").rename(tmp_path / "outside.safetensors")

    with pytest.raises(StorageError, match=r"names weights that are not in its folder \(../outside.safetensors\)"):
        UncertaintyPipeline.from_pretrained(model, device="cpu")


def test_weights_in_several_files_of_the_folder_are_read(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    shard(model, "part.safetensors")
    (model / "model.safetensors").rename(model / "part.safetensors")
    pipe = fit(model, TEXT)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert loaded(ROWS[TEXT](3)) == pipe(ROWS[TEXT](3))


def test_a_name_of_the_hub_that_is_a_path_is_refused(folder, models):
    def change(parts):
        parts["encoder"]["files"] = {}
        parts["encoder"]["state"]["model"]["name"] = str(models[TEXT])

    forge(folder, change)
    shutil.rmtree(files_of(folder))

    with pytest.raises(StorageError, match="here that is a path"):
        UncertaintyPipeline.load(folder, device="cpu")


def test_weights_that_are_not_finite_are_refused(folder):
    path = files_of(folder) / "model.safetensors"
    weights = safetensors.load_file(path)
    weights["classifier.weight"] *= float("nan")
    safetensors.save_file(weights, path, metadata={"format": "pt"})

    is_refused(folder)


def test_a_tokenizer_of_another_model_is_one_sentence(models, tmp_path):
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    path = model / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {text: number + 1000 * (number > 10) for text, number in vocabulary.items()}
    path.write_text(json.dumps(content))

    with pytest.raises(InvalidInputError, match="they do not belong together"):
        UncertaintyPipeline.from_pretrained(model, device="cpu")


@pytest.fixture
def pickled(models, tmp_path):
    """Return a model folder whose weights are a pickle."""
    model = shutil.copytree(models[TEXT], tmp_path / "model")
    torch.save(safetensors.load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    return model


def test_a_pickled_model_is_saved_as_safetensors_and_said_so(models, pickled, tmp_path):
    with pytest.warns(UserWarning, match="holds its weights as a pickle") as said:
        pipe = fit(pickled, TEXT)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert sum("pickle" in str(one.message) for one in said) == 1
    assert {path.suffix for path in files_of(tmp_path / "ue").iterdir()} == {".safetensors", ".json"}
    assert loaded(ROWS[TEXT](3)) == pipe(ROWS[TEXT](3))


def test_a_hostile_pickle_is_one_sentence_and_executes_nothing(pickled, tmp_path):
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(tmp_path / "done")))

    with pytest.raises(InvalidInputError, match=r"cannot be loaded") as error:
        UncertaintyPipeline.from_pretrained(pickled, device="cpu")

    assert not (tmp_path / "done").exists()
    assert "\n" not in str(error.value)
