"""KnnUEClassifier against CalibratedClassifierCV, on TF-IDF and on MiniLM embeddings, both with LogisticRegression.

    python benchmarks/sklearn_peers.py [--seeds 5] [--data DIR] [--json FILE]

Each seed splits 4,000 rows of one source, 2,000 to train and up to 2,000 to test; 1,000 rows of another source
are the test under shift. Everything is fitted on the training rows alone, with 5 folds. CalibratedClassifierCV averages
five models (its default) or uses one model fitted on all rows ("one model", ensemble=False), as KnnUEClassifier does.
The sources are VADER's sets; with --data also IMDB, with DynaSent's Yelp sentences as the shift (skipped if missing).

The last lines list every measure where the mean over seeds of kNN-UE is worse than that of another method.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from knn_ue import metrics
from knn_ue.arrays import FloatArray, IntArray
from knn_ue.data import read_rows
from knn_ue.sklearn import KnnUEClassifier

SOURCES = {"movies": ("vader:movies", "vader:amazon"), "tweets": ("vader:tweets", "vader:nyt")}
N_TRAIN, N_TEST, N_SHIFT = 2000, 2000, 1000
MEASURES = {"nll": "NLL", "brier": "Brier", "ece": "ECE %", "e_aurc": "E-AURC ×1000"}
OURS = "knn-ue"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with imdb/ and dynasent-yelp/")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    about = {
        "rows": {"train": N_TRAIN, "test": N_TEST, "shift": N_SHIFT},
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
    results: list[dict[str, Any]] = []
    for name, (home, shift) in (SOURCES | local_sources(arguments.data)).items():
        texts, labels = labeled_texts(home, N_TRAIN + N_TEST)
        shift_texts, shift_labels = labeled_texts(shift, N_SHIFT)
        inputs = {
            "TF-IDF": (np.array(texts, dtype=object), np.array(shift_texts, dtype=object)),
            "MiniLM": tuple(map(embedded, (texts, shift_texts))),
        }
        for model, (rows, shift_rows) in inputs.items():
            for seed in range(arguments.seeds):
                order = np.random.default_rng(seed).permutation(len(labels))
                train, test = order[:N_TRAIN], order[N_TRAIN : N_TRAIN + N_TEST]
                parts = {"in domain": (rows[test], labels[test]), "under shift": (shift_rows, shift_labels)}
                for method, classifier in classifiers(model).items():
                    start = time.perf_counter()
                    classifier.fit(rows[train], labels[train])
                    seconds = time.perf_counter() - start
                    for part, (x, y) in parts.items():
                        case = {"set": name, "model": model, "method": method, "part": part, "seed": seed}
                        results.append({**case, **measured(classifier.predict_proba(x), y), "fit_seconds": seconds})
            print_table(results, name, model)
            if arguments.json:  # after each table, so that an interrupted run leaves what it has measured
                arguments.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")
    print_summary(results)
    print_losses(results)


def local_sources(data: Path | None) -> dict[str, tuple[str, str]]:
    """Return the sources of the folder `data`, none if they are not there."""
    if data is None:
        return {}
    files = data / "imdb" / "train.jsonl.gz", data / "dynasent-yelp" / "test.jsonl.gz"
    if not all(file.exists() for file in files):
        print(f"skipped: {data} has no imdb/train.jsonl.gz and dynasent-yelp/test.jsonl.gz")
        return {}
    return {"imdb": (str(files[0]), str(files[1]))}


def labeled_texts(source: str, n_rows: int) -> tuple[list[str], IntArray]:
    """Return at most `n_rows` texts of a source, drawn with a fixed seed, and 1 for "pos"."""
    rows = list(read_rows(source, "text-classification"))
    kept = np.random.default_rng(0).permutation(len(rows))[:n_rows]
    return [rows[row].text for row in kept], np.array([int(rows[row].label == "pos") for row in kept])


def embedded(texts: list[str]) -> FloatArray:
    """Return the sentence embeddings (n, 384) of MiniLM, 128 sub-words per text."""
    from sentence_transformers import SentenceTransformer

    from knn_ue.demo.minilm import model_folder

    encoder = SentenceTransformer(str(model_folder()), device="cpu")
    encoder.max_seq_length = 128
    vectors: FloatArray = encoder.encode(texts, batch_size=64, show_progress_bar=False)
    return vectors


def classifiers(model: str) -> dict[str, Any]:
    """Return the classifiers to compare, unfitted."""
    plain = LogisticRegression(max_iter=1000)
    if model == "TF-IDF":
        plain = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), plain)
    chosen: dict[str, Any] = {"raw": clone(plain)}
    for method in ("sigmoid", "isotonic", "temperature"):
        chosen[method] = CalibratedClassifierCV(clone(plain), method=method, cv=5)
    for method in ("sigmoid", "isotonic", "temperature"):
        chosen[f"{method}, one model"] = CalibratedClassifierCV(clone(plain), method=method, cv=5, ensemble=False)
    chosen["knn-ue-no-label"] = KnnUEClassifier(clone(plain), use_labels=False)
    chosen[OURS] = KnnUEClassifier(clone(plain))
    return chosen


def measured(probs: FloatArray, labels: IntArray) -> dict[str, float]:
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    return {
        "accuracy": 100 * float(correct.mean()),
        "nll": metrics.negative_log_likelihood(probs=probs, labels=labels),
        "brier": metrics.brier_multiclass(probs=probs, labels=labels),
        "ece": 100 * metrics.expected_calibration_error(probs=probs, labels=labels),
        "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
    }


def values(results: list[dict[str, Any]], measure: str, **wanted: str) -> FloatArray:
    """Return the numbers of one measure, one per seed."""
    return np.array([line[measure] for line in results if all(line[key] == value for key, value in wanted.items())])


def print_table(results: list[dict[str, Any]], name: str, model: str) -> None:
    """Print mean ± standard deviation over seeds, as a table of the docs."""
    lines = [line for line in results if line["set"] == name and line["model"] == model]
    for part in ("in domain", "under shift"):
        print(f"\n{model}, {name}, {part}\n\n| method | accuracy % | {' | '.join(MEASURES.values())} | fit s |")
        print("|---|" + "---|" * (len(MEASURES) + 2))
        for method in dict.fromkeys(line["method"] for line in lines):
            cells = [f"| {method} "]
            for measure in ("accuracy", *MEASURES, "fit_seconds"):
                numbers = values(lines, measure, method=method, part=part)
                digits = 3 if measure in ("nll", "brier") else 1
                cells.append(f"| {numbers.mean():.{digits}f} ± {numbers.std(ddof=1):.{digits}f} ")
            print("".join(cells) + "|")


def print_summary(results: list[dict[str, Any]]) -> None:
    """Print the table of docs/sklearn_results.md: a row per measure, a column per method, the best mean in bold."""
    methods = ["raw", "sigmoid", "isotonic", "temperature", "temperature, one model", OURS]
    print(f"\n| model, test set | measure | {' | '.join(methods)} |\n|---|---|{'--:|' * len(methods)}")
    for model, name, part in dict.fromkeys((line["model"], line["set"], line["part"]) for line in results):
        for measure in ("nll", "ece", "e_aurc"):
            of_case = {"model": model, "set": name, "part": part}
            numbers = [values(results, measure, method=method, **of_case) for method in methods]
            digits = 3 if measure == "nll" else 1
            means = [round(float(one.mean()), digits) for one in numbers]
            shown = [f"**{mean:.{digits}f}**" if mean == min(means) else f"{mean:.{digits}f}" for mean in means]
            cells = [f"{one} ± {seeds.std(ddof=1):.{digits}f}" for one, seeds in zip(shown, numbers, strict=True)]
            print(f"| {model}, {name}, {part} | {MEASURES[measure]} | {' | '.join(cells)} |")


def print_losses(results: list[dict[str, Any]]) -> None:
    """Print where another method has a better mean than kNN-UE, with the spread of the difference over seeds."""
    print("\nkNN-UE is worse (positive difference: mean ± standard deviation over seeds, same rows):")
    for name, model, part in dict.fromkeys((line["set"], line["model"], line["part"]) for line in results):
        of_part = [line for line in results if (line["set"], line["model"], line["part"]) == (name, model, part)]
        for method in dict.fromkeys(line["method"] for line in of_part if line["method"] != OURS):
            for measure, title in MEASURES.items():
                change = values(of_part, measure, method=OURS) - values(of_part, measure, method=method)
                if change.mean() > 0:
                    spread = change.std(ddof=1)
                    mark = "  beyond the spread" if change.mean() > spread else ""
                    print(f"  {model}, {name}, {part}: {method}, {title} +{change.mean():.3f} ± {spread:.3f}{mark}")


if __name__ == "__main__":
    main()
