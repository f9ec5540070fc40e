"""Any Hugging Face text or token classifier -> Outputs; `EncodingOptions` say how rows become features."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict, Unpack, get_args

import numpy as np

from knn_ue.arrays import check_choice, check_not_empty, check_positive
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.forward import ForwardPass, Pieces, batches_by_length, text_pieces
from knn_ue.encoding.inputs import Example, all_labeled, class_numbers, read_examples, windows
from knn_ue.encoding.inspection import (
    Pooling,
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
from knn_ue.encoding.words import tagging_pieces, word_in_context
from knn_ue.errors import InvalidInputError
from knn_ue.folder import as_written, from_plain
from knn_ue.tasks import TASKS, Task, task_name
from knn_ue.types import Outputs, Step, join_columns

# What is larger is a slip of the hand, or a folder that was made to take all memory or time.
_MOST = {"batch_size": 1 << 16, "passes": 10_000, "max_length": 1 << 20, "context_words": 1 << 16}


class EncodingNames(TypedDict, total=False):
    """The keyword arguments that `from_pretrained` takes for `EncodingOptions`."""

    pooling: Pooling | None
    layer: int | tuple[int, ...]
    all_layers: bool
    max_length: int | None
    batch_size: int
    context_words: int
    passes: int
    views: bool


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """What a feature is.

    `pooling`: "cls" (the CLS token; in tagging the first sub-word of each word), "last" (the last real token, for
    decoder-only models), "mean" (over all real tokens, the special ones among them), "cls+mean" (both, each of length
    1, side by side) or "pooled" (what the head's last linear layer reads, at the position where the model classifies).
    None is "cls+mean" for texts and "cls" for pairs and words where the model has a CLS token that sees the text, and
    "last" otherwise; the encoder's own options hold the choice. `layer` counts as `hidden_states` does: 0 the
    embeddings, 1 the first layer, -1 the final one; several are put side by side, each of length 1. `all_layers` adds
    every layer but the embeddings to `Outputs.layers`, of "cls+mean" the CLS token. `max_length` counts sub-words and
    special tokens and ends where the positions of the model do; None is what it was made for, at most 512.
    `context_words` on each side surround a tagged word in `Outputs.texts`. `views` adds what familiarity looks at to
    `Outputs.views`. With `passes` above 1 the logits are the log of the mean probability over so many passes with
    dropout; features stay those of one pass without.

    >>> EncodingOptions(pooling="mean").layer
    -1
    """

    pooling: Pooling | None = None
    layer: int | tuple[int, ...] = -1
    all_layers: bool = False
    max_length: int | None = None
    batch_size: int = 32
    context_words: int = 4
    passes: int = 1
    views: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.layer, int):
            object.__setattr__(self, "layer", tuple(self.layer))
            check_not_empty(len(self.layers), "layer")
        if self.pooling is not None:
            check_choice(self.pooling, "pooling", get_args(Pooling))
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and name != "context_words":
                check_positive(value, name)
            if value is not None and value > most:
                raise InvalidInputError(f"{name} must be at most {most}, got {value}: lower it")
        if self.context_words < 0:
            raise InvalidInputError(f"context_words must be at least 0, got {self.context_words}: 0 keeps bare words")
        if self.pooling == "pooled" and self.layer != -1:
            raise InvalidInputError(
                f'pooling="pooled" is the input of the classification head, so layer={self.layer} has no effect: '
                'drop it, or use pooling="cls"'
            )

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that features are made of."""
        return (self.layer,) if isinstance(self.layer, int) else self.layer


@dataclass(frozen=True, kw_only=True)
class _StoredEncoder:
    """What a UE folder holds of this encoder, beside the files of the model."""

    options: EncodingOptions
    model: HubModel


class HuggingFaceEncoder(Encoder):
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
        self._ignores_case = tagging and ignores_case(tokenizer)
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

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Load the model of a UE folder after verifying its files; one from the hub must be at the same commit."""
        find_device(device)  # what the user asks for is not the folder's fault
        with as_written(Path(part.where), "pipeline"):
            stored = from_plain(_StoredEncoder, part.plain)
            options = asdict(stored.options)
        return open_with_model(
            part,
            stored.model,
            lambda model: cls.from_pretrained(
                model, part.task, device=device, trust_remote_code=trust_remote_code, **options
            ),
        )

    def _write_files(self, folder: Path) -> None:
        save_model(folder, self.model)
        self.tokenizer.save_pretrained(folder)

    def encode(self, rows: Iterable[object], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Encode examples, or rows of any shape that `inputs` reads.

        `progress(done, total)` is called after every batch, `total` None where it is unknown.

        `with_labels=False` leaves labels unread, as out-of-domain data with other classes needs.
        """
        total = len(rows) if isinstance(rows, Sequence) else None
        columns: dict[str, list[Any]] = {}
        for part in self._encode_windows(rows, with_labels, progress, total):
            for name, values in part.items():
                columns.setdefault(name, []).append(values)
        if not columns:
            columns = {name: [values] for name, values in self.forward.empty_arrays().items()}
        return join_columns(columns, class_names=self.class_names)

    def encode_batches(self, rows: Iterable[object], *, with_labels: bool = True) -> Iterator[Outputs]:
        """Yield the `Outputs` of a bounded number of rows at a time, in order; memory does not grow with the input."""
        for part in self._encode_windows(rows, with_labels):
            yield join_columns({name: [values] for name, values in part.items()}, class_names=self.class_names)

    def _encode_windows(
        self, rows: Iterable[object], with_labels: bool, progress: Step | None = None, total: int | None = None
    ) -> Iterator[dict[str, Any]]:
        labeled: bool | None = None
        start = 0
        for examples in windows(read_examples(rows, self.task), batch_size=self.options.batch_size):
            part = self._describe(examples, start)
            if with_labels:
                labeled = all_labeled(examples, start=start, expected=labeled)
                if labeled:
                    part["labels"] = class_numbers(examples, self.class_names, start=start)
            made = self.pieces_of(examples)
            self.n_encoded += len(examples)
            self.n_truncated += made.n_truncated
            arrays = self.forward.empty_arrays(made.n_rows)
            done = 0
            for batch in batches_by_length(made.pieces, self.options.batch_size):
                rows_of_batch = np.concatenate([piece.rows for piece in batch])
                for name, values in self.forward(batch).items():
                    arrays[name][rows_of_batch] = values
                done += len(batch)
                if progress is not None:
                    progress(start + len(examples) * done // len(made.pieces), total)
            start += len(examples)
            if progress is not None and not made.pieces:
                progress(start, total)
            yield part | arrays

    def pieces_of(self, examples: Sequence[Example]) -> Pieces:
        """Tokenize the examples as this encoder reads them."""
        task, max_length = TASKS[self.task], self.options.max_length or 0
        capacity = max_length - self.tokenizer.num_special_tokens_to_add(pair=task.is_pair)
        if capacity < 1:
            raise InvalidInputError(f"max_length={max_length} leaves no room beside the special tokens: raise it")
        if task.is_tagging:
            return tagging_pieces(self.tokenizer, examples, capacity=capacity)
        return text_pieces(self.tokenizer, examples, max_length=max_length, position_of=self._position_of)

    def _describe(self, examples: Sequence[Example], start: int) -> dict[str, Any]:
        if TASKS[self.task].is_pair:
            return {"pairs": [example.parts for example in examples]}
        if not TASKS[self.task].is_tagging:
            return {"texts": [example.parts[0] for example in examples]}
        width = self.options.context_words
        texts = [word_in_context(e.parts, i, width=width) for e in examples for i in range(len(e.parts))]
        lengths = [len(example.parts) for example in examples]
        described = {"texts": texts, "groups": np.repeat(np.arange(start, start + len(examples)), lengths)}
        if self._ignores_case:
            described["words"] = [word for example in examples for word in example.parts]
        return described
