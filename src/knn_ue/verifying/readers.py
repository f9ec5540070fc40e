"""Readers, the verifier's eyes: texts or pairs -> raw views by name; the registry, and how `auto` chooses.

A reader knows nothing of labels, and nothing in a raw view depends on other rows: centers and idf are fitted on the
labeled rows (`views`). Whatever gives one vector per text, an encoder or an embeddings API, becomes a reader with
`EmbeddingReader`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter
from typing import Protocol, runtime_checkable

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, float_matrix
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs
from knn_ue.verifying.instant import InstantReader
from knn_ue.verifying.labels import LabelVerifier, fit_labels
from knn_ue.verifying.named import KNOWN, is_folder, open_encoder
from knn_ue.verifying.views import RawView, SparseRows

Pair = tuple[str, str]


class Reader(Protocol):
    """What reads texts for the verifier."""

    @property
    def name(self) -> str:
        """What folders and reports call it."""
        ...

    def read(self, texts: Sequence[str]) -> Mapping[str, RawView]:
        """Return the raw views of n texts, always under the same names."""
        ...


@runtime_checkable
class WordReader(Protocol):
    """What also reads words, for the verifier of spans."""

    @property
    def name(self) -> str:
        """What folders and reports call it."""
        ...

    def read_words(self, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """Return one vector per word (words, d), of one sentence after another."""
        ...


class WordVectors:
    """One vector per word from a function, `embed` (the words of sentences -> (words, d)): your own encoder.

    >>> reader = WordVectors("lengths", lambda sentences: [[float(len(word))] for words in sentences for word in words])
    >>> reader.read_words([["a", "bc"], ["def"]]).ravel().tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, name: str, embed: Callable[[Sequence[Sequence[str]]], object]) -> None:
        self.name = name
        self._embed = embed

    def read_words(self, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """Return one vector per word (words, d), of one sentence after another."""
        vectors = float_matrix(self._embed(sentences), f"what {self.name} returned")
        if len(vectors) != (n_words := sum(map(len, sentences))):
            raise InvalidInputError(f"{self.name} must return one vector per word, got {len(vectors)} for {n_words}")
        return vectors


class EmbeddingReader:
    """One vector per text from a function, `embed` (texts -> (n, d)), beside the views of the instant reader.

    >>> reader = EmbeddingReader("lengths", lambda texts: [[float(len(text))] for text in texts])
    >>> sorted(reader.read(["a", "bc"]))
    ['characters', 'embedding', 'static', 'words']
    """

    def __init__(
        self, name: str, embed: Callable[[Sequence[str]], object], *, beside: Reader | None = None, alone: bool = False
    ) -> None:
        self.name = name
        self._embed = embed
        self._beside: Reader | None = None if alone else beside or InstantReader()

    def read(self, texts: Sequence[str]) -> dict[str, RawView]:
        """Return the vectors as `embedding`, and the views of the reader beside it."""
        vectors = float_matrix(self._embed(texts), f"what {self.name} returned")
        if len(vectors) != len(texts):
            raise InvalidInputError(f"{self.name} must return one vector per text, got {len(vectors)} for {len(texts)}")
        others = {} if self._beside is None else self._beside.read(texts)
        return {"embedding": vectors, **others}


READERS: dict[str, Callable[[], Reader]] = {
    InstantReader.name: InstantReader,
    **{name: partial(open_encoder, name) for name in KNOWN},
}


@lru_cache(maxsize=4)  # an encoder is loaded once
def open_reader(name: str) -> Reader:
    """Return the reader that is registered under this name, an encoder in this folder, or one of the Hub's."""
    if name in READERS:
        return READERS[name]()
    if "/" in name or is_folder(name):
        return open_encoder(name)
    raise InvalidInputError(
        f"reader must be one of {', '.join(map(repr, sorted(READERS)))}, a folder, or a repository owner/name, "
        f"got {name!r}"
    )


def word_reader(reader: Reader) -> WordReader:
    """Return a reader that gives word vectors; raise where it does not."""
    if not isinstance(reader, WordReader):
        raise InvalidInputError(
            f"the reader {reader.name!r} gives no word vectors, which entities need: choose 'minilm' or 'gte-small'"
        )
    return reader


def read_pairs(reader: Reader, pairs: Sequence[Pair]) -> dict[str, RawView]:
    """Return the raw views of n pairs: of both texts joined; for dense views also what differs and what is shared."""
    first = reader.read([one for one, _ in pairs])
    second = reader.read([other for _, other in pairs])
    views: dict[str, RawView] = dict(reader.read([f"{one}\n{other}" for one, other in pairs]))
    for name, view in first.items():
        other = second[name]
        if isinstance(view, SparseRows) or isinstance(other, SparseRows):
            continue
        views[f"{name}_compared"] = np.hstack([np.abs(view - other), view * other])
    return views


def read_inputs(reader: Reader, texts: Sequence[str] | None, pairs: Sequence[Pair] | None) -> Mapping[str, RawView]:
    """Return the raw views of n pairs, or of n texts where there are no pairs."""
    if pairs is not None:
        return read_pairs(reader, pairs)
    if texts is None:
        raise InvalidInputError("the verifier reads texts, these Outputs have none: pass Outputs(texts=...)")
    return reader.read(list(texts))


def read_outputs(reader: Reader, outputs: Outputs) -> Mapping[str, RawView]:
    """Return the raw views of the texts or pairs that a model's outputs are of."""
    return read_inputs(reader, outputs.texts, outputs.pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReaderTrial:
    """What one reader costs and gives: milliseconds per text, and left-out log-loss of the gold labels."""

    reader: Reader
    milliseconds: float
    log_loss: float
    verifier: LabelVerifier


def choose_reader(
    readers: Sequence[Reader],
    texts: Sequence[str],
    answers: IntArray,
    gold: IntArray,
    *,
    budget_ms: float,
    own_score: FloatArray | None = None,
    n_classes: int | None = None,
    n_answers: int | None = None,
) -> tuple[ReaderTrial, list[ReaderTrial]]:
    """Return the trial with the least left-out log-loss among those within the budget per text, and all trials.

    The first reader is the fallback where none is within the budget.
    """
    trials = []
    for reader in readers:
        reader.read(texts[:1])  # what is loaded once is not the price of a text
        started = perf_counter()
        views = reader.read(texts)
        milliseconds = 1000.0 * (perf_counter() - started) / len(texts)
        fitted = fit_labels(views, answers, gold, own_score, n_classes=n_classes, n_answers=n_answers)
        log_loss = float(-np.log(fitted.left_out[np.arange(len(gold)), gold]).mean())
        trials.append(ReaderTrial(reader=reader, milliseconds=milliseconds, log_loss=log_loss, verifier=fitted))
    affordable = [trial for trial in trials if trial.milliseconds <= budget_ms] or trials[:1]
    return min(affordable, key=lambda trial: trial.log_loss), trials
