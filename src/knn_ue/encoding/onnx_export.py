"""A PyTorch model -> its export for ONNX Runtime, kept only where it answers as the model does."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from knn_ue.encoding.contract import EncoderPart, NotExportedError
from knn_ue.encoding.inputs import Example
from knn_ue.encoding.inspection import head_of
from knn_ue.encoding.onnx_encoder import MODEL_FILE, TOKENIZER_FILE, OnnxEncoder, OnnxRecord, can_export, is_installed
from knn_ue.errors import require
from knn_ue.folder.disk import link_or_copy
from knn_ue.tasks import TASKS

if TYPE_CHECKING:
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

TOLERANCE = 1e-3  # of a logit
_SMALL = 2_000_000  # weights: what is smaller answers at once anyway, and an export takes seconds
_LARGEST = 450_000_000  # weights of 4 bytes: an ONNX file ends at 2 GB
_CHECKED = 256  # examples, spread over those that are given
_OPSET = 18


class _Place:
    """A folder for the files of an export, removed when nothing refers to it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="knn-ue-onnx-"))
        finalize(self, rmtree, self.path, ignore_errors=True)


def export(encoder: "HuggingFaceEncoder", examples: Sequence[Example]) -> OnnxEncoder:
    """Return the model in ONNX Runtime, checked on some of these examples; `NotExportedError` says why it is not."""
    _check_possible(encoder)
    place = _Place()
    folder = place.path
    record = _record_of(encoder)
    try:
        _write_model(encoder, record, folder / MODEL_FILE)
    except Exception as error:  # whatever the exporter does not know
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotExportedError(f"the model cannot be exported ({line[:200]})", is_surprising=True) from error
    encoder.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER_FILE))
    exported = OnnxEncoder(
        folder,
        record,
        encoder.options,
        task=encoder.task,
        class_names=encoder.class_names,
        in_pytorch=lambda: encoder,
        to_part=partial(_part_of, encoder, record, place),
    )
    _check_equal(encoder, exported, examples)
    return exported


def _check_possible(encoder: "HuggingFaceEncoder") -> None:
    n_weights = sum(weights.numel() for weights in encoder.model.parameters())
    if not is_installed():
        raise NotExportedError('onnxruntime is not installed: pip install "knn-ue[onnx]"')
    if encoder.model.device.type != "cpu":
        raise NotExportedError("the model is on a GPU")
    if n_weights < _SMALL:
        raise NotExportedError("the model is so small that there is nothing to gain")
    if n_weights > _LARGEST:
        raise NotExportedError(f"the model has {n_weights:,} weights, an ONNX file holds {_LARGEST:,}")
    if not can_export(encoder.options) or head_of(encoder.model) is not None:
        raise NotExportedError("its method needs PyTorch to answer")


def _record_of(encoder: "HuggingFaceEncoder") -> OnnxRecord:
    model, tokenizer = encoder.model, encoder.tokenizer
    inputs = [
        name
        for name in tokenizer.model_input_names
        if name in encoder.forward.accepted_inputs and name != "attention_mask"
    ]
    unknown = (tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.eos_token_id)
    return OnnxRecord(
        inputs=tuple(inputs),
        padding={name: encoder.forward.padding.get(name, 0) for name in inputs},
        n_tokens=getattr(model.get_input_embeddings(), "num_embeddings", None),
        n_layers=model.config.num_hidden_layers,
        width=model.config.hidden_size,
        reads="last" if encoder.options.pooling == "last" else "cls",
        training=encoder.training,
        ignores_case=encoder.ignores_case,
        truncates_right=tokenizer.truncation_side == "right",
        cls_id=tokenizer.cls_token_id,
        sep_id=tokenizer.sep_token_id,
        unknown_id=next((number for number in unknown if number is not None), None),
    )


def _write_model(encoder: "HuggingFaceEncoder", record: OnnxRecord, file: Path) -> None:
    """Export the logits and all hidden states, of any number of texts of any length."""
    require("onnxscript", extra="hf", purpose="a model in ONNX Runtime")
    import torch

    model = encoder.model.eval()
    names = (*record.inputs, "attention_mask")

    class Exported(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> tuple[Any, ...]:
            given = dict(zip(names, values, strict=True))
            result = self.model(**given, output_hidden_states=True)
            return (result.logits, *result.hidden_states)

    made = encoder.pieces_of([Example((word,) * len(TASKS[encoder.task].input_keys)) for word in ("a b c", "a")])
    tensors = encoder.forward.inputs_of(made.pieces)
    sizes = {0: torch.export.Dim("rows", min=1), 1: torch.export.Dim("length", min=1)}
    with _quiet():
        torch.onnx.export(
            Exported(),
            tuple(tensors[name] for name in names),
            str(file),
            input_names=list(names),
            output_names=["logits", *(f"hidden.{number}" for number in range(record.n_layers + 1))],
            dynamic_shapes=((sizes,) * len(names),),
            opset_version=_OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _check_equal(encoder: "HuggingFaceEncoder", exported: OnnxEncoder, examples: Sequence[Example]) -> None:
    """Raise unless both read the examples alike: features, logits within the tolerance, the same predictions."""
    places = np.linspace(0, len(examples) - 1, min(len(examples), _CHECKED)).astype(np.int64)
    chosen = [examples[place] for place in np.unique(places)]
    theirs, ours = encoder.encode(chosen, with_labels=False), exported.encode(chosen, with_labels=False)
    if theirs.logits.shape != ours.logits.shape:
        raise NotExportedError("the export reads rows differently", is_surprising=True)
    largest = float(np.abs(theirs.logits - ours.logits).max(initial=0.0))
    n_other = int((theirs.predicted != ours.predicted).sum())
    if not largest <= TOLERANCE or n_other:
        raise NotExportedError(
            f"on {len(chosen)} validation rows the export differs by up to {largest:.2g} in a logit and in {n_other} "
            "predictions",
            is_surprising=True,
        )


def _part_of(encoder: "HuggingFaceEncoder", record: OnnxRecord, place: _Place) -> EncoderPart:
    part = encoder.to_part()

    def fill(folder: Path) -> None:
        if part.fill is not None:
            part.fill(folder)
        for name in (MODEL_FILE, TOKENIZER_FILE):
            link_or_copy(place.path / name, folder / name)

    return replace(part, plain={**part.plain, "onnx": asdict(record)}, fill=fill)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from writing about what does not concern the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
