"""The inputs that people are asked to label: rows of a file, or the last ones that were asked, in memory only."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Literal

import numpy as np

from knn_ue.encoding import Example

MOST = 20_000  # rows of a file

Source = Literal["file", "recent", "none"]


class Pool:
    """Unlabeled inputs to draw from; `recent` of them are kept as they are asked where no file is given."""

    def __init__(self, rows: Iterable[Example] | None, *, recent: int) -> None:
        self.source: Source = "none" if rows is None and not recent else "recent" if rows is None else "file"
        self._rows: deque[Example] = deque(
            (_bare(row) for row in islice(rows or (), MOST)), maxlen=recent if rows is None else None
        )
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._rows)

    def observe(self, examples: Sequence[Example]) -> None:
        """Remember what was asked, where the operator allowed it."""
        if self.source == "recent":
            with self._lock:
                self._rows.extend(_bare(example) for example in examples)

    def draw(self, n: int, *, seed: int | None = None) -> list[Example]:
        """Return `n` different inputs at random, or all where there are fewer; copies of one count once."""
        with self._lock:
            rows = list(dict.fromkeys(self._rows))
        chosen = np.random.default_rng(seed).permutation(len(rows))[:n]
        return [rows[row] for row in chosen.tolist()]


def _bare(example: Example) -> Example:
    return replace(example, labels=None, domain=None, sample_weight=None)
