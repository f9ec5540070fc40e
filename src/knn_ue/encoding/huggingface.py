"""Any Hugging Face text or token classifier -> Outputs."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import check_choice
from knn_ue.encoding.heads import head_of
from knn_ue.encoding.inputs import TASKS, Example, Task, all_labelled, class_numbers, read_windows
from knn_ue.encoding.inspection import (
    captured_input,
    check_layer,
    class_names_of,
    last_linear,
    max_length_of,
)
from knn_ue.encoding.loading import find_device, load_model, load_tokenizer
from knn_ue.encoding.options import EncodingOptions, Pooling
from knn_ue.encoding.passes import log_mean_probs
from knn_ue.encoding.pieces import Piece, batches_by_length, make_pieces, pad_pieces, padding_of
from knn_ue.encoding.words import word_in_context
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs

Progress = Callable[[int, int | None], None]
Arrays = dict[str, npt.NDArray[Any]]

# So many batches are read ahead: enough rows to sort by length, few enough that memory stays flat.
_READ_AHEAD = 32


@dataclass(frozen=True, eq=False)
class _Ready:
    """A padded batch on the model's device; row i is read at position `where[i]` of sequence `which[i]`.

    `seed` comes from the texts, so that dropout drawn with it gives the same texts the same answer.
    """

    inputs: dict[str, Any]
    which: Any
    where: Any
    seed: int


class HuggingFaceEncoder:
    """Rows in, `Outputs` out: features, logits, and labels where the rows have them, in the order of the rows.

    One row an example; in tagging one row a word, `groups` holding the number of its sentence. `texts` are the texts,
    "premise → hypothesis", or the word in its context. An empty text is what the model makes of its special tokens; a
    sentence without words has no rows; no rows give `Outputs` of length 0. Long texts are cut at the end and counted in
    `n_truncated`; long sentences are read in overlapping windows, and no word is lost. Results do not depend on batch
    size, padding or order beyond float32 rounding.
    """

    def __init__(self, model: Any, tokenizer: Any, task: Task, *, options: EncodingOptions | None = None) -> None:
        check_choice(task, "task", TASKS)
        options = options or EncodingOptions()
        options.check_task(task)
        if options.pooling == "cls" and task != "token-classification" and tokenizer.cls_token_id is None:
            raise InvalidInputError('this model has no CLS token: use pooling="mean" or pooling="pooled"')
        self.model = model
        self.tokenizer = tokenizer
        self.task: Task = task
        self.options = replace(options, max_length=max_length_of(model, tokenizer, options.max_length))
        self.class_names = class_names_of(model.config)
        self.n_encoded = 0  # rows read since this encoder was made
        self.n_truncated = 0  # how many of them were cut at max_length
        self._head = head_of(model)
        self._last = last_linear(model) if options.pooling == "pooled" and self._head is None else None
        self.accepted_inputs = frozenset(signature(model.forward).parameters)
        check_layer(model.config, options.layer)

    @property
    def device(self) -> Any:
        """The torch device the model is on."""
        return next(self.model.parameters()).device

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        task: Task,
        *,
        device: str = "auto",
        pooling: Pooling = "cls",
        layer: int = -1,
        all_layers: bool = False,
        max_length: int | None = None,
        batch_size: int = 32,
        context_words: int = 4,
        passes: int = 1,
        trust_remote_code: bool = False,
    ) -> Self:
        """Load a classifier from a folder or the hub; `device` is "auto" (a GPU if there is one), "cpu", "cuda", ..."""
        options = EncodingOptions(
            pooling=pooling,
            layer=layer,
            all_layers=all_layers,
            max_length=max_length,
            batch_size=batch_size,
            context_words=context_words,
            passes=passes,
        )
        place = find_device(device)
        tokenizer = load_tokenizer(path, task, trust_remote_code=trust_remote_code)
        model, untrained = load_model(path, task, trust_remote_code=trust_remote_code)
        if untrained:
            raise InvalidInputError(
                f"{path} has no trained classification head ({untrained[0]} is missing): fine-tune it first, "
                f"with knn-ue train --encoder {path}"
            )
        return cls(model.to(place), tokenizer, task, options=options)

    def encode(self, rows: Iterable[object], *, with_labels: bool = True, progress: Progress | None = None) -> Outputs:
        """Encode all rows; `progress(done, total)` is called after every batch, `total` None where it is unknown.

        `with_labels=False` leaves labels unread, as out-of-domain data with other classes needs.
        """
        total = len(rows) if isinstance(rows, Sequence) else None
        columns: dict[str, list[Any]] = {}
        for part in self._encode_windows(rows, with_labels, progress, total):
            for name, values in part.items():
                columns.setdefault(name, []).append(values)
        if not columns:
            columns = {name: [values] for name, values in self._empty_arrays().items()}
        joined: dict[str, Any] = {}
        for name in list(columns):  # each column is released once joined: the peak is all plus one column
            parts = columns.pop(name)
            joined[name] = list(chain.from_iterable(parts)) if name == "texts" else np.concatenate(parts)
        return self._outputs(joined)

    def encode_batches(self, rows: Iterable[object], *, with_labels: bool = True) -> Iterator[Outputs]:
        """Yield the `Outputs` of a bounded number of rows at a time, in order; memory does not grow with the input."""
        for part in self._encode_windows(rows, with_labels):
            yield self._outputs(part)

    def _encode_windows(
        self, rows: Iterable[object], with_labels: bool, progress: Progress | None = None, total: int | None = None
    ) -> Iterator[dict[str, Any]]:
        labelled: bool | None = None
        start = 0
        for examples in read_windows(rows, self.task, n_rows=self.options.batch_size * _READ_AHEAD):
            part = self._describe(examples, start)
            if with_labels:
                labelled = all_labelled(examples, start=start, expected=labelled)
                if labelled:
                    part["labels"] = class_numbers(examples, self.class_names, start=start)
            made = make_pieces(self.tokenizer, examples, task=self.task, max_length=self.options.max_length or 0)
            self.n_encoded += len(examples)
            self.n_truncated += made.n_truncated
            arrays = self._empty_arrays(made.n_rows)
            for share in self._fill(arrays, made.pieces):
                if progress is not None:
                    progress(start + int(share * len(examples)), total)
            start += len(examples)
            yield part | arrays

    def _describe(self, examples: Sequence[Example], start: int) -> dict[str, Any]:
        if self.task != "token-classification":
            return {"texts": [" → ".join(example.parts) for example in examples]}
        width = self.options.context_words
        texts = [word_in_context(e.parts, i, width=width) for e in examples for i in range(len(e.parts))]
        lengths = [len(example.parts) for example in examples]
        return {"texts": texts, "groups": np.repeat(np.arange(start, start + len(examples)), lengths)}

    def _fill(self, arrays: Arrays, pieces: Sequence[Piece]) -> Iterator[float]:
        """Write what the model says of the pieces into their rows; yield the share done, 1 at the end."""
        done = 0
        for batch in batches_by_length(pieces, self.options.batch_size):
            rows = np.concatenate([piece.rows for piece in batch])
            for name, values in self.forward(batch).items():
                arrays[name][rows] = values
            done += len(batch)
            yield done / len(pieces)
        if not pieces:
            yield 1.0

    def forward(self, batch: Sequence[Piece]) -> Arrays:
        """Run the model on padded pieces; return `features`, `logits` and `layers.<i>`, one row a position."""
        import torch

        ready = self._prepare(batch)
        self.model.eval()
        with torch.inference_mode():
            with captured_input(self._last) as captured:
                result = self.model(**ready.inputs, output_hidden_states=True)
            hidden = result.hidden_states
            if self._head is not None:
                captured = [self._head.hidden(self._at_rows(result.logits, ready))]
            pooled = self.options.pooling == "pooled"
            arrays = {"features": self._at_rows(captured[0] if pooled else hidden[self.options.layer], ready)}
            if self.options.all_layers:
                arrays |= {f"layers.{number}": self._at_rows(states, ready) for number, states in enumerate(hidden[1:])}
            arrays["logits"] = self._logits(result, ready)
            if self.options.passes > 1:
                arrays["logits"] = log_mean_probs(
                    self.model,
                    lambda: self._logits(self.model(**ready.inputs), ready),
                    passes=self.options.passes,
                    seed=ready.seed,
                )
        return {name: values.float().cpu().numpy() for name, values in arrays.items()}

    def head_inputs(self, pieces: Sequence[Piece]) -> Iterator[Any]:
        """Yield what the head's last layer reads of the pieces, a batch (rows, width) at a time, without dropout."""
        import torch

        assert self._head is not None
        self.model.eval()
        for batch in batches_by_length(pieces, self.options.batch_size):
            ready = self._prepare(batch)
            with torch.inference_mode():
                yield self._head.hidden(self._at_rows(self.model(**ready.inputs).logits, ready))

    def _prepare(self, batch: Sequence[Piece]) -> _Ready:
        import torch

        device = self.device
        padded = pad_pieces(batch, padding_of(self.tokenizer))
        which = np.repeat(np.arange(len(batch)), [len(piece.rows) for piece in batch])
        where = np.concatenate([piece.positions for piece in batch])
        return _Ready(
            inputs={k: torch.from_numpy(v).to(device) for k, v in padded.items() if k in self.accepted_inputs},
            which=torch.from_numpy(which).to(device),
            where=torch.from_numpy(where).to(device),
            seed=zlib.crc32(padded["input_ids"].tobytes()),
        )

    def _logits(self, result: Any, ready: _Ready) -> Any:
        rows = self._at_rows(result.logits, ready)
        return rows if self._head is None else self._head.logits(self._head.hidden(rows))

    def _at_rows(self, states: Any, ready: _Ready) -> Any:
        """Return the states (batch, length, width) at the rows' positions, or their mean; (rows, width) as it is."""
        if states.ndim == 2:
            return states
        if self.options.pooling == "mean":
            mask = ready.inputs["attention_mask"][:, :, None].to(states.dtype)
            return (states * mask).sum(dim=1) / mask.sum(dim=1)
        return states[ready.which, ready.where]

    def _empty_arrays(self, n_rows: int = 0) -> Arrays:
        config = self.model.config
        last = self._head or self._last
        width = last.in_features if last is not None and self.options.pooling == "pooled" else config.hidden_size
        arrays: Arrays = {"logits": np.zeros((n_rows, len(self.class_names)), dtype=np.float32)}
        arrays["features"] = np.zeros((n_rows, width), dtype=np.float32)
        if self.options.all_layers:
            for number in range(config.num_hidden_layers):
                arrays[f"layers.{number}"] = np.zeros((n_rows, config.hidden_size), dtype=np.float32)
        return arrays

    def _outputs(self, columns: Mapping[str, Any]) -> Outputs:
        layers = [columns[name] for name in columns if name.startswith("layers.")]
        rest = {name: values for name, values in columns.items() if not name.startswith("layers.")}
        return Outputs(**rest, layers=layers or None, class_names=self.class_names)
