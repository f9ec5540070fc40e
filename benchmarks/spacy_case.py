"""Does the case of words help a tagger that sees capital letters itself? spaCy's, on in-domain sentences only.

    python benchmarks/spacy_case.py --data ../shared/data/ner --model sm=FOLDER --model md=FOLDER --cache DIR

knn-ue-entity is fitted with and without the words of its sentences, that is with and without `small_end` and
`capital_beside`, on three random splits of WikiNEuRal, and scored on unused training sentences: plain ones, and seven
kinds of perturbed ones (`entity_shifts.py`). No sentence of a test or out-of-domain set is read.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from entity_shifts import SHIFTS
from knn_ue.data import read_rows
from knn_ue.types import Outputs
from spacy_choices import N_STRANGE, SIZES, arguments, fit, measured, strange_file, take
from spacy_entities import SEEDS, Scored, read_set


def main() -> None:
    options = arguments()
    for name, place in options.model.items():
        paths = {key: options.data / f"wikineural/{key}.jsonl.gz" for key in ("train", "val")}
        train, validation = (
            with_words(read_set(name, place, f"wikineural/{key}", path, options), path) for key, path in paths.items()
        )
        order = np.random.default_rng(7).permutation(np.unique(train[0].groups))
        strange = []
        for style in SHIFTS:
            path = strange_file(style, order, paths["train"], options)
            strange.append(with_words(read_set(name, place, f"strange-{style}", path, options), path)[0])
        for size, (n_stored, n_validation) in SIZES.items():
            print(f"\n{name}, {size}\n\n| | plain: ECE % / E-AURC x 1000 / log-loss | perturbed |\n| --- | --: | --: |")
            for way, reads_case in (("without case", False), ("with case", True)):
                rows = []
                for seed in SEEDS:
                    rng = np.random.default_rng(seed)
                    rest = rng.permutation(order[N_STRANGE:])
                    stored, plain = take(train, rest[:n_stored]), take(train, rest[n_stored : n_stored + N_STRANGE])
                    chosen = rng.permutation(np.unique(validation[0].groups))[:n_validation]
                    ue = fit(stored, seen(take(validation, chosen), reads_case), 1.0)
                    rows.append([measured(ue, seen(outputs, reads_case)) for outputs in (plain, *strange)])
                numbers = np.array(rows)
                parts = numbers[:, :1].mean(axis=(0, 1)), numbers[:, 1:].mean(axis=(0, 1))
                print(f"| {way} | " + " | ".join(f"{a:.1f} / {b:.0f} / {c:.3f}" for a, b, c in parts) + " |")


def seen(outputs: Outputs, reads_case: bool) -> Outputs:
    return outputs if reads_case else replace(outputs, words=None)


def with_words(scored: Scored, path: Path) -> Scored:
    """Add the words of a file, in whose order the sentences are."""
    outputs, beam = scored
    words = [word for row in read_rows(path, "ner") for word in row.tokens][: len(outputs)]
    return replace(outputs, words=words), beam


if __name__ == "__main__":
    main()
