"""How long is the walk? Counts the files, functions and depth of `knn-ue fit` and `knn-ue predict`.

A tiny BERT with random weights is fitted and asked in this process, with the default options and a profiler that looks
only at knn_ue. `functions` are those with a name; `names` counts comprehensions and lambdas too, once per file, as a
plain profiler does. The last field is a fingerprint of all scores: it must not change when code is only moved.

    python benchmarks/walk.py [--task text] [--method knn-ue] [--list]

To compare with another version of the library, run this file with its `src` and `tests` on PYTHONPATH.

| version                             | files | functions | names | depth | scores           |
|-------------------------------------|-------|-----------|-------|-------|------------------|
| 1ef81da, before the contracts       | 53    | 308       | 355   | 19    | 19fbb2e795044e6e |
| 7ef4a1a, before this table          | 59    | 444       | 521   | 22    | 19fbb2e795044e6e |
| 87fcd6f, fewer pass-through calls   | 58    | 436       | 509   | 22    | 19fbb2e795044e6e |
| 41a71d9, texts have two poolings    | 58    | 437       | 510   | 22    | 8e33d6b2d8381341 |
| dbb3b86, on another machine         | 58    | 442       | 515   | 22    | 8b73ea2d5daa22e2 |
| cc1140e, before the ground          | 43    | 380       | 446   | 22    | 8b73ea2d5daa22e2 |
| now: SQLite, the verifier, ONNX     | 55    | 443       | 516   | 18    | 8b73ea2d5daa22e2 |

The default features of texts changed on purpose at 41a71d9. Fingerprints depend on the machine and its libraries:
compare them on one machine. Between the last two rows nothing changed, to the last bit:

| task, method            | files, functions at cc1140e | now     | scores           |
|-------------------------|-----------------------------|---------|------------------|
| text, knn-ue-no-label   | 43, 378                     | 55, 442 | 4c687680dfa53569 |
| text, temperature       | 36, 297                     | 49, 360 | 68d8d6aed0181062 |
| text, softmax           | 35, 292                     | 48, 357 | e451ae284abb30f3 |
| text, dac               | 42, 372                     | 54, 437 | 9a65993869bc7e6e |
| text, mahalanobis       | 36, 307                     | 49, 372 | 68d8d6aed0181062 |
| text, density-softmax   | 38, 317                     | 48, 356 | 2e1726537b68522d |
| text, mc-dropout        | 36, 295                     | 49, 360 | 6bfba12f5f12ace6 |
| pair, knn-ue            | 43, 379                     | 55, 443 | a201f4672114506c |
| pair, temperature       | 36, 297                     | 49, 360 | 88771e6baf58b160 |
| pair, dac               | 42, 373                     | 54, 437 | 92962f02ab815322 |
| ner, knn-ue             | 49, 423                     | 61, 485 | 1f8a1c98bd0d8b85 |
| ner, knn-ue-entity      | 55, 486                     | 67, 550 | 97123e09fa1996ad |
| ner, temperature        | 42, 340                     | 55, 402 | 4d67584271a43bf9 |

The walk is longer than at cc1140e, and less deep: an export is tried, a verifier is asked for, parts are checked by a
schema. To shorten it is the issue on the house.
"""

import argparse
import hashlib
import json
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import knn_ue
from cli_files import TASKS, data_of, read_lines, run
from tiny_models import save_tiny_model

OURS = str(Path(knn_ue.__file__).parent)


class Walk:
    """A profiler that counts what of ours is called."""

    def __init__(self) -> None:
        self.functions: Counter[tuple[str, str]] = Counter()
        self.names: set[tuple[str, str]] = set()
        self.depth = self._depth = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(OURS):
            return
        self.names.add((frame.f_code.co_filename, frame.f_code.co_name))
        if frame.f_code.co_name.startswith("<"):  # a comprehension, a lambda: no place one has to open
            return
        if event == "return":
            self._depth -= 1
            return
        self._depth += 1
        self.depth = max(self.depth, self._depth)
        self.functions[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    @property
    def files(self) -> set[str]:
        """The files in which something was called."""
        return {name for name, _ in self.functions}


def scores_in(answer: Any) -> Iterator[float]:
    """Yield every score of an answer, wherever it stands."""
    if isinstance(answer, dict):
        for key in sorted(answer):
            if key in ("score", "raw_score"):
                yield float(answer[key])
            else:
                yield from scores_in(answer[key])
    elif isinstance(answer, list):
        for part in answer:
            yield from scores_in(part)


def fit_and_predict(folder: Path, model: Path, options: argparse.Namespace) -> list[Any]:
    """Run both commands in `folder` and return the answers."""
    folder.mkdir()
    train, validation, test = data_of(options.task, folder)
    ue, output = folder / "ue", folder / "answers.jsonl"
    method = ("--task", options.task, "--method", options.method)
    for command in (
        ("fit", model, "--train", train, "--validation", validation, "--out", ue, *method, "--device", "cpu"),
        ("predict", ue, "--input", test, "--output", output, "--device", "cpu"),
    ):
        result = run(*command)
        if result.exit_code:
            sys.exit(result.output)
    return read_lines(output)


def main() -> None:
    """Fit and predict once, and print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), default="text")
    parser.add_argument("--method", default="knn-ue")
    parser.add_argument("--list", action="store_true", help="name the functions of each file, with their calls")
    options = parser.parse_args()
    walk = Walk()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_tiny_model(folder / "model", family="bert", task=TASKS[options.task])
        fit_and_predict(folder / "first", model, options)  # what is imported on the way is no part of the walk
        sys.setprofile(walk)
        answers = fit_and_predict(folder / "second", model, options)
        sys.setprofile(None)
        scores = list(scores_in(answers))
    digest = hashlib.sha256(struct.pack(f"<{len(scores)}d", *scores)).hexdigest()[:16]
    if options.list:
        for file in sorted(walk.files):
            names = [
                f"{function} {walk.functions[name, function]}"
                for name, function in sorted(walk.functions)
                if name == file
            ]
            print(f"{Path(file).relative_to(OURS)} ({len(names)}): {', '.join(names)}")
    counts = {"files": len(walk.files), "functions": len(walk.functions), "names": len(walk.names)}
    print(json.dumps(counts | {"depth": walk.depth, "n_scores": len(scores), "scores": digest}))


if __name__ == "__main__":
    main()
