"""Given answers as numbers: the classes first, then `other`, then each frequent answer that is no class.

An answer outside the class list ("I don't know", a refusal, an empty string) is an answer too: it is never dropped.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import IntArray, text_tuple

OTHER = "(other)"  # the name of all answers outside the list that are not frequent
# Log-odds that stand for "it did not say how sure it is": those of a stated confidence are at most 13.9.
UNSTATED = 14.5
_ENOUGH = 5  # labeled rows, from which an answer outside the list has a record of its own


def off_list_names(answers: Sequence[str], class_names: Sequence[str]) -> tuple[str, ...]:
    """Return the answers outside the class list that the labeled rows have often enough, most frequent first.

    >>> off_list_names(["yes", "unsure", "unsure", "unsure", "unsure", "unsure", "n/a"], ["yes", "no"])
    ('unsure',)
    """
    known = set(class_names)
    counts = Counter(answer for answer in text_tuple(answers, "answers") if answer not in known)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(name for name, count in ranked if count >= _ENOUGH)


def answer_numbers(answers: Sequence[str], class_names: Sequence[str], off_list: Sequence[str] = ()) -> IntArray:
    """Return the number (n,) of each answer: of its class, of `other` (the number of classes), or of its own.

    >>> answer_numbers(["no", "n/a", "unsure"], ["yes", "no"], ["unsure"]).tolist()
    [1, 2, 3]
    """
    numbers = {name: number for number, name in enumerate(class_names)}
    numbers |= {name: len(class_names) + 1 + place for place, name in enumerate(off_list)}
    return np.array([numbers.get(answer, len(class_names)) for answer in answers], dtype=np.int64)


def n_answers_of(class_names: Sequence[str], off_list: Sequence[str] = ()) -> int:
    """Return how many answers there are: the classes, `other`, and those with a number of their own."""
    return len(class_names) + 1 + len(off_list)
