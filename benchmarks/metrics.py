"""ECE and AURC together against one numpy argsort of the same confidences, in the same run.

    python benchmarks/metrics.py [--rows 1000000 10000000] [--repeats 5] [--json FILE]

The claim: the ratio stays at or below 3, on distinct and on heavily tied confidences.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.metrics import aurc, expected_calibration_error

LIMIT = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    results = []
    print(f"{'rows':>12} {'confidence':>11} {'argsort s':>10} {'ECE s':>8} {'AURC s':>8} {'ratio':>6}  <= {LIMIT:g}")
    for n_rows in arguments.rows:
        rng = np.random.default_rng(0)
        distinct = rng.random(n_rows)
        correct = rng.random(n_rows) < distinct
        for name, confidence in (("random", distinct), ("2 decimals", distinct.round(2))):
            result = {"rows": n_rows, "confidence": name, **measure(confidence, correct, arguments.repeats)}
            results.append(result)
            print(
                f"{n_rows:>12,} {name:>11} {result['argsort']:>10.3f} {result['ece']:>8.3f} {result['aurc']:>8.3f} "
                f"{result['ratio']:>6.2f}  {'yes' if result['ratio'] <= LIMIT else 'NO'}"
            )
    if arguments.json:
        about = {"numpy": np.__version__, "python": platform.python_version(), "machine": platform.machine()}
        arguments.json.write_text(json.dumps({**about, "limit": LIMIT, "results": results}, indent=2) + "\n")


def measure(confidence: FloatArray, correct: BoolArray, repeats: int) -> dict[str, float]:
    """Return the median seconds of each step and the median ratio; the steps take turns, so noise hits all alike."""
    steps: dict[str, Callable[[], object]] = {
        "argsort": lambda: np.argsort(confidence),
        "ece": lambda: expected_calibration_error(confidence=confidence, correct=correct),
        "aurc": lambda: aurc(confidence=confidence, correct=correct),
    }
    rounds = [{name: seconds(step) for name, step in steps.items()} for _ in range(repeats)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in steps}
    return medians | {"ratio": statistics.median((x["ece"] + x["aurc"]) / x["argsort"] for x in rounds)}


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
