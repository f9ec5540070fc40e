"""The same texts by `transformers.pipeline`, a sorted loop in PyTorch, and ours in PyTorch and in ONNX Runtime.

    python benchmarks/backends.py --model MODEL --train F --validation F --texts F --out benchmarks/backends.json

Two folders are fitted, alike but for the backend. Rounds are interleaved; a ratio is the median over rounds of the
sorted loop's time by the other's. `start` is the time of `knn-ue explain` from the shell, `answers` how far the scores
of the two folders are apart.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

BATCH = 32


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train", "validation", "texts", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--n-texts", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    lines = options.texts.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines if line][: options.n_texts]
    with TemporaryDirectory() as place:
        found = measure(options, texts, Path(place))
    print(json.dumps(found, indent=1))
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(options: argparse.Namespace, texts: list[str], place: Path) -> dict[str, Any]:
    """Return times, ratios, starts and the largest difference of two scores."""
    import torch

    from knn_ue import UncertaintyPipeline

    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    torch.set_num_threads(threads)
    pipes = {}
    for backend in ("torch", "onnx"):
        pipe = UncertaintyPipeline.from_pretrained(options.model)
        started = time.perf_counter()
        pipe.fit(options.train, options.validation, backend=backend)
        print(f"fit with {backend}: {time.perf_counter() - started:.1f} s", flush=True)
        pipe.save(place / backend)
        pipes[backend] = UncertaintyPipeline.load(place / backend)
    ways: dict[str, Callable[[], Any]] = {
        "sorted loop": sorted_loop(options.model, texts),
        "transformers.pipeline": of_transformers(options.model, texts),
        "ours, torch": lambda: pipes["torch"](texts),
        "ours, onnx": lambda: pipes["onnx"](texts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
            print(name, f"{seconds[name][-1]:.1f} s", flush=True)
    base = np.array(seconds["sorted loop"])
    scores = {name: np.array([answer.score for answer in pipe(texts)]) for name, pipe in pipes.items()}
    return {
        "threads": threads,
        "n_texts": len(texts),
        "seconds": {name: round(float(np.median(values)), 2) for name, values in seconds.items()},
        "times as fast as the sorted loop": {
            name: round(float(np.median(base / np.array(values))), 2) for name, values in seconds.items()
        },
        "largest difference of a score": float(np.abs(scores["torch"] - scores["onnx"]).max()),
        "seconds of knn-ue explain": {name: start_of(place / name, texts[0]) for name in pipes},
    }


def sorted_loop(model_folder: Path, texts: list[str]) -> Callable[[], None]:
    """Return the plainest good loop: texts sorted by length, padded within each batch."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)

    def run() -> None:
        ordered = sorted(texts, key=len)
        with torch.inference_mode():
            for start in range(0, len(ordered), BATCH):
                batch = ordered[start : start + BATCH]
                model(**tokenizer(batch, padding=True, truncation=True, return_tensors="pt")).logits.softmax(-1)

    return run


def of_transformers(model_folder: Path, texts: list[str]) -> Callable[[], None]:
    """Return the same texts through `transformers.pipeline`."""
    from transformers import pipeline

    pipe = pipeline("text-classification", model=str(model_folder), device="cpu", batch_size=BATCH, truncation=True)
    return lambda: pipe(texts)


def start_of(folder: Path, text: str) -> float:
    """Return the median seconds of `knn-ue explain` in a process of its own."""
    code = "from knn_ue.cli import app; app()"
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, "explain", str(folder), text], check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return round(float(np.median(seconds)), 2)


if __name__ == "__main__":
    main()
