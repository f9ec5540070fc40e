"""Any Hugging Face text or token classifier -> Outputs; `EncodingOptions` say how rows become features."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.forward import ForwardPass
from knn_ue.encoding.inputs import Example
from knn_ue.encoding.inspection import (
    check_layer,
    class_names_of,
    find_pooling,
    ignores_case,
    is_decoder_only,
    max_length_of,
    note_of,
    padding_id_of,
    position_reader,
    save_model,
)
from knn_ue.encoding.loading import (
    check_tokenizer,
    find_device,
    find_task,
    load_config,
    load_model,
    load_tokenizer,
    loading,
)
from knn_ue.encoding.model_files import (
    HubModel,
    ModelSource,
    open_with_model,
    part_with_model,
)
from knn_ue.encoding.onnx_encoder import OnnxEncoder, OnnxRecord, is_installed
from knn_ue.encoding.options import EncodingNames, EncodingOptions
from knn_ue.encoding.piecewise import PiecewiseEncoder
from knn_ue.errors import InvalidInputError
from knn_ue.folder import as_written, from_plain
from knn_ue.tasks import TASKS, Task, task_name


@dataclass(frozen=True, kw_only=True)
class _StoredEncoder:
    """What a UE folder holds of this encoder, beside the files of the model."""

    options: EncodingOptions
    model: HubModel
    onnx: OnnxRecord | None = None


class HuggingFaceEncoder(PiecewiseEncoder):
    """Rows in, `Outputs` out: features, logits, and labels where the rows have them, in the order of the rows.

    One row per example; in tagging one row per word, `groups` holding the number of its sentence, and `words` the word
    itself where the tokenizer does not tell capitals from small letters. `texts` are the
    texts, "premise → hypothesis" (the two are `pairs`), or the word in its context. An empty text is what the model
    makes of its special tokens; a sentence without words has no rows; no rows give `Outputs` of length 0. Long texts
    are cut at the end and counted in `n_truncated`; long sentences are read in overlapping windows, and no word is
    lost. Results do not depend on batch size, padding or order beyond float32 rounding.
    """

    kind: ClassVar[str] = "huggingface"
    options: EncodingOptions
    forward: ForwardPass

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        task: str,
        *,
        options: EncodingOptions | None = None,
        source: ModelSource | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.source = source  # where the model came from; None where it is only in memory
        self.task: Task = task_name(task)
        self.class_names = class_names_of(model.config)
        chosen = options or EncodingOptions()
        for layer in chosen.layers:
            check_layer(model.config, layer)
        tagging = TASKS[self.task].is_tagging
        pooling = find_pooling(model, tokenizer, chosen.pooling, task=self.task)
        # The options as they are used with this model: nothing is left open.
        self.options = replace(chosen, pooling=pooling, max_length=max_length_of(model, tokenizer, chosen.max_length))
        self._position_of = position_reader(model, tokenizer, pooling, tagging=tagging)
        self.ignores_case = tagging and ignores_case(tokenizer)
        self.n_encoded = 0  # rows read since this encoder was made
        self.n_truncated = 0  # how many of them were cut at max_length
        pad_id = None
        if is_decoder_only(model.config) and not tagging:
            pad_id = padding_id_of(model.config)
            if pad_id is None:
                raise InvalidInputError(
                    "the model has no padding token, so it cannot tell where texts in a batch end: "
                    "set pad_token_id in its config.json"
                )
        self.forward = ForwardPass(model, tokenizer, self.options, pad_id=pad_id, tagging=tagging)

    @property
    def training(self) -> str:
        """How the model was trained: the name of a training method, "plain" for a model of somebody else."""
        return str(note_of(self.model.config).get("training", "plain"))

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        task: str | None = None,
        *,
        device: str = "auto",
        trust_remote_code: bool = False,
        **options: Unpack[EncodingNames],
    ) -> Self:
        """Load a classifier from a folder or the hub; `device` is "auto" (a GPU if there is one), "cpu", "cuda", ...

        The task is what the model was made for (`find_task`); one without a record that reads pairs needs task="pair".
        """
        chosen = EncodingOptions(**options)
        place = find_device(device)
        source = ModelSource.of(path)
        path = source.folder or path
        config = load_config(path, trust_remote_code=trust_remote_code)
        known = find_task(path, task, config=config)
        tokenizer = load_tokenizer(path, known, config=config, trust_remote_code=trust_remote_code)
        model, untrained = load_model(path, known, config=config, trust_remote_code=trust_remote_code)
        if untrained:
            raise InvalidInputError(
                f"{path} has no trained classification head ({untrained[0]} is missing): fine-tune it first, "
                f"with knn-ue train --encoder {path}"
            )
        if source.name is not None:
            source = replace(source, commit=getattr(model.config, "_commit_hash", None))
        if source.folder is not None and not source.is_safe:
            warnings.warn(
                f"{path} holds its weights as a pickle, of which only tensors were read; a UE folder will hold them as "
                "safetensors",
                stacklevel=2,
            )
        with loading(path):
            encoder = cls(model.to(place), tokenizer, known, options=chosen, source=source)
            # Once, on a word: what is wrong with its files is found before a user meets it.
            made = encoder.pieces_of([Example(("a",) * len(TASKS[known].input_keys))])
            if not all(np.isfinite(values).all() for values in encoder.forward(made.pieces).values()):
                raise ValueError("it gives no finite numbers")
        return encoder

    @classmethod
    def from_model(
        cls, model: Any, tokenizer: Any = None, task: str | None = None, *, options: EncodingOptions | None = None
    ) -> Self:
        """Wrap a model in memory and its tokenizer, or a `transformers.pipeline(...)`, which has both."""
        if tokenizer is None:
            tokenizer = getattr(model, "tokenizer", None)
            model = getattr(model, "model", model)
        if tokenizer is None:
            raise InvalidInputError(f"{type(model).__name__} needs its tokenizer: pass it as the second argument")
        name = type(model).__name__
        known = find_task(name, task, config=model.config, architecture=name)
        precision = str(model.dtype).removeprefix("torch.")
        if precision != "float32":
            warnings.warn(
                f"the model computes in {precision}, and a saved folder computes in float32, so scores will differ a "
                "little: call model.float() before for equal ones",
                stacklevel=3,
            )
        return cls(model.eval(), check_tokenizer(tokenizer, name), known, options=options)

    def with_options(self, **changes: Any) -> "HuggingFaceEncoder":
        """Return an encoder with the same model in memory and other options."""
        options = replace(self.options, **changes)
        return HuggingFaceEncoder(self.model, self.tokenizer, self.task, options=options, source=self.source)

    def to_part(self) -> EncoderPart:
        """Return options and model: the name and commit of one from the hub, otherwise a folder with its files."""
        stored = _StoredEncoder(options=self.options, model=HubModel.of(self.source))
        return part_with_model(self, self.source, self._write_files, stored)

    def exported(self, examples: Sequence[Example]) -> OnnxEncoder:
        """Return the model in ONNX Runtime, where it answers these examples alike."""
        from knn_ue.encoding.onnx_export import export

        return export(self, examples)

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Encoder:
        """Open the model of a UE folder after verifying its files, in ONNX Runtime where it was exported to that.

        One from the hub that is opened in PyTorch must be at the same commit. A GPU is PyTorch's.
        """
        with as_written(Path(part.where), "pipeline"):
            stored = from_plain(_StoredEncoder, part.plain)
            options = asdict(stored.options)

        def in_pytorch() -> HuggingFaceEncoder:
            return open_with_model(
                part,
                stored.model,
                lambda model: cls.from_pretrained(
                    model, part.task, device=device, trust_remote_code=trust_remote_code, **options
                ),
            )

        if stored.onnx is not None and device in ("auto", "cpu") and is_installed():
            with as_written(Path(part.where), "pipeline"):
                return OnnxEncoder.of_part(part, stored.onnx, stored.options, in_pytorch=in_pytorch)
        find_device(device)  # what the user asks for is not the folder's fault
        return in_pytorch()

    def _write_files(self, folder: Path) -> None:
        save_model(folder, self.model)
        self.tokenizer.save_pretrained(folder)
