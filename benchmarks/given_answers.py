"""How fast are given answers scored, and does memory stay flat? In one run, one thread, beside named peers.

    OMP_NUM_THREADS=1 python benchmarks/given_answers.py [--rows 20000] [--labeled 200] [--json FILE]

The rows are the recorded answers that ship with the library (messages to a bank, 12 words on the mean), over and over,
each with a number of its own. CPU seconds are counted, so that other work on the machine does not matter much; ratios
are to scikit-learn's logistic regression of right or wrong on TF-IDF of words and characters and the answer.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from knn_ue.demo.answers_demo import recorded_answers
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.verifying import InstantReader

Row = dict[str, Any]


def rows_of(n_rows: int) -> Iterator[Row]:
    """Yield rows with answers, no two alike."""
    recorded = recorded_answers()
    for number in range(n_rows):
        row = recorded[number % len(recorded)]
        yield {**row, "id": number, "text": f"{row['text']} {number}"}


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that some work took."""
    began = time.process_time()
    work()
    return time.process_time() - began


def regression(labeled: list[Row]) -> Any:
    """Return the peer, fitted on the same labeled rows: right or wrong by the text's TF-IDF and the answer."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = ColumnTransformer(
        [
            ("words", TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), 0),
            ("characters", TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True), 0),
            ("answer", OneHotEncoder(handle_unknown="ignore"), [1]),
        ]
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(
        table(labeled), [row["answer"] == row["label"] for row in labeled]
    )


def table(rows: list[Row]) -> Any:
    """Return text and answer as an array of two columns."""
    import numpy as np

    return np.array([[row["text"], row["answer"]] for row in rows], dtype=object)


def in_process(rows: list[Row], labeled: list[Row]) -> dict[str, float]:
    """Return CPU seconds of each way to score the rows, and of fitting."""
    fitted: list[UncertaintyPipeline] = []
    fit = cpu_seconds(lambda: fitted.append(UncertaintyPipeline.from_answers().fit(labeled)))
    pipe, peer = fitted[0], regression(labeled)
    texts, reader = [row["text"] for row in rows], InstantReader()
    list(pipe.predict_stream(labeled, top=0))  # what is loaded once is not the price of a row
    return {
        "fit": fit,
        "reader alone, one text at a time": cpu_seconds(lambda: [reader.read([text]) for text in texts[:1000]])
        * len(texts)
        / 1000,
        "reader alone": cpu_seconds(lambda: [reader.read(texts[at : at + 4096]) for at in range(0, len(texts), 4096)]),
        "scikit-learn regression": cpu_seconds(lambda: peer.predict_proba(table(rows))),
        "knn-ue predict_stream": cpu_seconds(lambda: sum(1 for _ in pipe.predict_stream(rows, top=0))),
    }


def command(n_rows: int, ue: Path, place: Path) -> dict[str, float]:
    """Return CPU seconds and the largest memory of `knn-ue predict` on a file of so many rows."""
    source, target = place / "in.jsonl", place / "out.jsonl"
    with source.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({k: v for k, v in row.items() if k != "label"}) + "\n" for row in rows_of(n_rows))
    code = (
        "import resource, sys; from knn_ue.cli.main import app\n"
        "try:\n    app()\nfinally:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    arguments = ["predict", str(ue), "--input", str(source), "--output", str(target), "--top", "0", "--overwrite"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env={**os.environ}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": n_rows, "cpu_seconds": seconds, "peak_mib": int(done.stderr.split()[-1]) / 1024}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--labeled", type=int, default=200)
    parser.add_argument("--commands", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    everything = list(rows_of(options.rows + options.labeled))
    labeled, rows = everything[: options.labeled], everything[options.labeled :]
    seconds = in_process(rows, labeled)
    print(f"fitted on {options.labeled} rows in {seconds['fit']:.2f} CPU seconds")
    peer = seconds["scikit-learn regression"]
    for name, taken in seconds.items():
        if name != "fit":
            print(f"{name}: {len(rows) / taken:,.0f} rows a second, {taken / peer:.2f} x the peer")
    commands = []
    with TemporaryDirectory() as folder:
        place = Path(folder)
        UncertaintyPipeline.from_answers().fit(labeled).save(place / "ue")
        for n_rows in options.commands:
            commands.append(command(n_rows, place / "ue", place))
            last = commands[-1]
            rate = n_rows / last["cpu_seconds"]
            print(f"knn-ue predict, {n_rows:,} rows: {rate:,.0f} a CPU second, at most {last['peak_mib']:.0f} MiB")
    if options.json is not None:
        found = {"labeled": options.labeled, "rows": options.rows, "cpu_seconds": seconds, "commands": commands}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
