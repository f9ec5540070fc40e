"""What every method that trains the model in its own way must keep. To register is to be tested."""

from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.encoding.inputs import TASKS
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from knn_ue.training.folder import read_record
from knn_ue.training.method import TrainingMethod
from tiny_models import FAMILIES, ROWS, save_tiny_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from knn_ue.encoding.huggingface import HuggingFaceEncoder  # noqa: E402
from knn_ue.pipeline import UncertaintyPipeline  # noqa: E402

OWN_TRAINING = [name for name, method in METHODS.items() if method.training is not TrainingMethod]
OPTIONS = TrainingOptions(batch_size=8, learning_rate=2e-3, epochs=2, max_steps=12, max_length=32)
SMALLER = {"sngp": {"n_features": "64"}, "label-smoothing": {"epsilon": "0.1"}}


def cases():
    """Yield every method with each task and each family, but not all three ways: two of them meet in a line of code.

    The fast suite trains one model with a head of its own and one without.
    """
    for shift, name in enumerate(OWN_TRAINING):
        tasks = METHODS[name].tasks
        for row, family in enumerate(FAMILIES):
            task = tasks[(row + shift) % len(tasks)]
            fast = (name, family) in (("label-smoothing", "bert"), ("sngp", "deberta-v2"))
            yield pytest.param(
                (name, task, family), id=f"{name}-{task}-{family}", marks=() if fast else pytest.mark.slow
            )


def test_every_method_meets_each_task_and_each_family():
    pairs = {pair for case in cases() for pair in combinations(case.values[0], 2)}

    for name in OWN_TRAINING:
        assert {(name, other) for other in (*METHODS[name].tasks, *FAMILIES)} <= pairs
    assert set(product(TASKS, FAMILIES)) <= pairs


@pytest.fixture(scope="module", params=cases())
def trained(request, tmp_path_factory):
    """A tiny model trained by a method: its folder, and its outputs as they were when it was saved."""
    name, task, family = request.param
    folder = tmp_path_factory.mktemp("trained")
    encoder = save_tiny_model(folder / "start", family=family, task=task, initializer_range=0.05)
    rows = ROWS[task](40, start=500)
    seen = {}

    def save_and_remember(target, reader):
        seen["outputs"] = reader.encode(rows)
        save(target, reader)

    from knn_ue.training import finetune as module

    save = module._save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_save", save_and_remember)
        finetune(
            ROWS[task](48),
            ROWS[task](24, start=200),
            task=task,
            encoder=encoder,
            out=folder / "model",
            options=OPTIONS,
            method=METHODS[name].training().with_options(SMALLER.get(name, {})),
        )
    return SimpleNamespace(
        name=name, task=task, family=family, start=encoder, folder=folder / "model", rows=rows, outputs=seen["outputs"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN_TRAINING)
def test_training_in_bfloat16_learns_nearly_the_same(name, tmp_path):
    task = METHODS[name].tasks[0]
    start = save_tiny_model(tmp_path / "start", family="bert", task=task, initializer_range=0.05)
    method = METHODS[name].training().with_options(SMALLER.get(name, {}))
    said = {}

    for precision in ("float32", "bfloat16"):
        options = replace(OPTIONS, precision=precision)
        sets = ROWS[task](48), ROWS[task](24, start=200)
        finetune(*sets, task=task, encoder=start, out=tmp_path / precision, options=options, method=method)
        trained = HuggingFaceEncoder.from_pretrained(tmp_path / precision, task)
        said[precision] = softmax(trained.encode(ROWS[task](40, start=500)).logits)

    np.testing.assert_allclose(said["bfloat16"], said["float32"], atol=0.05)


def load(trained, **options):
    return HuggingFaceEncoder.from_pretrained(trained.folder, trained.task, **options)


def fitted(trained):
    rows = ROWS[trained.task]
    pipe = UncertaintyPipeline.from_pretrained(trained.folder, trained.task)
    return pipe.fit(rows(48), rows(24, start=200), method=trained.name)


def test_the_saved_model_answers_as_it_did_when_it_was_saved(trained):
    torch.manual_seed(99)  # a loader that drew anything anew would show

    loaded = load(trained).encode(trained.rows)

    np.testing.assert_array_equal(loaded.logits, trained.outputs.logits)
    np.testing.assert_array_equal(loaded.features, trained.outputs.features)


def test_probabilities_are_valid(trained):
    probs = softmax(trained.outputs.logits)

    assert np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)


