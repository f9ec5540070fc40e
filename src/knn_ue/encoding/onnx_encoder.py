"""A model in ONNX Runtime: the answers of a PyTorch model in about half the time, and without PyTorch.

`onnx_export` writes the files when a pipeline is fitted. The weights are read as bytes, so that a file can name no
others to read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Len

from knn_ue.arrays import FloatArray
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.forward import Arrays, Piece, ViewReader, pad_pieces
from knn_ue.encoding.inputs import Example
from knn_ue.encoding.model_files import EXPORTED
from knn_ue.encoding.options import EncodingOptions
from knn_ue.encoding.piecewise import PiecewiseEncoder
from knn_ue.errors import InvalidInputError, require
from knn_ue.folder.disk import link_or_copy
from knn_ue.tasks import TASKS, Task
from knn_ue.verifying.onnx_engine import open_session

MODEL_FILE, TOKENIZER_FILE = EXPORTED

TokenId = Annotated[int, Ge(0)] | None


@dataclass(frozen=True, kw_only=True)
class OnnxRecord:
    """What must be known of a model to read rows as it does, beside its two files.

    `inputs` are its inputs in the tokenizer's order, the attention mask left out; `padding` is the number that pads
    each. A row of a text is read at the last token (`reads` "last"), the last that does not pad ("unpadded") or the
    token `cls_id` ("cls").
    """

    inputs: Annotated[tuple[str, ...], Len(1, 16)]
    padding: dict[str, int]
    n_tokens: Annotated[int, Ge(1)] | None
    n_layers: Annotated[int, Ge(1)]
    width: Annotated[int, Ge(1)]
    reads: str
    training: str
    ignores_case: bool
    truncates_right: bool
    cls_id: TokenId
    sep_id: TokenId
    unknown_id: TokenId


class OnnxTokenizer:
    """A `tokenizers` file with the little of a transformers tokenizer that pieces are made with."""

    def __init__(self, file: Path, record: OnnxRecord) -> None:
        require("tokenizers", extra="onnx", purpose="a model in ONNX Runtime")
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._record = record
        self.unk_token_id, self.mask_token_id, self.eos_token_id = record.unknown_id, None, None
        self.sep_token_id = record.sep_id

    def num_special_tokens_to_add(self, pair: bool) -> int:
        """Return how many tokens stand beside those of a text, or of two."""
        return int(self._tokenizer.num_special_tokens_to_add(pair))

    def __call__(
        self,
        first: Sequence[Any],
        second: Sequence[str] | None = None,
        *,
        truncation: str | None = None,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        verbose: bool = True,
    ) -> "Encoded":
        """Return the tokens of texts, of pairs of texts, or of lists of words."""
        del verbose
        if truncation is not None and max_length is not None:
            side = "right" if self._record.truncates_right else "left"
            self._tokenizer.enable_truncation(max_length, strategy=truncation, direction=side)
        else:
            self._tokenizer.no_truncation()
        given = list(first) if second is None else list(zip(first, second, strict=True))
        return Encoded(self._tokenizer.encode_batch(given, is_pretokenized=is_split_into_words), self._record.inputs)


class Encoded:
    """What the tokenizer made of some texts: the numbers of each input by its name."""

    _COLUMNS: ClassVar[Mapping[str, str]] = {"input_ids": "ids", "token_type_ids": "type_ids"}

    def __init__(self, encodings: Sequence[Any], inputs: Sequence[str]) -> None:
        self.encodings = encodings
        self._inputs = tuple(inputs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __getitem__(self, name: str) -> list[list[int]]:
        return [getattr(encoding, self._COLUMNS[name]) for encoding in self.encodings]

    def word_ids(self, number: int) -> list[int | None]:
        """Return the word that each token belongs to, None for special ones."""
        return list(self.encodings[number].word_ids)


class OnnxForward:
    """Calls the exported model on padded pieces; in numpy what `ForwardPass` does in PyTorch."""

    def __init__(
        self, model: Path, record: OnnxRecord, options: EncodingOptions, *, n_classes: int, tagging: bool
    ) -> None:
        self._file, self._record, self.options, self._n_classes = model, record, options, n_classes
        self._views = ViewReader(record.n_layers, record.width, tagging=tagging) if options.views else None
        wanted = [number % (record.n_layers + 1) for number in options.layers]
        self._layers = tuple(wanted)
        needed = {*wanted, *(self._views.layers if self._views else ())}
        needed |= set(range(1, record.n_layers + 1)) if options.all_layers else set()
        self._outputs = ["logits", *(f"hidden.{number}" for number in sorted(needed))]

    @cached_property
    def _session(self) -> Any:
        return open_session(self._file.read_bytes())

    def __call__(self, batch: Sequence[Piece]) -> Arrays:
        """Run the model on padded pieces; return `features`, `logits`, `views` and `layers.<i>`, one row a position."""
        padded = pad_pieces(batch, self._record.padding)
        largest = int(padded["input_ids"].max())
        if self._record.n_tokens is not None and largest >= self._record.n_tokens:
            raise InvalidInputError(
                f"the tokenizer gives token {largest}, the model knows {self._record.n_tokens}: they do not belong "
                "together; save both into one folder"
            )
        which = np.repeat(np.arange(len(batch)), [len(piece.rows) for piece in batch])
        where = np.concatenate([piece.positions for piece in batch])
        mask = padded["attention_mask"]
        feed = {name: padded[name] for name in (*self._record.inputs, "attention_mask")}
        found = dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))
        hidden = {int(name.removeprefix("hidden.")): v for name, v in found.items() if name != "logits"}
        parts = [self._at_rows(hidden[number], mask, which, where) for number in self._layers]
        arrays: Arrays = {"features": parts[0] if len(parts) == 1 else _joined(parts)}
        if self.options.all_layers:
            for number in range(self._record.n_layers):
                states = hidden[number + 1]
                both = self.options.pooling == "cls+mean"
                arrays[f"layers.{number}"] = states[which, where] if both else self._at_rows(states, mask, which, where)
        if self._views is not None:
            arrays["views"] = self._views.read_arrays(hidden, mask, which, where)
        logits = found["logits"]
        arrays["logits"] = logits if logits.ndim == 2 else logits[which, where]
        return arrays

    def empty_arrays(self, n_rows: int = 0) -> Arrays:
        """Return zeros in the shape of what a call returns for `n_rows` rows."""
        width = self._record.width
        n_parts = (2 if self.options.pooling == "cls+mean" else 1) * len(self._layers)
        arrays: Arrays = {
            "logits": np.zeros((n_rows, self._n_classes), dtype=np.float32),
            "features": np.zeros((n_rows, width * n_parts), dtype=np.float32),
        }
        if self._views is not None:
            arrays["views"] = np.zeros((n_rows, *self._views.shape), dtype=np.float16)
        if self.options.all_layers:
            for number in range(self._record.n_layers):
                arrays[f"layers.{number}"] = np.zeros((n_rows, width), dtype=np.float32)
        return arrays

    def _at_rows(self, states: FloatArray, mask: Any, which: Any, where: Any) -> FloatArray:
        if self.options.pooling not in ("mean", "cls+mean"):
            at: FloatArray = states[which, where]
            return at
        weights = mask[:, :, None].astype(states.dtype)
        mean: FloatArray = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return mean if self.options.pooling == "mean" else _joined([states[which, where], mean])


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the parts (rows, width) side by side, each row of each of length 1: none outweighs another."""
    lengths = [np.maximum(np.linalg.norm(part, axis=-1, keepdims=True), 1e-12) for part in parts]
    return np.concatenate([part / length for part, length in zip(parts, lengths, strict=True)], axis=-1)


