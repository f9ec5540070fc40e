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

The default features of texts changed on purpose between the last two. Pairs (53 files and 308 functions, now 58 and
437) and taggers (55 and 331, now 64 and 477) have the scores of the first version to the last bit.

So the walk has not become shorter: it does more. 33 of the functions measure and store how familiar an input is
(`familiarity.py`, `pipeline/familiarity.py`, `encoding/views.py`), 9 check the values of a folder
(`storage/schema.py`), 6 look for leaked and too few validation rows (`pipeline/rows.py`); encoding, with 75 instead of
47, finds the task, the pooling and the limits of a model, and verifies the files of the one in a UE folder.
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
