"""A model exported for ONNX Runtime answers as it does in PyTorch, or it is not used."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tiny_models import ROWS, save_tiny_decoder, save_tiny_model

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from knn_ue.encoding import HuggingFaceEncoder, onnx_export
from knn_ue.encoding.contract import NotExportedError
from knn_ue.encoding.inputs import read_examples
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.types import Outputs

OPTIONS = {
    "text-classification": {"all_layers": True, "views": True},
    "text-pair": {"pooling": "mean", "layer": (1, -1)},
    "token-classification": {"views": True},
}
CASES = [
    pytest.param(family, task, marks=() if family == "bert" and task == "text-classification" else pytest.mark.slow)
    for family in ("bert", "roberta", "deberta-v2", "gpt2")
    for task in ROWS
    if family != "gpt2" or task == "text-classification"
]
AWKWARD = {
    "text-classification": ["", "a", "!" * 200, "great " * 300, "zürich 東京 \u200b"],
    "text-pair": [("", ""), ("a", ""), ("great " * 300, "a " * 300)],
    "token-classification": [["a"], ["great"] * 100, ["\u200b", "Ada"], []],
}


@pytest.fixture(autouse=True)
def exports_tiny_models(monkeypatch):
    monkeypatch.setattr(onnx_export, "_SMALL", 0)


def assert_same(ours: Outputs, theirs: Outputs) -> None:
    for name in ("features", "logits"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=2e-5)
    assert (ours.views is None) == (theirs.views is None)
    if ours.views is not None:
        np.testing.assert_allclose(ours.views.astype(float), theirs.views.astype(float), atol=2e-3)
    for one, other in zip(ours.layers or (), theirs.layers or (), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert ours.texts == theirs.texts


@pytest.mark.parametrize(("family", "task"), CASES)
def test_an_export_reads_every_kind_of_row_as_the_model_does(tmp_path, family, task):
    options = {"views": True} if family == "gpt2" else OPTIONS[task]
    save = save_tiny_decoder if family == "gpt2" else save_tiny_model
    encoder = HuggingFaceEncoder.from_pretrained(save(tmp_path, family=family, task=task), task, **options)
    rows = [*read_examples(ROWS[task](9), task), *read_examples(AWKWARD[task], task)]

    exported = encoder.exported(rows)

    assert exported.backend == "ONNX Runtime"
    assert_same(exported.encode(rows, with_labels=False), encoder.encode(rows, with_labels=False))
    assert exported.n_truncated == encoder.n_truncated
    assert_same(exported.encode([]), encoder.encode([]))


def fitted(folder, task="text-classification", **options):
    pipe = UncertaintyPipeline.from_pretrained(save_tiny_model(folder, family="bert", task=task), task)
    return pipe.fit(ROWS[task](40), ROWS[task](40, start=40), index="exact", n_neighbors=4, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_export, "_SMALL", 0)
        pipe = fitted(folder / "model")
    pipe.save(folder / "ue")
    return pipe, folder / "ue"


def test_a_folder_answers_from_its_export_as_it_did_when_it_was_fitted(saved):
    pipe, folder = saved
    texts = [row["text"] for row in ROWS["text-classification"](20, start=80)]

    loaded = UncertaintyPipeline.load(folder)

    assert loaded.encoder.backend == "ONNX Runtime"
    assert [answer.score for answer in loaded(texts)] == [answer.score for answer in pipe(texts)]


def test_a_folder_predicts_and_serves_without_pytorch_and_transformers(saved):
    _, folder = saved
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from knn_ue import UncertaintyPipeline\n"
        f"print(UncertaintyPipeline.load({str(folder)!r})('a great film')[0].label)"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)

    assert shown.stdout.strip() in ("neg", "pos")


def test_what_was_opened_is_saved_with_its_export_and_its_model(saved, tmp_path):
    _, folder = saved

    UncertaintyPipeline.load(folder).save(tmp_path / "copy")
    again = UncertaintyPipeline.load(tmp_path / "copy")

    assert again.encoder.backend == "ONNX Runtime"
    assert again.encoder.in_pytorch().model.config.model_type == "bert"


def test_a_method_that_needs_pytorch_gets_it_back(saved):
    _, folder = saved
    task = "text-classification"

    pipe = UncertaintyPipeline.load(folder)
    pipe.fit(ROWS[task](40), ROWS[task](40, start=40), method="mc-dropout")

    assert pipe.encoder.options.passes == 20
    assert not pipe.encoder.backend


def test_the_backend_torch_exports_nothing(tmp_path):
    assert not fitted(tmp_path, backend="torch").encoder.backend


def test_an_export_with_other_answers_is_not_used_and_the_warning_says_how_far_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)

    with pytest.warns(
        FitWarning, match=r"the model answers in PyTorch: on 40 validation rows the export differs by up to"
    ):
        pipe = fitted(tmp_path)

    assert not pipe.encoder.backend


def test_the_backend_onnx_says_why_it_cannot_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "_SMALL", 10**9)

    with pytest.raises(InvalidInputError, match="the backend 'onnx' cannot be used: the model is so small that"):
        fitted(tmp_path, backend="onnx")


def test_a_small_model_stays_in_pytorch_without_a_word(tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(onnx_export, "_SMALL", 10**9)

    pipe = fitted(tmp_path)

    assert not pipe.encoder.backend
    assert not [warning for warning in recwarn if "PyTorch" in str(warning.message)]


def test_a_model_with_several_passes_is_not_exported(tmp_path):
    path = save_tiny_model(tmp_path, family="bert", task="text-classification")
    encoder = HuggingFaceEncoder.from_pretrained(path, passes=3)

    with pytest.raises(NotExportedError, match="its method needs PyTorch to answer"):
        encoder.exported([])
