"""How the cost of a query grows with the rows, the columns, the neighbors and the batch.

    python benchmarks/growth.py [--most-rows 1000000] [--json benchmarks/growth.json]

Random vectors around 200 centers; the exact search, the bare matrix product beside it, and the codes that `auto` likes
to choose. Milliseconds a query, median of five. Run it on an idle machine with 4 GB of free memory.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import Datastore
from knn_ue.stores import IndexOptions
from timing import median_ms

REPEATS = 5
DEFAULTS = {"rows": 100_000, "columns": 384, "neighbors": 32, "batch": 256}
SWEEPS: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "columns": (128, 256, 384, 768, 1024),
    "neighbors": (8, 16, 32, 64, 128),
    "batch": (1, 4, 16, 64, 256, 1024),
}


def clustered(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).standard_normal((200, n_columns), dtype=np.float32)
    vectors = np.empty((n_rows, n_columns), dtype=np.float32)
    for start in range(0, n_rows, 1 << 16):
        block = vectors[start : start + (1 << 16)]
        block[:] = 0.5 * rng.standard_normal(block.shape, dtype=np.float32)
        block += centers[rng.integers(200, size=len(block))]
    return vectors


def measure(rows: int, columns: int, neighbors: int, batch: int) -> dict[str, Any]:
    vectors, queries = clustered(rows, columns, 1), clustered(1024, columns, 2)
    labels = np.zeros(rows, dtype=np.int64)
    n_lists = 2 ** round(math.log2(math.sqrt(rows)))
    codes = IndexOptions(factory=f"PCA64,IVF{n_lists},PQ32x4fs", n_probe=1, recompute=False)
    exact = Datastore.build(vectors, labels)
    coded = Datastore.build(vectors, labels, index=codes)
    few = queries if batch > 16 else queries[: 16 * batch]
    return {
        "rows": rows,
        "columns": columns,
        "neighbors": neighbors,
        "batch": batch,
        "exact_ms": median_ms(lambda part: exact.search(part, neighbors), few, batch=batch, repeats=REPEATS),
        "product_ms": median_ms(lambda part: part @ vectors.T, few, batch=min(batch, 256), repeats=REPEATS),
        "codes": codes.factory,
        "codes_ms": median_ms(lambda part: coded.search(part, neighbors), few, batch=batch, repeats=REPEATS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    for name, values in SWEEPS.items():
        fixed = ", ".join(f"{key} {value:,}" for key, value in DEFAULTS.items() if key != name)
        print(f"\n{fixed}\n{name:>12}{'exact':>10}{'product':>10}{'ratio':>8}{'codes':>10}{'faster':>9}")
        for value in values:
            if name == "rows" and value > arguments.most_rows:
                continue
            found = measure(**{**DEFAULTS, name: value})
            results.append({"sweep": name, **found})
            print(
                f"{value:12,}{found['exact_ms']:10.4f}{found['product_ms']:10.4f}"
                f"{found['exact_ms'] / found['product_ms']:7.2f}x{found['codes_ms']:10.4f}"
                f"{found['exact_ms'] / found['codes_ms']:8.1f}x",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