class OnnxEncoder(PiecewiseEncoder):
    """Rows in, `Outputs` out, as the Hugging Face model does whose export it is.

    `in_pytorch` opens that model again, for options that an export does not have and for saving.
    """

    kind: ClassVar[str] = "huggingface"
    backend: ClassVar[str] = "ONNX Runtime"

    def __init__(
        self,
        folder: Path,
        record: OnnxRecord,
        options: EncodingOptions,
        *,
        task: Task,
        class_names: tuple[str, ...],
        in_pytorch: Callable[[], Encoder],
        to_part: Callable[[], EncoderPart],
    ) -> None:
        self.folder, self.record, self.options = folder, record, options
        self.task, self.class_names = task, class_names
        self.tokenizer = OnnxTokenizer(folder / TOKENIZER_FILE, record)
        tagging = TASKS[task].is_tagging
        self.forward = OnnxForward(folder / MODEL_FILE, record, options, n_classes=len(class_names), tagging=tagging)
        self._position_of = _reader(record)
        self.ignores_case = tagging and record.ignores_case
        self._in_pytorch, self._part = in_pytorch, to_part
        self.n_encoded = self.n_truncated = 0

    @property
    def training(self) -> str:
        """How the model was trained: the name of a training method."""
        return self.record.training

    def in_pytorch(self) -> Encoder:
        """Return the PyTorch model behind the export, with the same options."""
        return self._in_pytorch()

    def with_options(self, **changes: Any) -> Encoder:
        """Return an encoder with other options; where the export does not have them, in PyTorch."""
        options = replace(self.options, **changes)
        if not can_export(options) or options.max_length != self.options.max_length:
            return self.in_pytorch().with_options(**changes)
        return type(self)(
            self.folder,
            self.record,
            options,
            task=self.task,
            class_names=self.class_names,
            in_pytorch=lambda: self.in_pytorch().with_options(**changes),
            to_part=lambda: _with_plain(self._part(), options=asdict(options)),
        )

    def exported(self, examples: Sequence[Example]) -> Encoder:
        """Return itself."""
        del examples
        return self

    def to_part(self) -> EncoderPart:
        """Return the model and its export."""
        return self._part()

    @classmethod
    def of_part(
        cls, part: EncoderPart, record: OnnxRecord, options: EncodingOptions, *, in_pytorch: Callable[[], Encoder]
    ) -> Self:
        """Open the export in a UE folder, whose files were verified."""
        missing = [name for name in EXPORTED if name not in part.files]
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        encoder = cls(
            part.files[MODEL_FILE].parent,
            record,
            options,
            task=part.task,
            class_names=part.class_names,
            in_pytorch=in_pytorch,
            to_part=lambda: replace(part, fill=partial(_copy, part.files)),
        )
        encoder._check()
        return encoder

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Encoder:
        """Open the export, or the model itself where the device is not the CPU."""
        from knn_ue.encoding.huggingface import HuggingFaceEncoder

        return HuggingFaceEncoder.from_part(part, device=device, trust_remote_code=trust_remote_code)

    def _check(self) -> None:
        """Raise ValueError unless the model gives finite numbers of the recorded shape."""
        made = self.pieces_of([Example(("a",) * len(TASKS[self.task].input_keys))])
        found, empty = self.forward(made.pieces), self.forward.empty_arrays()
        if not all(np.isfinite(values).all() for values in found.values()):
            raise ValueError("it gives no finite numbers")
        if any(values.shape[1:] != empty[name].shape[1:] for name, values in found.items()):
            raise ValueError("it gives arrays of other shapes than recorded")


def is_installed() -> bool:
    """Return whether models can be opened in ONNX Runtime here."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers"))


def _copy(files: Mapping[str, Path], folder: Path) -> None:
    for name, path in files.items():
        link_or_copy(path, folder / name)


def can_export(options: EncodingOptions) -> bool:
    """Return whether an export gives what these options ask for: several passes have dropout, heads are PyTorch's."""
    return options.passes == 1 and options.pooling != "pooled"


def _reader(record: OnnxRecord) -> Callable[[Sequence[int]], int]:
    if record.reads == "last":
        return lambda ids: len(ids) - 1
    cls_id = record.cls_id
    return lambda ids: ids.index(cls_id) if cls_id is not None and cls_id in ids else 0


def _with_plain(part: EncoderPart, **changes: object) -> EncoderPart:
    return replace(part, plain={**part.plain, **changes})
