"""The numbers in a faiss factory string, given or read from a folder: faiss believes all of them.

Some end the process ("HNSW0", "PQ4x4fs_0"), some never end ("RR100000,Flat") or take all memory ("IVF50000000,Flat").
What cannot be meant is refused here, before faiss sees it. A folder may name no other kinds than those that are saved.
"""

import math
import re
from collections.abc import Iterator

from knn_ue.errors import InvalidInputError

_MAX_LENGTH = 200
_NUMBER = re.compile(r"([A-Za-z]*_?)([0-9]+)")
# What stands before a number -> what it counts, the least and the most that is meant by it.
_LISTS = ("lists", 1, 1 << 20)
_COLUMNS = ("columns", 1, 1 << 16)
_BITS = ("bits", 1, 16)
_BLOCK = ("rows in a block", 32, 1024)
_LINKS = ("links", 2, 512)
_OTHER = ("this number", 1, 4096)
_MEANING = {
    "IVF": _LISTS,
    **dict.fromkeys(("PCA", "PCAR", "PCAW", "PCAWR", "RR", "ITQ", "Pad", "OPQ", "PQ", "_"), _COLUMNS),
    "x": _BITS,
    **dict.fromkeys(("fs_", "fsr_"), _BLOCK),
    "HNSW": _LINKS,
}
_KINDS = re.compile(r"(?:PCAW?R?|RR|HR|OPQ|ITQ|Pad|L2norm|IVF|HNSW|Flat|SQ|PQ)[^,]*")
_MAX_GRID_BITS = 10  # "IMI2x10" has 2**20 lists
_COLUMNS_ALWAYS_ALLOWED = 1024
_LISTS_PER_ROOT = 64


def check_factory(factory: object) -> None:
    """Raise where a factory string holds a number that no index over any rows can have."""
    if not isinstance(factory, str) or not factory or len(factory) > _MAX_LENGTH:
        raise InvalidInputError(
            f'factory must be a faiss factory string such as "IVF256,SQ8", of up to {_MAX_LENGTH} characters, '
            f"got {str(factory)[:60]!r}"
        )
    if "NSG" in factory:
        raise InvalidInputError(f"faiss may never finish an NSG index, got {factory!r}: choose HNSW")
    for prefix, number in _numbers(factory):
        what, low, high = _MEANING.get(prefix, _OTHER)
        if prefix == "x" and "IMI" in factory:
            high = _MAX_GRID_BITS
        if not low <= number <= high:
            raise InvalidInputError(
                f"numbers in factory must be at least 1, and 2 after HNSW, got {factory!r}: {what} after {prefix!r} "
                f"must be within {low} and {high}"
            )
        if what == _BLOCK[0] and number % low:
            raise InvalidInputError(f"{what} in factory must be a multiple of {low}, got {factory!r}")


def check_stored_factory(factory: str) -> None:
    """Raise where a factory string that was read from a folder is not of a kind that is ever saved."""
    if not all(_KINDS.fullmatch(part) for part in factory.split(",")):
        raise InvalidInputError(f"an index {factory!r} is never saved")


def check_fits(factory: str, n_rows: int | None, n_columns: int, *, way_out: str = "change its numbers") -> None:
    """Raise where an index over `n_rows` (None: not known yet) of `n_columns` cannot be meant to have these numbers."""
    for prefix, number in _numbers(factory):
        what = _MEANING.get(prefix, _OTHER)[0]
        reason = None
        if what == _COLUMNS[0] and number > max(n_columns, _COLUMNS_ALWAYS_ALLOWED):
            reason = f"{number} columns are more than the {n_columns} there are"
        elif n_rows is not None and what == _LISTS[0] and number > max_lists(n_rows):
            reason = f"{number} lists are more than the {max_lists(n_rows)} that so many rows can fill"
        elif n_rows is not None and what == _BITS[0] and 1 << number > n_rows:
            reason = f"{number} bits take {1 << number} rows to learn from"
        if reason is not None:
            rows = "" if n_rows is None else f" from {n_rows} rows"
            raise InvalidInputError(
                f'faiss cannot build {factory!r}{rows} ({reason}): {way_out} or choose a smaller index, such as "exact"'
            )


def max_lists(n_rows: int) -> int:
    """Return how many lists `n_rows` can be parted into: 64 times the root, 4 to 16 times of which is usual.

    >>> max_lists(100), max_lists(1_000_000)
    (100, 64000)
    """
    return min(n_rows, int(_LISTS_PER_ROOT * math.sqrt(n_rows)))


def _numbers(factory: str) -> Iterator[tuple[str, int]]:
    return ((prefix, int(digits)) for prefix, digits in _NUMBER.findall(factory))
