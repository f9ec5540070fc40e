"""Sentences to be tagged -> pieces: where each word begins, and how a long sentence is cut so that no word is lost.

A sentence becomes as many overlapping windows as it needs: every word gets a row, from the window in which it has most
context.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from knn_ue.arrays import IntArray
from knn_ue.encoding.forward import Piece, Pieces, TokenIds, unknown_id
from knn_ue.encoding.inputs import Example
from knn_ue.errors import InvalidInputError


def tagging_pieces(tokenizer: Any, examples: Sequence[Example], *, capacity: int) -> Pieces:
    """Tokenize sentences into pieces of at most `capacity` sub-words; output rows are numbered from 0, one per word."""
    with_words = [example.parts for example in examples if example.parts]
    if not with_words:
        return Pieces([], 0, 0)
    # Longer than the model reads is right here, since windows follow: verbose=False silences the tokenizer's warning.
    encoded = tokenizer([list(words) for words in with_words], is_split_into_words=True, verbose=False)
    pieces: list[Piece] = []
    n_rows = 0
    for number, words in enumerate(with_words):
        sentence = {name: list(encoded[name][number]) for name in encoded if name != "attention_mask"}
        pieces += _sentence_pieces(tokenizer, sentence, encoded.word_ids(number), len(words), n_rows, capacity)
        n_rows += len(words)
    return Pieces(pieces, n_rows, 0)


def _sentence_pieces(
    tokenizer: Any, sentence: TokenIds, word_ids: Sequence[int | None], n_words: int, row: int, capacity: int
) -> Iterator[Piece]:
    inner = [position for position, word in enumerate(word_ids) if word is not None]
    # Special tokens stand in front of the words and behind them, and each window gets both.
    front, back = (inner[0], inner[-1] + 1) if inner else _empty_split(tokenizer, sentence["input_ids"])
    ids, word_of = with_every_word(
        [sentence["input_ids"][position] for position in inner],
        [word for word in word_ids if word is not None],
        n_words=n_words,
        unknown_id=unknown_id(tokenizer),
    )
    first, last = word_spans(word_of)
    windows = cut_windows(len(ids), capacity=capacity)
    chosen = best_windows(first, last, windows, length=len(ids))
    for window, (start, stop) in enumerate(windows):
        words = np.flatnonzero(chosen == window)
        if len(words):
            # Within one sequence every other input, such as the token type, is the same for all words.
            middle = {name: [values[front] if inner else 0] * (stop - start) for name, values in sentence.items()}
            middle["input_ids"] = ids[start:stop]
            inputs = {name: values[:front] + middle[name] + values[back:] for name, values in sentence.items()}
            yield Piece(inputs, row + words, front + first[words] - start)


def _empty_split(tokenizer: Any, special: Sequence[int]) -> tuple[int, int]:
    # No word left a trace: what is there are the special tokens, the closing ones from the separator on.
    split = special.index(tokenizer.sep_token_id) if tokenizer.sep_token_id in special else len(special)
    return split, split


def with_every_word(
    ids: Sequence[int], word_of: Sequence[int], *, n_words: int, unknown_id: int
) -> tuple[list[int], list[int]]:
    """Return sub-words in which every word has at least one: `unknown_id` stands for a word that produced none.

    `word_of` names the word of each sub-word, in rising order. Zero-width characters, control characters and the
    empty string are words without sub-words.

    >>> with_every_word([7, 8, 9], [0, 0, 2], n_words=4, unknown_id=1)
    ([7, 8, 1, 9, 1], [0, 0, 1, 2, 3])
    """
    present = set(word_of)
    if len(present) == n_words:
        return list(ids), list(word_of)
    pairs = list(zip(word_of, ids, strict=True))
    pairs += [(word, unknown_id) for word in range(n_words) if word not in present]
    pairs.sort(key=lambda pair: pair[0])  # stable: the sub-words of one word keep their order
    return [subword for _, subword in pairs], [word for word, _ in pairs]


def word_spans(word_of: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the positions of the first and of the last sub-word of each word.

    >>> word_spans([0, 0, 1, 2, 2])
    (array([0, 2, 3]), array([1, 2, 4]))
    """
    words = np.asarray(word_of, dtype=np.int64)
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    return starts, np.append(starts[1:], len(words))[: len(starts)] - 1


def cut_windows(length: int, *, capacity: int) -> list[tuple[int, int]]:
    """Return the (start, stop) of overlapping windows over `length` sub-words, each of at most `capacity`.

    Neighboring windows share at least a quarter of the capacity; the last one ends at the end and is as full as the
    others.

    >>> cut_windows(10, capacity=4)
    [(0, 4), (3, 7), (6, 10)]
    """
    if capacity < 1:
        raise InvalidInputError(f"a window must hold at least 1 sub-word, got {capacity}: raise max_length")
    if length <= capacity:
        return [(0, length)]
    step = capacity - capacity // 4
    starts = [*range(0, length - capacity, step), length - capacity]
    return [(start, start + capacity) for start in starts]


def best_windows(first: IntArray, last: IntArray, windows: Sequence[tuple[int, int]], *, length: int) -> IntArray:
    """Return, for each word, the window in which it has most context; the earlier one among equals.

    `first` and `last` are the word's sub-words. Context is the number of sub-words to the nearer end of the window;
    an end that is the sentence's own end takes nothing away.

    >>> best_windows(np.array([0, 3, 9]), np.array([0, 3, 9]), [(0, 4), (3, 7), (6, 10)], length=10)
    array([0, 0, 2])
    """
    far = 2 * length
    best = np.zeros(len(first), dtype=np.int64)
    most = np.full(len(first), -far, dtype=np.int64)  # a word longer than any window has less than none
    for number, (start, stop) in enumerate(windows):
        inside = slice(*np.searchsorted(first, (start, stop)))
        before = first[inside] - start if start else far
        after = stop - 1 - last[inside] if stop < length else far
        context = np.minimum(before, after)
        better = context > most[inside]
        best[inside] = np.where(better, number, best[inside])
        most[inside] = np.where(better, context, most[inside])
    return best


def word_in_context(words: Sequence[str], position: int, *, width: int) -> str:
    """Return the word between up to `width` words on each side, itself in brackets; the bare word at width 0.

    >>> word_in_context(["EU", "rejects", "German", "call"], 2, width=1)
    'rejects [German] call'
    """
    if width == 0:
        return words[position]
    before = words[max(0, position - width) : position]
    return " ".join([*before, f"[{words[position]}]", *words[position + 1 : position + 1 + width]])
