"""Milvus beside our own indexes, and Ray beside one process: run on an idle machine with both engines started.

python tests/engines.py start FOLDER --milvus VENV && source FOLDER/env
python benchmarks/engines.py milvus --rows 100000 --out benchmarks/engines_milvus.json
python benchmarks/engines.py ray UE ROWS.jsonl --out benchmarks/engines_ray.json
"""

import argparse
import json
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.calibrators import KnnUE
from knn_ue.metrics import e_aurc, expected_calibration_error
from knn_ue.stores import Datastore, MilvusStore, NeighborStore
from knn_ue.types import Outputs

K, N_CLASSES, BATCH = 32, 8, 256


def clusters(n_rows: int, seed: int, *, n_columns: int = 384) -> Outputs:
    """Return features around class centers, and logits of a model that is too sure of itself."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(N_CLASSES, n_columns)) * 0.35
    labels = rng.integers(0, N_CLASSES, n_rows)
    features = (centers[labels] + rng.normal(size=(n_rows, n_columns))).astype(np.float32)
    logits = 3 * (features @ centers.T.astype(np.float32)) / n_columns**0.5
    return Outputs(features=features, logits=logits, labels=labels)


def measure(store: NeighborStore, exact: Any, validation: Outputs, test: Outputs) -> dict[str, float]:
    """Return milliseconds per query in batches and alone, recall, and what kNN-UE makes of it."""
    features = test.require_features("benchmark")
    store.search(features[:BATCH], K)
    began = time.perf_counter()
    found = np.vstack([store.search(features[at : at + BATCH], K).ids for at in range(0, len(features), BATCH)])
    batched = (time.perf_counter() - began) / len(features)
    began = time.perf_counter()
    for row in range(50):
        store.search(features[row : row + 1], K)
    single = (time.perf_counter() - began) / 50
    prediction = KnnUE(store, n_neighbors=K).fit(validation).predict(test)
    correct = prediction.predicted == test.labels
    hits = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(found, exact, strict=True)]
    return {
        "ms_batched": 1000 * batched,
        "ms_single": 1000 * single,
        "recall": float(np.mean(hits)) / K,
        "ece": expected_calibration_error(probs=prediction.probs, labels=test.require_labels("benchmark")),
        "e_aurc": e_aurc(confidence=prediction.confidence, correct=correct),
    }


def milvus(n_rows: int) -> dict[str, Any]:
    train, validation, test = clusters(n_rows, 0), clusters(1000, 1), clusters(1024, 2)
    features, labels = train.require_features("benchmark"), train.require_labels("benchmark")
    ours = Datastore.build(features, labels)
    exact = ours.search(test.require_features("benchmark"), K).ids
    found: dict[str, Any] = {"rows": n_rows, "columns": features.shape[1], "neighbors": K}
    found["datastore exact"] = measure(ours, exact, validation, test)
    found["datastore auto"] = measure(Datastore.build(features, labels, index="auto"), exact, validation, test)
    for index in ("flat", "hnsw", "ivf_sq8"):
        address = f"milvus://{os.environ['KNN_UE_TEST_MILVUS']}/bench_{secrets.token_hex(4)}"
        began = time.perf_counter()
        store = MilvusStore.build(address, features, labels, index=index)
        seconds = time.perf_counter() - began
        for level in ("session", "strong"):
            opened = MilvusStore.open(f"{address}?consistency={level}&timeout=60")
            measured = measure(opened, exact, validation, test)
            found[f"milvus {index} {level}"] = measured | {"ingest_rows_per_second": n_rows / seconds}
        MilvusStore.drop(store.where)
    return found


def ray(ue: Path, rows: Path) -> dict[str, Any]:
    """Return rows per second of one process and of 1 and 2 workers, from the first finished part to the last."""
    from knn_ue.distributed import predict_files
    from knn_ue.pipeline import UncertaintyPipeline

    pipe = UncertaintyPipeline.load(ue, device="cpu")
    began = time.perf_counter()
    n_rows = sum(1 for _ in pipe.predict_stream(str(rows)))
    found: dict[str, Any] = {"rows": n_rows, "plain": n_rows / (time.perf_counter() - began)}
    for workers in (1, 2):
        marks: list[tuple[float, int]] = []
        with tempfile.TemporaryDirectory() as folder:
            predict_files(
                ue,
                [rows],
                Path(folder) / "out",
                workers=workers,
                part_rows=max(1, n_rows // 40),
                device="cpu",
                progress=lambda _name, done, _all, marks=marks: marks.append((time.perf_counter(), done)),
            )
        found[f"ray {workers}"] = (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])
        found[f"ray {workers} per worker of plain"] = found[f"ray {workers}"] / workers / found["plain"]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("milvus")
    one.add_argument("--rows", type=int, default=100_000)
    two = commands.add_parser("ray")
    two.add_argument("ue", type=Path)
    two.add_argument("rows", type=Path)
    for command in (one, two):
        command.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = milvus(options.rows) if options.command == "milvus" else ray(options.ue, options.rows)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
