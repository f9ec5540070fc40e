"""Sentences that a judged model marked, as rows: a reader of words made by hand knows what the truth is."""

import numpy as np

from knn_ue.verifying import WordVectors

PEOPLE = ("Ada", "Grace", "Alan", "Emmy", "Kurt", "Rosa")
PLACES = ("Paris", "Oslo", "Lima", "Cairo", "Bern", "Riga")
OTHERS = ("went", "to", "saw", "the", "rain", "in", "and", ".", "slowly", "today")


def read_words(sentences):
    """A vector per word: what it is, with some noise that belongs to the word."""
    words = [word for words in sentences for word in words]
    vectors = np.zeros((len(words), 12), dtype=np.float32)
    for row, word in enumerate(words):
        kind = 0 if word in PEOPLE else 1 if word in PLACES else 2
        noise = np.random.default_rng(sum(map(ord, word))).normal(size=12)
        vectors[row] = np.eye(3, 12)[kind] + 0.1 * noise
    return vectors


READER = WordVectors("by-hand", read_words)


def answered_sentences(n_rows, seed=0, *, confident=False):
    """Rows with tokens, tags and an answer; one mark in three is wrong, and one entity in five is missed."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        person, place = rng.choice(PEOPLE), rng.choice(PLACES)
        tokens = [str(word) for word in (person, *rng.choice(OTHERS, 3), place, *rng.choice(OTHERS, 2))]
        tags = ["B-PER", "O", "O", "O", "B-LOC", "O", "O"]
        marks = []
        for start, kind, wrong in ((0, "PER", "LOC"), (4, "LOC", "PER")):
            luck = rng.random()
            if luck < 0.2:
                continue
            end = start + 1
            if luck < 0.35:
                kind = wrong
            elif luck < 0.5:
                end += 1
            mark = {"start": start, "end": end, "type": kind}
            if confident:
                mark["confidence"] = float(np.clip((0.6 if luck < 0.5 else 0.8) + 0.1 * rng.normal(), 0.01, 0.99))
            marks.append(mark)
        rows.append({"tokens": tokens, "tags": tags, "answer": marks})
    return rows
