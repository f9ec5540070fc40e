"""What the answers of a fitted folder cost over those of the plain softmax: the forward pass, and all that follows it.

    python benchmarks/end_to_end.py SOFTMAX_UE UE ... --test F [--rows 300] [--grow 392702] [--json FILE]

The first folder is fitted with `softmax` on the same model; the others with any method. Each round runs all of them in
turn; "over" is the time from outputs to probabilities (search, labels, weight, softmax) as a share of that of the
forward pass, "whole" the ratio of both together to the first folder. Medians of five rounds; a row is a word in NER.
With --grow N ... each method also looks for its neighbors among N vectors (copies of its own, moved a little, searched
by the index that tuning chooses; DAC only up to 20,000, exactly). Run it on an idle machine.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from fitted import some_rows
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.stores import Datastore
from knn_ue.tuning import tune_index

ROUNDS = 5
MOVED = 0.1
MOST_OF_DAC = 20_000


def grown(pipe: UncertaintyPipeline, n_rows: int) -> Any:
    """Return the calibrator with `n_rows` stored, searched by what tuning chooses for them; DAC's exactly."""
    stores = {name: more_of(*store.arrays(), n_rows) for name, store in pipe.calibrator_.stores.items()}
    if len(stores) > 1:
        return pipe.calibrator_.with_stores({name: Datastore.build(*store) for name, store in stores.items()})
    ((name, store),) = stores.items()
    tuning = tune_index(
        *store,
        pipe.validation_,
        n_neighbors=pipe.calibrator_.n_neighbors,
        use_labels=pipe.calibrator_.use_labels,
        scored=scored_answers,
    )
    changed = pipe.calibrator_.with_stores({name: Datastore.build(*store, index=tuning.chosen)})
    return changed.fit(pipe.validation_)


def more_of(vectors: np.ndarray, labels: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = np.concatenate((np.arange(len(vectors)), rng.integers(len(vectors), size=n_rows - len(vectors))))
    more = vectors[rows]
    spread = MOVED * vectors.std(axis=0)
    for start in range(len(vectors), n_rows, 1 << 14):
        block = more[start : start + (1 << 14)]
        block += spread * rng.standard_normal(block.shape, dtype=np.float32)
    return more, labels[rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="UE")
    parser.add_argument("--test", required=True)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--grow", type=int, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    pipes = [UncertaintyPipeline.load(folder, device="cpu") for folder in arguments.folders]
    named: list[tuple[str, UncertaintyPipeline, Any]] = [
        (f"{pipe.method_}{searched(pipe.calibrator_)}", pipe, pipe.calibrator_) for pipe in pipes
    ]
    for n_rows in arguments.grow:
        for pipe in pipes:
            n_stores = len(pipe.calibrator_.stores)
            if n_stores == 1 or (n_stores > 1 and n_rows <= MOST_OF_DAC):
                calibrator = grown(pipe, n_rows)
                named.append((f"{pipe.method_}{searched(calibrator)}", pipe, calibrator))
    rows = some_rows(arguments.test, pipes[0].task, arguments.rows)
    print("measuring", flush=True)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in named}
    for number in range(ROUNDS + 1):
        for name, pipe, calibrator in named:
            began = time.perf_counter()
            outputs = pipe.outputs(rows)
            encoded = time.perf_counter()
            calibrator.predict(outputs)
            if number:  # the first round warms up
                times[name].append((encoded - began, time.perf_counter() - encoded))
    n_rows = len(outputs)
    plain = [sum(pair) for pair in times[named[0][0]]]
    results = []
    print(f"{len(rows)} texts, {n_rows} rows\n{'':82}{'forward ms':>12}{'after ms':>10}{'over':>9}{'whole':>8}")
    for name, pairs in times.items():
        forward, after = (1000 * statistics.median(part) / n_rows for part in zip(*pairs, strict=True))
        over = statistics.median(later / encoding for encoding, later in pairs)
        whole = statistics.median(map(sum, pairs)) / statistics.median(plain)
        results.append({"name": name, "forward_ms": forward, "after_ms": after, "over": over, "whole": whole})
        print(f"{name:82}{forward:12.3f}{after:10.4f}{over:9.2%}{whole:7.2f}x")
    if arguments.json:
        content = {"texts": len(rows), "rows": n_rows, "task": pipes[0].task, "results": results}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def searched(calibrator: Any) -> str:
    stores = list(calibrator.stores.values())
    return f", {len(stores[-1]):,} stored, {stores[-1].options}" if stores else ""


if __name__ == "__main__":
    main()
