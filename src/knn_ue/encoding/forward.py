"""Pieces that a model can read at once -> what it says at the positions of the rows, and what familiarity looks at.

A text or pair is one piece: what exceeds `max_length` is cut from the end, of the longer part in a pair, and counted.
Sentences to be tagged become pieces in `words`.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.encoding.inputs import Example
from knn_ue.encoding.inspection import captured_input, head_of, last_linear
from knn_ue.encoding.passes import log_mean_probs
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue.encoding.options import EncodingOptions

TokenIds = dict[str, list[int]]
Arrays = dict[str, npt.NDArray[Any]]

_LAYERS = 6
_TEXT_WIDTH = 768
_WORD_WIDTH = 64  # every word has its own views, so they must be small


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Token numbers, and which output `rows` are read at which `positions` of them."""

    inputs: TokenIds
    rows: IntArray
    positions: IntArray

    def __len__(self) -> int:
        return len(self.inputs["input_ids"])


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """All pieces of some examples, the number of output rows they fill, and how many examples were cut."""

    pieces: list[Piece]
    n_rows: int
    n_truncated: int


def text_pieces(
    tokenizer: Any,
    examples: Sequence[Example],
    *,
    max_length: int,
    position_of: Callable[[Sequence[int]], int],
) -> Pieces:
    """Tokenize texts or pairs, one piece and one output row each; what exceeds `max_length` is cut.

    `position_of` tells from the token numbers of a text or pair at which of them its row is read.
    """
    if not examples:
        return Pieces([], 0, 0)
    first, *second = (list(column) for column in zip(*(example.parts for example in examples), strict=True))
    encoded = tokenizer(first, *second, truncation="longest_first", max_length=max_length)
    names = [name for name in encoded if name != "attention_mask"]
    pieces: list[Piece] = []
    for row in range(len(examples)):
        inputs: TokenIds = {name: list(encoded[name][row]) for name in names}
        if not inputs["input_ids"]:  # an empty text, and a tokenizer without special tokens
            inputs = {name: [unknown_id(tokenizer) if name == "input_ids" else 0] for name in names}
        pieces.append(Piece(inputs, np.array([row]), np.array([position_of(inputs["input_ids"])])))
    return Pieces(pieces, len(examples), sum(bool(encoding.overflowing) for encoding in encoded.encodings))


def pad_pieces(pieces: Sequence[Piece], padding: Mapping[str, int]) -> dict[str, npt.NDArray[np.int64]]:
    """Return each input as a (pieces, longest) array, padded on the right, and the attention mask."""
    shape = len(pieces), max(map(len, pieces))
    padded = {name: np.full(shape, padding.get(name, 0), dtype=np.int64) for name in pieces[0].inputs}
    padded["attention_mask"] = np.zeros(shape, dtype=np.int64)
    for number, piece in enumerate(pieces):
        for name, values in piece.inputs.items():
            padded[name][number, : len(values)] = values
        padded["attention_mask"][number, : len(piece)] = 1
    return padded


def batches_by_length(pieces: Sequence[Piece], batch_size: int) -> Iterator[list[Piece]]:
    """Yield batches of pieces of similar length, longest first, so that little is padded and memory peaks early."""
    ordered = sorted(pieces, key=len, reverse=True)
    for start in range(0, len(ordered), batch_size):
        yield ordered[start : start + batch_size]


