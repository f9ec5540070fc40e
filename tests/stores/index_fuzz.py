"""Run by test_hostile_index.py in a process of its own: read mutated faiss files and search what was read.

Every mutation must be refused with a StorageError or do no harm. Memory and time are limited, so that a giant
allocation or a hang ends the process, as a crash of faiss does.
"""

import random
import resource
import signal
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

from knn_ue.errors import StorageError
from knn_ue.stores.faiss_index import IndexOptions, read_index
from knn_ue.stores.segment import build_index

N_ROWS = 600
NUMBERS = [-(2**62), -(2**31), -1, 0, 1, 2, 255, N_ROWS, N_ROWS + 1, 65536, 2**31 - 1, 2**40, 2**62]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Flip bits, set bytes, plant awkward numbers or drop bytes, mostly near the start where the sizes are."""
    result, kind = bytearray(content), rng.randrange(5)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(min(len(result), 400) if rng.random() < 0.6 else len(result))
        if kind == 0:
            result[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            result[place] = rng.randrange(256)
        elif kind == 2:
            number = struct.pack("<q", rng.choice(NUMBERS))[: rng.choice([4, 8])]
            result[place : place + len(number)] = number[: len(result) - place]
        elif kind == 3:
            number = struct.pack("<q", rng.choice(NUMBERS))
            result[place - place % 4 : place - place % 4 + 8] = number[: len(result) - place + place % 4]
        else:
            del result[place : place + rng.randrange(1, 9)]
    return bytes(result)


def fuzz(factory: str, n_times: int) -> str:
    rng = random.Random(factory)
    vectors = np.random.default_rng(0).normal(size=(N_ROWS, 16)).astype(np.float32)
    queries, excluded = vectors[:4] + np.float32(0.01), np.arange(N_ROWS) % 2 == 0
    options = IndexOptions(factory=factory)
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        build_index(vectors, options).write(path)
        content = path.read_bytes()
        for number in range(n_times):
            print(f"{factory} {number}", file=sys.stderr, flush=True)  # noqa: T201 (what the process died of)
            path.write_bytes(mutated(content, rng))
            signal.alarm(30)
            try:
                index = read_index(path, vectors.shape, vectors, options)
                index.search(queries, 5)
                index.search(queries, 40, excluded)
            except StorageError:
                refused += 1
            signal.alarm(0)
    return f"{factory}: {refused} of {n_times} refused"


def main(n_times: int, *factories: str) -> None:
    import faiss

    faiss.omp_set_num_threads(1)
    with Path("/proc/self/statm").open() as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), used + (1 << 29)))
    for factory in factories:
        print(fuzz(factory, n_times), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
