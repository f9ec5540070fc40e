"""What the confidence costs: a spaCy pipeline with and without knn_ue_entities, and with a beam, in one run.

    python benchmarks/spacy_cost.py --model FOLDER --train F --validation F --texts F --map PERSON=PER --map GPE=LOC

Rounds take turns, so that a busy machine slows all alike; the best of the rounds counts. Run it on an idle machine.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import spacy

import knn_ue.spacy  # noqa: F401  (registers the component where knn-ue is not installed)
from knn_ue.data import read_rows
from knn_ue.spacy.component import FACTORY
from knn_ue.spacy.gold import read_examples


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")
    nlp = spacy.load(options.model)
    ner: Any = nlp.get_pipe("ner")
    texts = [" ".join(row.tokens) for row in read_rows(options.texts, "ner")][: options.n]
    component: Any = nlp.add_pipe(FACTORY, config={"map": dict(pair.split("=", 1) for pair in options.map)})
    train, validation = (read_examples(nlp, path)[: options.stored] for path in (options.train, options.validation))
    component.fit(train, validation)

    def plain() -> None:
        for _ in nlp.pipe(texts, disable=[FACTORY]):
            pass

    def ours() -> None:
        for _ in nlp.pipe(texts):
            pass

    def beam() -> None:
        docs = list(nlp.pipe(texts, disable=[FACTORY, "ner"]))
        for start in range(0, len(docs), 64):
            part = docs[start : start + 64]
            ner.scored_ents(ner.beam_parse(part, beam_width=16, beam_density=0.0001))
        for _ in ner.pipe(docs):
            pass

    ways = {"plain": plain, "with confidence": ours, "with a beam": beam}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, run in ways.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    best = {name: min(found) for name, found in seconds.items()}
    report = {"n_texts": len(texts), "n_stored": options.stored, "rounds": options.rounds, "seconds": best}
    report["over_plain"] = {name: found / best["plain"] - 1 for name, found in best.items()}
    print(json.dumps(report, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    for name in ("train", "validation", "texts"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--map", action="append", default=[])
    parser.add_argument("--stored", type=int, default=2500)
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
