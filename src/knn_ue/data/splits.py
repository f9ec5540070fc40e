"""Deterministic parts of a data set: the same on every machine and in every version of Python and numpy."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from knn_ue.arrays import check_not_empty
from knn_ue.errors import InvalidInputError

T = TypeVar("T")


def split_rows(rows: Iterable[T], fractions: Sequence[float], *, seed: int) -> tuple[list[T], ...]:
    """Part `rows` at random into as many lists as there are `fractions`, which sum to 1; each keeps the order of rows.

    >>> split_rows("abcdefghij", [0.6, 0.2, 0.2], seed=0)
    (['c', 'd', 'e', 'h', 'i', 'j'], ['a', 'g'], ['b', 'f'])
    """
    items = list(rows)
    check_not_empty(len(items), "rows")
    if any(fraction <= 0 for fraction in fractions) or not math.isclose(sum(fractions), 1.0, abs_tol=1e-9):
        raise InvalidInputError(f"fractions must be above 0 and sum to 1, got {list(fractions)}")
    bounds = [round(share * len(items)) for share in accumulate(fractions, initial=0.0)]
    if any(start == end for start, end in pairwise(bounds)):
        raise InvalidInputError(
            f"{len(items)} rows are too few for the fractions {list(fractions)}, a part would be empty: add rows"
        )
    order = seeded_order(len(items), seed=seed)
    return tuple([items[row] for row in sorted(order[start:end])] for start, end in pairwise(bounds))


def half_of(n_rows: int, *, second: bool, seed: int) -> frozenset[int]:
    """Return the row numbers of one random half; the second has one row more where `n_rows` is odd."""
    order = seeded_order(n_rows, seed=seed)
    middle = n_rows // 2
    return frozenset(order[middle:] if second else order[:middle])


def seeded_order(n_rows: int, *, seed: int) -> list[int]:
    """Return 0 .. n_rows - 1 in the order of the SHA-256 of "seed:row".

    >>> seeded_order(5, seed=0)
    [4, 3, 2, 0, 1]
    """
    # A generator of random numbers may change its stream with a release; a published split must not.
    return sorted(range(n_rows), key=lambda row: hashlib.sha256(f"{seed}:{row}".encode()).digest())