def unknown_id(tokenizer: Any) -> int:
    """Return the token number that stands for a word or text without sub-words."""
    for number in (tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.eos_token_id):
        if number is not None:
            return int(number)
    raise InvalidInputError("the tokenizer has no unknown token to stand for a word without sub-words: set unk_token")


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

    def __init__(
        self, model: Any, tokenizer: Any, options: "EncodingOptions", *, pad_id: int | None, tagging: bool
    ) -> None:
        self.model = model
        self.options = options
        self.accepted_inputs = frozenset(signature(model.forward).parameters)
        self._tokenizer, self._pad_id = tokenizer, pad_id
        self._n_tokens = getattr(model.get_input_embeddings(), "num_embeddings", None)
        self._head = head_of(model)
        config = model.config
        self._views = None
        if options.views:
            self._views = ViewReader(config.num_hidden_layers, config.hidden_size, tagging=tagging)
        self._last = last_linear(model) if options.pooling == "pooled" and self._head is None else None

    @property
    def padding(self) -> dict[str, int]:
        """The number that pads each input."""
        pad_id = self._tokenizer.pad_token_id if self._pad_id is None else self._pad_id
        if pad_id is None:
            raise InvalidInputError(
                "the tokenizer has no padding token: set tokenizer.pad_token and save the model again"
            )
        return {"input_ids": pad_id, "token_type_ids": self._tokenizer.pad_token_type_id}

    def __call__(self, batch: Sequence[Piece]) -> Arrays:
        """Run the model on padded pieces; return `features`, `logits`, `views` and `layers.<i>`, one row a position."""
        import torch

        ready = self._prepare(batch)
        self.model.eval()
        with torch.inference_mode():
            with captured_input(self._last) as captured:
                result = self.model(**ready.inputs, output_hidden_states=True)
            hidden = result.hidden_states
            if self._head is not None:
                captured = [self._head.hidden(self._at_rows(result.logits, ready))]
            read = (
                captured[:1] if self.options.pooling == "pooled" else [hidden[layer] for layer in self.options.layers]
            )
            parts = [self._at_rows(states, ready) for states in read]
            arrays = {"features": parts[0] if len(parts) == 1 else _joined(parts)}
            if self.options.all_layers:
                arrays |= {f"layers.{number}": self._layer(states, ready) for number, states in enumerate(hidden[1:])}
            if self._views is not None:
                mask = ready.inputs["attention_mask"]
                arrays["views"] = self._views.read(hidden, mask, ready.which, ready.where)
            arrays["logits"] = self._logits(result, ready)
            if self.options.passes > 1:
                arrays["logits"] = log_mean_probs(
                    self.model,
                    lambda: self._logits(self.model(**ready.inputs), ready),
                    passes=self.options.passes,
                    seed=ready.seed,
                )
        return {name: (values if name == "views" else values.float()).cpu().numpy() for name, values in arrays.items()}

    def head_inputs(
        self, pieces: Sequence[Piece], around: Callable[[IntArray], AbstractContextManager[None]]
    ) -> Iterator[Any]:
        """Yield what the head's last layer reads of the pieces, a batch (rows, width) at a time, without dropout.

        Each call of the model is within `around` the numbers of its pieces.
        """
        import torch

        assert self._head is not None
        self.model.eval()
        order = np.argsort([-len(piece) for piece in pieces], kind="stable")
        for start in range(0, len(order), self.options.batch_size):
            numbers = order[start : start + self.options.batch_size]
            ready = self._prepare([pieces[number] for number in numbers])
            with torch.inference_mode():
                with around(numbers):
                    answers = self.model(**ready.inputs).logits
                yield self._head.hidden(self._at_rows(answers, ready))

    def inputs_of(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the pieces as a padded batch on the model's device."""
        return self._prepare(pieces).inputs

    def empty_arrays(self, n_rows: int = 0) -> Arrays:
        """Return zeros in the shape of what a call returns for `n_rows` rows."""
        config = self.model.config
        last = self._head or self._last
        width = last.in_features if last is not None and self.options.pooling == "pooled" else config.hidden_size
        arrays: Arrays = {"logits": np.zeros((n_rows, len(config.id2label)), dtype=np.float32)}
        n_parts = 2 if self.options.pooling == "cls+mean" else 1
        arrays["features"] = np.zeros((n_rows, width * n_parts * len(self.options.layers)), dtype=np.float32)
        if self._views is not None:
            arrays["views"] = np.zeros((n_rows, *self._views.shape), dtype=np.float16)
        if self.options.all_layers:
            for number in range(config.num_hidden_layers):
                arrays[f"layers.{number}"] = np.zeros((n_rows, config.hidden_size), dtype=np.float32)
        return arrays

    def _prepare(self, batch: Sequence[Piece]) -> _Ready:
        import torch

        device = self.model.device
        padded = pad_pieces(batch, self.padding)
        largest = int(padded["input_ids"].max())
        if self._n_tokens is not None and largest >= self._n_tokens:
            raise InvalidInputError(
                f"the tokenizer gives token {largest}, the model knows {self._n_tokens}: they do not belong together; "
                "save both into one folder"
            )
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

    def _layer(self, states: Any, ready: _Ready) -> Any:
        """Return the states of one layer for methods that read all of them: both poolings would be twice as much."""
        if self.options.pooling == "cls+mean":
            return states[ready.which, ready.where]
        return self._at_rows(states, ready)

    def _at_rows(self, states: Any, ready: _Ready) -> Any:
        """Return the states (batch, length, width) at the rows' positions, or their mean; (rows, width) as it is."""
        if states.ndim == 2:
            return states
        if self.options.pooling not in ("mean", "cls+mean"):
            return states[ready.which, ready.where]
        mask = ready.inputs["attention_mask"][:, :, None].to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        if self.options.pooling == "mean":
            return mean
        return _joined([states[ready.which, ready.where], mean])


def _joined(parts: Sequence[Any]) -> Any:
    """Return the parts (rows, width) side by side, each row of each of length 1: none outweighs another."""
    import torch

    return torch.cat([torch.nn.functional.normalize(part.float(), dim=-1) for part in parts], dim=-1)


class ViewReader:
    """Reads what familiarity looks at: the views of a model with layers of some width; in tagging they are narrower.

    The final layer of a fine-tuned model has forgotten what it did not need; lower layers still tell a film review from
    a question about a battery. Both poolings of a few layers come from the one forward pass.

    A view is a unit vector: the hidden state at the row's position, or its mean over the real tokens, of one layer.
    At most six layers are read, evenly spaced up to the final one. What is wider than the limit (64 columns in
    tagging, else 768) is projected by fixed random signs, the same for every model of that width.
    """

    def __init__(self, n_layers: int, width: int, *, tagging: bool) -> None:
        n_read = min(_LAYERS, n_layers)
        self.layers = tuple(n_layers * (number + 1) // n_read for number in range(n_read))
        limit = _WORD_WIDTH if tagging else _TEXT_WIDTH
        self._signs = random_signs(width, limit) if width > limit else None
        self.shape = 2 * len(self.layers), min(width, limit)

    def read(self, hidden: Any, mask: Any, which: Any, where: Any) -> Any:
        """Return (rows, views, k) float16 from `hidden`, the states (batch, length, width) of every layer.

        Row i stands at position `where[i]` of sequence `which[i]`; `mask` (batch, length) marks the real tokens.
        """
        import torch

        weights = mask[:, :, None].float()
        weights = weights / weights.sum(dim=1, keepdim=True)
        signs = None if self._signs is None else torch.from_numpy(self._signs).to(mask.device)
        views = []
        for number in self.layers:
            states = hidden[number].float()
            mean = (states * weights).sum(dim=1)
            for found in (states[which, where], mean[which]):
                direction = torch.nn.functional.normalize(found, dim=-1)
                views.append(direction if signs is None else direction @ signs)
        return torch.stack(views, dim=1).half()

    def read_arrays(self, hidden: Mapping[int, FloatArray], mask: Any, which: Any, where: Any) -> Any:
        """Return what `read` does, from numpy arrays of the layers by number."""
        weights = mask[:, :, None].astype(np.float32)
        weights = weights / weights.sum(axis=1, keepdims=True)
        views = []
        for number in self.layers:
            states = hidden[number]
            mean = (states * weights).sum(axis=1)
            for found in (states[which, where], mean[which]):
                direction = found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-12)
                views.append(direction if self._signs is None else direction @ self._signs)
        return np.stack(views, axis=1).astype(np.float16)


def random_signs(width: int, n_columns: int) -> FloatArray:
    """Return (width, n_columns) of +-1 / sqrt(n_columns): lengths are kept on average. Achlioptas (2003).

    Made from the raw stream of the generator, which unlike its distributions never changes with numpy.
    """
    n_bits = width * n_columns
    raw = np.random.PCG64(0).random_raw(-(-n_bits // 64)).astype("<u8")
    bits = np.unpackbits(raw.view(np.uint8), bitorder="little")[:n_bits].reshape(width, n_columns)
    signs: FloatArray = (2.0 * bits - 1.0).astype(np.float32) / np.float32(np.sqrt(n_columns))
    return signs