def test_the_batch_size_does_not_matter(trained):
    one = load(trained, batch_size=1).encode(trained.rows)

    np.testing.assert_allclose(softmax(one.logits), softmax(trained.outputs.logits), atol=1e-5)


def test_the_folder_records_the_training(trained):
    assert read_record(trained.folder)["method"] == METHODS[trained.name].training.name


def test_plain_transformers_reads_the_encoder_of_the_folder(trained):
    plain = transformers.AutoModel.from_pretrained(trained.folder)

    ours = load(trained).model.base_model.state_dict()
    for name, value in plain.state_dict().items():
        if "pooler" not in name:  # a tagger has none
            assert torch.equal(value, ours[name])


def test_every_bounded_layer_is_within_its_bound_after_training(trained):
    method = METHODS[trained.name].training()
    if not hasattr(method, "bound"):
        pytest.skip("it bounds no layer")
    from knn_ue_lab.training.spectral import bounded_layers

    layers = bounded_layers(load(trained).model)

    assert layers
    assert all(torch.linalg.svdvals(layer.weight)[0] <= 1.05 * method.bound for layer in layers)


def test_a_fitted_pipeline_answers_the_same_after_loading(trained, tmp_path):
    pipe = fitted(trained)
    pipe.save(tmp_path / "ue")

    answers = UncertaintyPipeline.load(tmp_path / "ue")(trained.rows)

    assert answers == pipe(trained.rows)


def test_a_method_of_another_training_is_refused_with_the_command_to_run(trained):
    rows = ROWS[trained.task]
    pipe = UncertaintyPipeline.from_pretrained(trained.folder, trained.task)

    with pytest.raises(InvalidInputError, match="run knn-ue train --method knn-ue"):
        pipe.fit(rows(48), rows(24, start=200), method="knn-ue", n_neighbors=4)


def test_a_model_trained_plainly_is_refused_with_the_command_to_run(trained):
    rows = ROWS[trained.task]
    pipe = UncertaintyPipeline.from_pretrained(trained.start, trained.task)

    with pytest.raises(InvalidInputError, match=f"run knn-ue train --method {trained.name}"):
        pipe.fit(rows(48), rows(24, start=200), method=trained.name)


@pytest.mark.slow
def test_a_model_with_a_head_can_be_trained_on_by_another_method(trained, tmp_path):
    finetune(
        ROWS[trained.task](16),
        ROWS[trained.task](8),
        task=trained.task,
        encoder=trained.folder,
        out=tmp_path / "plain",
        options=OPTIONS,
    )

    assert not (tmp_path / "plain" / "knn_ue_head.safetensors").exists()
    HuggingFaceEncoder.from_pretrained(tmp_path / "plain", trained.task).encode(trained.rows)


@pytest.mark.parametrize("task", [task for task in TASKS if task != "token-classification"])
def test_e_ner_says_that_it_is_for_tagging(tmp_path, task):
    encoder = save_tiny_model(tmp_path / "start", family="bert", task=task)
    method = METHODS["e-ner"].training()

    with pytest.raises(InvalidInputError, match=f"e-ner is for token-classification only, got task '{task}'"):
        finetune(ROWS[task](8), ROWS[task](8), task=task, encoder=encoder, out=tmp_path / "model", method=method)


def test_a_head_that_was_lost_is_named(trained, tmp_path):
    if not (trained.folder / "knn_ue_head.safetensors").exists():
        pytest.skip("the model's own last layer answers")
    copy = tmp_path / "model"
    copy.mkdir()
    for file in trained.folder.iterdir():
        if file.name != "knn_ue_head.safetensors":
            (copy / file.name).write_bytes(file.read_bytes())

    with pytest.raises(InvalidInputError, match=r"lacks knn_ue_head\.safetensors"):
        HuggingFaceEncoder.from_pretrained(copy, trained.task)
