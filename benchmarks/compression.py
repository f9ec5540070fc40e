"""How small a saved store gets: the paper's 636 MB of 207,000 x 768 vectors, with and without the vectors.

    python benchmarks/compression.py [--rows 207000] [--columns 768] [--json FILE]

What the codes do to the answers is in benchmarks/indexes.py.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from knn_ue import Datastore
from knn_ue.stores import IndexOptions
from timing import random_vectors

FACTORIES = ("PCAR64,IVF512,SQ8", "PCAR64,IVF512,PQ64x4fs", "PCAR64,IVF512,PQ32x4fs", "PCAR64,PQ32x4fs", "PQ32x5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=207_000)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    vectors, _ = random_vectors(arguments.rows, arguments.columns, 1)
    labels = np.random.default_rng(0).integers(9, size=arguments.rows)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        whole = saved_bytes(Datastore.build(vectors, labels), Path(folder) / "exact")
        print(f"{arguments.rows:,} x {arguments.columns}: {whole / 1e6:.1f} MB with its vectors")
        for number, factory in enumerate(FACTORIES):
            options = IndexOptions(factory=factory, recompute=False)
            store = Datastore.build(vectors, labels, index=options, keep_vectors=False)
            n_bytes = saved_bytes(store, Path(folder) / str(number))
            results.append({"factory": factory, "bytes": n_bytes, "times_smaller": whole / n_bytes})
            print(f"{factory:28}{n_bytes / 1e6:8.1f} MB{whole / n_bytes:8.1f}x smaller", flush=True)
    if arguments.json:
        content = {"rows": arguments.rows, "columns": arguments.columns, "bytes": whole, "results": results}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def saved_bytes(store: Datastore, folder: Path) -> int:
    store.save(folder)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
