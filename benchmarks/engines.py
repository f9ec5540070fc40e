"""Milvus beside our own indexes, and Ray beside one process, with both engines started.

python tests/engines.py start ENGINES --milvus VENV && source ENGINES/env
OMP_NUM_THREADS=1 python benchmarks/engines.py milvus ENGINES --rows 100000 --out benchmarks/engines_milvus.json
OMP_NUM_THREADS=1 python benchmarks/engines.py ray UE ROWS.jsonl --out benchmarks/engines_ray.json

Processor time (client and server together) is reported beside wall-clock time: on a machine that others use, only the
first can be compared.
"""

import argparse
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.calibrators import KnnUE
from knn_ue.metrics import e_aurc, expected_calibration_error
from knn_ue.stores import Datastore, MilvusStore, NeighborStore
from knn_ue.types import Outputs

K, N_CLASSES, BATCH, N_LATENT, N_COLUMNS, N_SINGLE = 32, 8, 256, 24, 384, 50


def clusters(n_rows: int, seed: int) -> Outputs:
    """Return features of 24 latent directions in 384 columns, and logits of a model that is too sure of itself."""
    rng, shared = np.random.default_rng(seed), np.random.default_rng(99)
    centers = 0.5 * shared.normal(size=(N_CLASSES, N_LATENT))
    mixing = shared.normal(size=(N_LATENT, N_COLUMNS)) / N_LATENT**0.5
    labels = rng.integers(0, N_CLASSES, n_rows)
    latent = centers[labels] + rng.normal(size=(n_rows, N_LATENT))
    features = latent @ mixing + 0.1 * rng.normal(size=(n_rows, N_COLUMNS))
    logits = 2 * (latent @ centers.T - 0.5 * (centers**2).sum(axis=1)) + rng.normal(size=(n_rows, N_CLASSES))
    return Outputs(features=features.astype(np.float32), logits=logits, labels=labels)


def cpu_of(pids: Iterable[int]) -> float:
    """Return the processor seconds of other processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def processes(found: Callable[[Path], bool]) -> list[int]:
    """Return the processes whose folder in /proc meets a condition."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and found(entry):
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids


class Clock:
    """Wall-clock and processor time of a block, in this process and in `pids`."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)

    def __enter__(self) -> "Clock":
        self._began = time.perf_counter(), time.process_time() + cpu_of(self._pids)
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._began[0]
        self.cpu = time.process_time() + cpu_of(self._pids) - self._began[1]


def settle(pids: list[int]) -> None:
    """Return when the server has finished what it does in the background after a build, or after two minutes."""
    for _ in range(60):
        before = cpu_of(pids)
        time.sleep(2)
        if cpu_of(pids) - before < 0.4:
            return


def measure(
    store: NeighborStore, exact: Any, validation: Outputs, test: Outputs, pids: Iterable[int]
) -> dict[str, float]:
    """Return milliseconds per query in batches and alone, recall, and what kNN-UE makes of it."""
    features = test.require_features("benchmark")
    store.search(features[:BATCH], K)
    with Clock(pids) as batched:
        found = np.vstack([store.search(features[at : at + BATCH], K).ids for at in range(0, len(features), BATCH)])
    with Clock(pids) as single:
        for row in range(N_SINGLE):
            store.search(features[row : row + 1], K)
    prediction = KnnUE(store, n_neighbors=K).fit(validation).predict(test)
    correct = prediction.predicted == test.labels
    hits = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(found, exact, strict=True)]
    return {
        "ms_batched": 1000 * batched.wall / len(features),
        "cpu_ms_batched": 1000 * batched.cpu / len(features),
        "ms_single": 1000 * single.wall / N_SINGLE,
        "cpu_ms_single": 1000 * single.cpu / N_SINGLE,
        "recall": float(np.mean(hits)) / K,
        "ece": expected_calibration_error(probs=prediction.probs, labels=test.require_labels("benchmark")),
        "e_aurc": e_aurc(confidence=prediction.confidence, correct=correct),
    }


def milvus(engines: Path, n_rows: int) -> dict[str, Any]:
    train, validation, test = clusters(n_rows, 0), clusters(1000, 1), clusters(1024, 2)
    features, labels = train.require_features("benchmark"), train.require_labels("benchmark")
    server = processes(lambda entry: (entry / "cwd").readlink() == (engines / "milvus").absolute())
    found: dict[str, Any] = {"rows": n_rows, "columns": N_COLUMNS, "neighbors": K, "load": os.getloadavg()[0]}
    exact = None
    for index in ("exact", "auto"):
        with Clock([]) as building:
            ours = Datastore.build(features, labels, index=index)
        if exact is None:
            exact = ours.search(test.require_features("benchmark"), K).ids
        measured = measure(ours, exact, validation, test, [])
        found[f"datastore {index}"] = measured | _ingest(n_rows, building)
    for index in ("flat", "hnsw", "ivf_sq8"):
        address = f"milvus://{os.environ['KNN_UE_TEST_MILVUS']}/bench_{secrets.token_hex(4)}"
        with Clock(server) as building:
            store = MilvusStore.build(address, features, labels, index=index)
        settle(server)
        for level in ("session", "strong"):
            opened = MilvusStore.open(f"{address}?consistency={level}&timeout=300")
            measured = measure(opened, exact, validation, test, server)
            found[f"milvus {index} {level}"] = measured | _ingest(n_rows, building)
        MilvusStore.drop(store.where)
    return found


def _ingest(n_rows: int, building: Clock) -> dict[str, float]:
    return {"rows_per_second": n_rows / building.wall, "rows_per_cpu_second": n_rows / building.cpu}


def plain(ue: Path, rows: Path, ready: Any = None) -> tuple[int, float, float]:
    """Return the rows that one process answers and writes, per second and per processor second, its model loaded."""
    from knn_ue.data import read_rows
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.answers import answer_line

    pipe = UncertaintyPipeline.load(ue, device="cpu")
    lines = list(read_rows(rows, task=pipe.task, labeled=False))
    list(pipe.predict_stream(lines[:256]))
    if ready is not None:
        ready.wait()
    with Clock([]) as clock, tempfile.TemporaryFile() as file:
        for line, answer in zip(lines, pipe.predict_stream(lines), strict=True):
            file.write(answer_line(line, answer.to_dict()))
    return len(lines), len(lines) / clock.wall, len(lines) / clock.cpu


def plain_at_once(ue: Path, rows: Path, n_processes: int) -> float:
    """Return the rows per second of one of `n_processes` plain processes that run side by side."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(n_processes, mp_context=context) as pool:
        barrier = manager.Barrier(n_processes)
        running = [pool.submit(plain, ue, rows, barrier) for _ in range(n_processes)]
        return float(np.mean([process.result()[1] for process in running]))


