"""Perturbed copies of labeled rows: what a shift-robust fit learns from beside the rows themselves.

Words are dropped, misspelled or replaced by words of other rows, texts are cut or joined with another row of the same
label. Of a pair both texts change, each on its own. The tags of a sentence go with its words; only words outside any
entity are replaced.
"""

from collections.abc import Sequence

import numpy as np

from knn_ue.tasks import TASKS, Task

Words = tuple[str, ...]
Copy = tuple[Words, Words]  # the parts and the labels of a row

KINDS = ("dropped", "typos", "replaced", "cut", "joined")
_SHARE = 0.2  # of the words
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def perturbed_rows(rows: Sequence[Copy], task: Task, *, seed: int = 0) -> list[Copy]:
    """Return one changed copy of each row (parts, labels), in order; the kinds of change take turns.

    >>> perturbed_rows([(("a fine film",), ("pos",))], "text-classification")[0][1]
    ('pos',)
    """
    rng = np.random.default_rng(seed)
    tagging = TASKS[task].is_tagging
    vocabulary = sorted({word for parts, _ in rows for word in (parts if tagging else " ".join(parts).split())})
    by_label: dict[Words, list[int]] = {}
    for number, (_, labels) in enumerate(rows):
        by_label.setdefault(() if tagging else labels, []).append(number)
    copies = []
    for number, (parts, labels) in enumerate(rows):
        kind = KINDS[number % len(KINDS)]
        same = by_label[() if tagging else labels]
        other = rows[same[int(rng.integers(len(same)))]]
        if tagging:
            copies.append(_changed_sentence(parts, labels, other, kind, vocabulary, rng))
            continue
        changed = tuple(
            _changed_text(text, mate, kind, vocabulary, rng) for text, mate in zip(parts, other[0], strict=True)
        )
        copies.append((changed, labels))
    return copies


def _changed_text(text: str, other: str, kind: str, vocabulary: Sequence[str], rng: np.random.Generator) -> str:
    words = text.split()
    if not words:
        return text
    if kind == "joined":
        return f"{text} {other}"
    kept, _ = _changed(words, [False] * len(words), kind, vocabulary, rng)
    return " ".join(word for word in kept if word)


def _changed_sentence(
    words: Words, tags: Words, other: Copy, kind: str, vocabulary: Sequence[str], rng: np.random.Generator
) -> Copy:
    if kind == "joined":
        return words + other[0], tags + other[1]
    changed, kept = _changed(list(words), [tag != "O" for tag in tags], kind, vocabulary, rng)
    return tuple(changed), _repaired([tags[place] for place in kept])


def _changed(
    words: list[str], fixed: list[bool], kind: str, vocabulary: Sequence[str], rng: np.random.Generator
) -> tuple[list[str], list[int]]:
    """Return the words that are left, changed, and their places; where `fixed`, a word is not replaced."""
    places = list(range(len(words)))
    chosen = rng.random(len(words)) < _SHARE
    if kind == "cut":
        size = max(1, len(words) // 2)
        first = int(rng.integers(len(words) - size + 1))
        places = places[first : first + size]
    elif kind == "dropped":
        places = [place for place in places if not chosen[place]] or places[:1]
    elif kind == "typos":
        words = [_misspelled(word, rng) if pick else word for word, pick in zip(words, chosen, strict=True)]
    else:
        drawn = rng.integers(len(vocabulary), size=len(words))
        words = [
            vocabulary[number] if pick and not keep else word
            for word, number, pick, keep in zip(words, drawn.tolist(), chosen, fixed, strict=True)
        ]
    return [words[place] for place in places], places


def _misspelled(word: str, rng: np.random.Generator) -> str:
    """Return a word with one letter dropped, doubled, replaced, or swapped with the next."""
    if len(word) < 2:
        return word
    place, way = int(rng.integers(len(word) - 1)), int(rng.integers(4))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    return (
        before + after,
        before + letter + letter + after,
        before + _LETTERS[int(rng.integers(len(_LETTERS)))] + after,
        before + after[0] + letter + after[1:],
    )[way]


def _repaired(tags: list[str]) -> Words:
    """Return tags in which every entity begins with B, also one whose first word was dropped."""
    repaired: list[str] = []
    for place, tag in enumerate(tags):
        before = repaired[place - 1] if place else "O"
        orphan = tag.startswith("I-") and before[2:] != tag[2:]
        repaired.append(f"B-{tag[2:]}" if orphan else tag)
    return tuple(repaired)
