"""How the fit of spaCy's entity scores was chosen: on in-domain sentences as they are and perturbed.

    python benchmarks/spacy_choices.py --data ../shared/data/ner --model sm=FOLDER --model md=FOLDER --cache DIR

Each way to fit is tried on three random splits of WikiNEuRal, with many sentences and with few, and scored on unused
training sentences: plain ones, and seven kinds of strange ones (`entity_shifts.py`). No sentence of a test or
out-of-domain set is read.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from entity_shifts import SHIFTS, shifted
from knn_ue.calibrators import KnnUEEntity
from knn_ue.data import read_rows
from knn_ue.metrics import e_aurc, expected_calibration_error
from knn_ue.stores import Datastore
from knn_ue.types import Outputs, join_outputs
from spacy_entities import COPIES, SEEDS, Scored, correct, read_set, take_sentences

N_STRANGE = 700
SIZES = {"2500 + 800": (2500, 800), "150 + 150": (150, 150)}
WAYS = {
    **{f"validation sentences, ridge x {ridge}": (False, ridge) for ridge in (3.0, 1.0, 0.3, 0.1)},
    **{f"and perturbed copies, ridge x {ridge}": (True, ridge) for ridge in (1.0, 0.3, 0.1, 0.03)},
}


def main() -> None:
    options = arguments()
    found: dict[str, Any] = {}
    for name, place in options.model.items():
        found[name] = measure_model(name, place, options)
        for size, ways in found[name].items():
            print(f"\n{name}, {size}\n\n| fitted on | ECE % | E-AURC x 1000 | log-loss |\n| --- | --: | --: | --: |")
            for way, numbers in ways.items():
                print(f"| {way} | {numbers['ece']:.1f} | {numbers['e_aurc']:.0f} | {numbers['log_loss']:.3f} |")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def measure_model(name: str, place: str, options: argparse.Namespace) -> dict[str, Any]:
    paths = {key: options.data / f"wikineural/{key}.jsonl.gz" for key in ("train", "val")}
    train, validation = (read_set(name, place, f"wikineural/{key}", path, options) for key, path in paths.items())
    copies = read_set(name, place, f"wikineural/val{COPIES}", paths["val"], options)
    order = np.random.default_rng(7).permutation(np.unique(train[0].groups))
    strange = [
        read_set(name, place, f"strange-{style}", strange_file(style, order, paths["train"], options), options)[0]
        for style in SHIFTS
    ]
    found: dict[str, Any] = {}
    for size, (n_stored, n_validation) in SIZES.items():
        scores: dict[str, list[Any]] = {}
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            rest = rng.permutation(order[N_STRANGE:])
            stored, plain = take(train, rest[:n_stored]), take(train, rest[n_stored : n_stored + N_STRANGE])
            chosen = rng.permutation(np.unique(validation[0].groups))[:n_validation]
            for way, (robust, ridge) in WAYS.items():
                given = take(validation, chosen)
                fitted_on = join_outputs(given, take(copies, chosen)) if robust else given
                ue = fit(stored, fitted_on, ridge)
                scores.setdefault(way, []).append([measured(ue, outputs) for outputs in (plain, *strange)])
        means = {way: np.mean(rows, axis=(0, 1)) for way, rows in scores.items()}
        found[size] = {
            way: dict(zip(("ece", "e_aurc", "log_loss"), row.tolist(), strict=True)) for way, row in means.items()
        }
    return found


def fit(stored: Outputs, fitted_on: Outputs, ridge: float) -> KnnUEEntity:
    store = Datastore.build(stored.features, stored.labels)
    return KnnUEEntity(store, n_neighbors=min(32, len(stored) // 10), ridge=ridge).fit(fitted_on)


def measured(ue: KnnUEEntity, outputs: Outputs) -> list[float]:
    confidence, right = ue.read(outputs).scores, correct(outputs)
    return [
        100 * expected_calibration_error(confidence=confidence, correct=right),
        1000 * e_aurc(confidence=confidence, correct=right),
        float(-np.log(np.where(right, confidence, 1 - confidence)).mean()),
    ]


def take(scored: Scored, groups: np.ndarray) -> Outputs:
    return take_sentences(scored, np.sort(groups))[0]


def strange_file(style: str, order: np.ndarray, path: Path, options: argparse.Namespace) -> Path:
    """Write the first of `order` in a style, and return the file."""
    out: Path = options.cache / f"strange-{style}.jsonl"
    if not out.exists():
        rows = list(read_rows(path, "ner"))
        plain = [{"tokens": list(rows[n].tokens), "tags": list(rows[n].tags)} for n in order[:N_STRANGE].tolist()]
        out.write_text("".join(json.dumps(row) + "\n" for row in shifted(plain, style)))
    return out


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=PLACE")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=5000, help="Maximum number of sentences per set.")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.model = dict(pair.split("=", 1) for pair in options.model)
    return options


if __name__ == "__main__":
    main()
