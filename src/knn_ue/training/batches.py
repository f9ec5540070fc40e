"""Random batches of similar length: little is padded, and no epoch repeats another's order."""

from collections.abc import Iterator, Sequence

import numpy as np

_SORTED_TOGETHER = 16  # batches; few enough that a batch stays a random draw of its lengths


class LengthBatches:
    """Batches of positions; every walk through them is a new shuffle, the same for the same seed.

    >>> batches = LengthBatches([3, 9, 3, 9], batch_size=2, seed=0)
    >>> sorted(sorted(batch) for batch in batches)
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = self._random.permutation(len(self._lengths))
        span = self._batch_size * _SORTED_TOGETHER
        batches: list[list[int]] = []
        for start in range(0, len(order), span):
            part = order[start : start + span]
            part = part[np.argsort(self._lengths[part], kind="stable")]
            batches += [part[i : i + self._batch_size].tolist() for i in range(0, len(part), self._batch_size)]
        for number in self._random.permutation(len(batches)):
            yield batches[number]
