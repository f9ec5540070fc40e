"""Hashed n-grams: the counts of a loop over all of them, in buckets that never change."""

from collections import Counter
from zlib import crc32

import numpy as np

from knn_ue.verifying.hashing import N_BUCKETS, character_ngrams, word_ngrams


def slow_characters(text):
    counts = Counter()
    for word in text.lower().split():
        bounded = f" {word} "
        for length in (2, 3, 4, 5):
            for start in range(len(bounded) - length + 1):
                counts[crc32(bounded[start : start + length].encode("utf-32-le")) % N_BUCKETS] += 1
    return counts


def row(counts, number):
    part = slice(counts.starts[number], counts.starts[number + 1])
    return dict(zip(counts.columns[part].tolist(), counts.values[part].tolist(), strict=True))


def test_characters_are_counted_as_a_loop_counts_them():
    texts = ["Refund my order, please", "", "naïve 😂 naïve"]

    counts = character_ngrams(texts)

    assert [row(counts, number) for number in range(3)] == [slow_characters(text) for text in texts]


def test_words_and_pairs_of_words_are_counted():
    counts = word_ngrams(["good good film"])

    expected = {"good": 2, "film": 1, "good good": 1, "good film": 1}
    assert row(counts, 0) == {crc32(text.encode()) % N_BUCKETS: count for text, count in expected.items()}


def test_buckets_are_the_same_on_every_machine():
    assert word_ngrams(["refund"]).columns.tolist() == [5208]


def test_columns_rise_within_a_row():
    counts = character_ngrams(["a long enough text to hash"])

    assert (np.diff(counts.columns) > 0).all()


def test_lone_surrogates_are_read():
    assert len(character_ngrams(["\ud800 x"])) == len(word_ngrams(["\ud800\ud800 x"])) == 1
