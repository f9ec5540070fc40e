"""One batch through a Hugging Face model: what it says at the positions of the rows."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.encoding.heads import head_of
from knn_ue.encoding.inspection import captured_input, last_linear
from knn_ue.encoding.options import EncodingOptions
from knn_ue.encoding.passes import log_mean_probs
from knn_ue.encoding.pieces import Piece, batches_by_length, pad_pieces, padding_of

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class _Ready:
    """A padded batch on the model's device; row i is read at position `where[i]` of sequence `which[i]`.

    `seed` comes from the texts, so that dropout drawn with it gives the same texts the same answer.
    """

    inputs: dict[str, Any]
    which: Any
    where: Any
    seed: int


class ForwardPass:
    """Calls a model on padded pieces; `pad_id` is the token number that the model itself takes for padding."""

    def __init__(self, model: Any, tokenizer: Any, options: EncodingOptions, *, pad_id: int | None) -> None:
        self.model = model
        self.options = options
        self.accepted_inputs = frozenset(signature(model.forward).parameters)
        self._tokenizer, self._pad_id = tokenizer, pad_id
        self._head = head_of(model)
        self._last = last_linear(model) if options.pooling == "pooled" and self._head is None else None

    @property
    def padding(self) -> dict[str, int]:
        """The number that pads each input."""
        return padding_of(self._tokenizer, self._pad_id)

    @property
    def device(self) -> Any:
        """The torch device the model is on."""
        return next(self.model.parameters()).device

    def __call__(self, batch: Sequence[Piece]) -> Arrays:
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

    def empty_arrays(self, n_rows: int = 0) -> Arrays:
        """Return zeros in the shape of what a call returns for `n_rows` rows."""
        config = self.model.config
        last = self._head or self._last
        width = last.in_features if last is not None and self.options.pooling == "pooled" else config.hidden_size
        arrays: Arrays = {"logits": np.zeros((n_rows, len(config.id2label)), dtype=np.float32)}
        arrays["features"] = np.zeros((n_rows, width), dtype=np.float32)
        if self.options.all_layers:
            for number in range(config.num_hidden_layers):
                arrays[f"layers.{number}"] = np.zeros((n_rows, config.hidden_size), dtype=np.float32)
        return arrays

    def _prepare(self, batch: Sequence[Piece]) -> _Ready:
        import torch

        device = self.device
        padded = pad_pieces(batch, self.padding)
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
