"""Counts of hashed character n-grams and words: texts -> sparse rows, nothing learned, no vocabulary to keep."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from zlib import crc32

import numpy as np

from knn_ue.verifying.views import SparseRows

N_BUCKETS = 1 << 18
_MASK = N_BUCKETS - 1
_SHORTEST, _LONGEST = 2, 5
_CACHED_WORDS = 1 << 16
_LONGEST_WORD = 64  # letters; what is longer is a link or noise, and its beginning tells as much
_MAX_LETTERS = 1 << 16
_WORDS = re.compile(r"\w\w+|[^\w\s]")


def character_ngrams(texts: Sequence[str]) -> SparseRows:
    """Return how often each n-gram of 2 to 5 letters within a word occurs, (n, 2^18); a word's ends are letters too.

    >>> character_ngrams(["go", "Go go"]).values.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _counted(_character_buckets(text[:_MAX_LETTERS].lower()) for text in texts)


def word_ngrams(texts: Sequence[str]) -> SparseRows:
    """Return how often each word and each pair of neighboring words occurs, (n, 2^18)."""
    return _counted(_word_buckets(text[:_MAX_LETTERS].lower()) for text in texts)


def _character_buckets(text: str) -> list[int]:
    return [bucket for word in text.split() for bucket in _buckets_in(word)]


def _word_buckets(text: str) -> list[int]:
    words = _WORDS.findall(text)
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    return [crc32(ngram.encode("utf-8", "replace")) & _MASK for ngram in words + pairs]


@lru_cache(_CACHED_WORDS)
def _buckets_in(word: str) -> tuple[int, ...]:
    bounded = f" {word[:_LONGEST_WORD]} ".encode("utf-32-le", "replace")
    lengths = range(_SHORTEST * 4, _LONGEST * 4 + 4, 4)  # four bytes are a letter
    spans = ((start, start + length) for length in lengths for start in range(0, len(bounded) - length + 4, 4))
    return tuple(crc32(bounded[start:end]) & _MASK for start, end in spans)


def _counted(rows: Iterable[list[int]]) -> SparseRows:
    buckets = list(rows)
    of_row = np.repeat(np.arange(len(buckets), dtype=np.int64), [len(row) for row in buckets])
    flat = np.fromiter(chain.from_iterable(buckets), dtype=np.int64, count=len(of_row))
    found, counts = np.unique(of_row * N_BUCKETS + flat, return_counts=True)
    return SparseRows(
        starts=np.searchsorted(found, np.arange(len(buckets) + 1, dtype=np.int64) * N_BUCKETS),
        columns=found & _MASK,
        values=counts.astype(np.float32),
        n_columns=N_BUCKETS,
    )
