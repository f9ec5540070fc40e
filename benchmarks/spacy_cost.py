"""What the confidence costs: a spaCy pipeline with and without knn_ue_entities, and with a beam, in one run.

    python benchmarks/spacy_cost.py --model FOLDER --train F --validation F --texts F --map PERSON=PER --map GPE=LOC

The ways take turns on every batch of texts, and CPU time of this process is counted, so that a busy machine slows all
alike; numbers are medians over the rounds, with their range.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import spacy

import knn_ue.spacy  # noqa: F401  (registers the component where knn-ue is not installed)
from knn_ue.data import read_rows
from knn_ue.spacy.component import FACTORY
from knn_ue.spacy.gold import read_examples

BATCH = 50


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")
    nlp = spacy.load(options.model, exclude=options.exclude)
    ner: Any = nlp.get_pipe("ner")
    texts = [" ".join(row.tokens) for row in read_rows(options.texts, "ner")][: options.n]
    component: Any = nlp.add_pipe(
        FACTORY, config={"map": dict(pair.split("=", 1) for pair in options.map), "reader": None}
    )
    train, validation = (read_examples(nlp, path)[: options.stored] for path in (options.train, options.validation))
    component.fit(train, validation)

    def plain(batch: list[str]) -> None:
        for _ in nlp.pipe(batch, disable=[FACTORY]):
            pass

    def ours(batch: list[str]) -> None:
        for _ in nlp.pipe(batch):
            pass

    def beam(batch: list[str]) -> None:
        docs = list(nlp.pipe(batch, disable=[FACTORY]))
        ner.scored_ents(ner.beam_parse(docs, beam_width=16, beam_density=0.0001))

    ways = {"plain": plain, "with confidence": ours, "with a beam": beam}
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        spent = dict.fromkeys(ways, 0.0)
        for batch in batches:
            for name, run in ways.items():
                begun = time.process_time()
                run(batch)
                spent[name] += time.process_time() - begun
        for name in ways if number else ():  # the first round warms up
            seconds[name].append(spent[name])
    over = {name: np.array(found) / np.array(seconds["plain"]) - 1 for name, found in seconds.items()}
    report = {
        "n_texts": len(texts),
        "n_stored": len(train),
        "rounds": options.rounds,
        "pipeline": [name for name in nlp.pipe_names if name != FACTORY],
        "cpu_ms_per_text": {
            name: round(1000 * float(np.median(found)) / len(texts), 3) for name, found in seconds.items()
        },
        "over_plain": {
            name: [round(float(x), 3) for x in (np.median(found), found.min(), found.max())]
            for name, found in over.items()
        },
    }
    print(json.dumps(report, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    for name in ("train", "validation", "texts"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--exclude", action="append", default=[], help="Components of the pipeline to leave out.")
    parser.add_argument("--map", action="append", default=[])
    parser.add_argument("--stored", type=int, default=2500)
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