def ray(ue: Path, rows: Path, address: str | None) -> dict[str, Any]:
    """Return rows per second, and per processor second, of plain processes and of 1 and 2 workers, models loaded.

    Two workers share a machine with each other, so their peers are two plain processes at once.
    """
    from knn_ue.distributed import predict_files

    def pids() -> list[int]:
        return processes(lambda entry: (entry / "cmdline").read_bytes().startswith(b"ray::_answer"))

    n_rows, rate, cpu_rate = plain(ue, rows)
    found: dict[str, Any] = {"rows": n_rows, "load": os.getloadavg()[0]}
    found |= {"plain": rate, "plain per cpu second": cpu_rate, "plain, one of two": plain_at_once(ue, rows, 2)}
    for workers in (1, 2):
        marks: list[tuple[float, float, int]] = []
        with tempfile.TemporaryDirectory() as folder:
            predict_files(
                ue,
                [rows],
                Path(folder) / "out",
                address=address,
                workers=workers,
                part_rows=max(1, n_rows // 20),
                device="cpu",
                progress=lambda _name, done, _all, marks=marks: marks.append(
                    (time.perf_counter(), cpu_of(pids()), done)
                ),
            )
        # From the second part of each worker on: the first one warms up.
        (began, cpu_before, n_before), (ended, cpu_after, n_after) = marks[2 * workers - 1], marks[-1]
        rate, cpu_rate = (n_after - n_before) / (ended - began), (n_after - n_before) / (cpu_after - cpu_before)
        found[f"ray {workers}"], found[f"ray {workers} per cpu second"] = rate, cpu_rate
        found[f"ray {workers} per worker of plain"] = rate / workers / found["plain"]
        if workers == 2:
            found["ray 2 per worker of one of two plain"] = rate / workers / found["plain, one of two"]
        found[f"ray {workers} per cpu second of plain"] = cpu_rate / found["plain per cpu second"]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("milvus")
    one.add_argument("engines", type=Path, help="the folder given to tests/engines.py start")
    one.add_argument("--rows", type=int, default=100_000)
    two = commands.add_parser("ray")
    two.add_argument("ue", type=Path)
    two.add_argument("rows", type=Path)
    two.add_argument("--address", help="a running cluster (default: one is started)")
    for command in (one, two):
        command.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.command == "milvus":
        result = milvus(options.engines, options.rows)
    else:
        result = ray(options.ue, options.rows, options.address)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
