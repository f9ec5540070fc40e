"""Encoders as readers: one vector per text by pooling, and one per word from the layers that know words best.

What runs the encoder is an engine: ONNX Runtime (`onnx_engine`, no PyTorch) or PyTorch (`torch_engine`). Tokens come
from the folder's `tokenizer.json`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, check_choice
from knn_ue.errors import InvalidInputError, require
from knn_ue.verifying.instant import InstantReader
from knn_ue.verifying.views import RawView

Pooling = Literal["mean", "cls"]
POOLINGS = ("mean", "cls")
TOKENIZER_FILE, CONFIG_FILE, POOLING_FILE = "tokenizer.json", "config.json", "1_Pooling/config.json"
_BATCH_PIECES = 4096  # padding included
_TEXT_PIECES = 256  # of a text; what stands behind them is not read
_TINY = 1e-12


class Engine(Protocol):
    """What runs an encoder."""

    def states(self, ids: IntArray, mask: IntArray, layers: tuple[int, ...] | None) -> list[FloatArray]:
        """Return the states (batch, pieces, d) after each of these layers, counted from 1; None is the last one."""
        ...


class EncoderReader:
    """An encoder in a folder: its pooled vectors beside the views of the instant reader, and its word vectors.

    `pooling` is what the folder's `1_Pooling/config.json` says, otherwise the mean. `layers`, counted from 1, give the
    word vectors: each piece is normalized per layer, and a word is the mean of its pieces.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        engine: Engine,
        *,
        pooling: Pooling | None = None,
        layers: Sequence[int] | None = None,
    ) -> None:
        require("tokenizers", extra="verify", purpose=f"the reader {name}")
        config = _json(folder / CONFIG_FILE)
        self.name = name
        self.pooling = pooling or _stated_pooling(folder)
        check_choice(self.pooling, "pooling", POOLINGS)
        self.layers = tuple(layers or (max(1, _n_layers(config) // 2),))
        self.max_pieces = _max_pieces(config)
        self._engine = engine
        self._tokenizer = _tokenizer(folder)
        self._pad = int(config.get("pad_token_id") or 0)
        self._instant = InstantReader()

    def read(self, texts: Sequence[str]) -> dict[str, RawView]:
        """Return the vectors of n texts as `embedding`, and the views of the instant reader."""
        return {"embedding": self.embed(texts), **self._instant.read(texts)}

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector of norm 1 per text (n, d)."""
        encoded = self._tokenizer.encode_batch(list(texts))
        n_pieces = min(_TEXT_PIECES, self.max_pieces)
        pieces = [_cut(encoding.ids, n_pieces) for encoding in encoded]
        vectors: list[FloatArray] = [np.zeros(0)] * len(texts)
        for rows, ids, mask in self._batches(pieces):
            (states,) = self._engine.states(ids, mask, None)
            pooled = states[:, 0] if self.pooling == "cls" else _masked_mean(states, mask)
            for row, vector in zip(rows, _unit(pooled), strict=True):
                vectors[row] = vector
        return np.stack(vectors).astype(np.float32) if vectors else np.zeros((0, 1), dtype=np.float32)

    def read_words(self, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """Return one vector per word (words, d x layers), of one sentence after another.

        A sentence longer than the encoder reads is read in parts. A word that leaves no piece has the vector 0.
        """
        parts = [part for sentence in sentences for part in self._parts(list(sentence))]
        vectors: list[FloatArray] = [np.zeros(0)] * len(parts)
        for rows, ids, mask in self._batches([ids for ids, _, _ in parts]):
            states = [_unit(layer) for layer in self._engine.states(ids, mask, self.layers)]
            joined = np.concatenate(states, axis=-1)
            for row, of_pieces in zip(rows, joined, strict=True):
                vectors[row] = _of_words(of_pieces, *parts[row][1:])
        return np.concatenate(vectors) if vectors else np.zeros((0, 1), dtype=np.float32)

    def _parts(self, words: list[str]) -> Iterator[tuple[list[int], list[int | None], int]]:
        """Yield the pieces, the word of each piece, and the number of words, of parts that are short enough."""
        if not words:
            return
        encoding = self._tokenizer.encode(words, is_pretokenized=True)
        if len(encoding.ids) <= self.max_pieces or len(words) == 1:
            yield encoding.ids[: self.max_pieces], encoding.word_ids[: self.max_pieces], len(words)
            return
        half = len(words) // 2
        yield from self._parts(words[:half])
        yield from self._parts(words[half:])

    def _batches(self, pieces: Sequence[list[int]]) -> Iterator[tuple[list[int], IntArray, IntArray]]:
        """Yield rows of about the same length, their padded pieces, and which of those are theirs."""
        order = sorted(range(len(pieces)), key=lambda row: len(pieces[row]))
        while order:
            rows = order[: max(1, _BATCH_PIECES // max(len(pieces[order[0]]), 1))]
            while len(rows) > 1 and len(rows) * len(pieces[rows[-1]]) > _BATCH_PIECES:
                rows = rows[: max(1, len(rows) * 3 // 4)]
            order = order[len(rows) :]
            ids = np.full((len(rows), max(len(pieces[rows[-1]]), 1)), self._pad, dtype=np.int64)
            mask = np.zeros_like(ids)
            for place, row in enumerate(rows):
                ids[place, : len(pieces[row])] = pieces[row]
                mask[place, : len(pieces[row])] = 1
            yield rows, ids, mask


def _of_words(pieces: FloatArray, word_of: Sequence[int | None], n_words: int) -> FloatArray:
    places = np.array([place for place, word in enumerate(word_of) if word is not None], dtype=np.int64)
    words = np.array([word for word in word_of if word is not None], dtype=np.int64)
    sums = np.zeros((n_words, pieces.shape[1]), dtype=np.float32)
    np.add.at(sums, words, pieces[places])
    sums /= np.maximum(np.bincount(words, minlength=n_words), 1)[:, None].astype(np.float32)
    return sums


def _masked_mean(states: FloatArray, mask: IntArray) -> FloatArray:
    weights = mask[:, :, None].astype(states.dtype)
    mean: FloatArray = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return mean


def _unit(vectors: FloatArray) -> FloatArray:
    norms: FloatArray = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: FloatArray = vectors / np.maximum(norms, _TINY)
    return unit


def _cut(ids: list[int], n_pieces: int) -> list[int]:
    """Return at most n pieces: the first ones, and the mark that ends a text."""
    return ids if len(ids) <= n_pieces else [*ids[: n_pieces - 1], ids[-1]]


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise InvalidInputError(f"the reader's folder {folder} has no {TOKENIZER_FILE}: save it with a fast tokenizer")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if hasattr(tokenizer.pre_tokenizer, "add_prefix_space"):
        tokenizer.pre_tokenizer.add_prefix_space = True  # a word of a sentence stands after a space
    return tokenizer


def _stated_pooling(folder: Path) -> Pooling:
    path = folder / POOLING_FILE
    return "cls" if path.is_file() and _json(path).get("pooling_mode_cls_token") else "mean"


def _n_layers(config: dict[str, Any]) -> int:
    return int(config.get("num_hidden_layers") or config.get("n_layers") or config.get("num_layers") or 2)


def _max_pieces(config: dict[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or 512)
    offset = 2 if config.get("model_type") in ("roberta", "xlm-roberta", "mpnet", "camembert") else 0
    return max(8, min(512, positions - offset))


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidInputError(f"the reader's folder {path.parent} has no {path.name}: pass a folder of an encoder")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInputError(f"{path} cannot be read as JSON ({error}): save the encoder again") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} must hold a JSON object: save the encoder again")
    return content
