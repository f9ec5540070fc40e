"""Missed entities: how many are found and how many warnings are right, without the case of words and with it.

    python benchmarks/entity_warnings.py --data DIR --work DIR [--cells wikineural-0 btc-0 ...] [--json FILE]

The folders, models and sets are those of `benchmarks/entities.py`; outputs that it kept are used again. "Without" is
the same regression, fitted on the same sentences without their words, with warnings from 0.3 on. The threshold where
capitals are meant was chosen on unused training sentences, plain and perturbed (`entity_shifts.py`);
--styles names those to read. `--parts choices` reads no test or out-of-domain set. Other parts in FILE stay.
"""

import argparse
import json
from typing import Any

import numpy as np

from entities import SETS, Encoder, drawn, parser_of, read, training_rows, warnings_of
from entity_choices import N_STRANGE, PLAIN
from entity_docs import thresholds, warnings
from entity_shifts import SHIFTS, shifted
from knn_ue.entities import TagSet, find_entities
from knn_ue.entities.evidence import case_of
from knn_ue.entities.missed import MissedModel, find_missed, fit_missed
from knn_ue.types import Outputs

THRESHOLDS = (0.3, 0.25, 0.2, 0.15, 0.12, 0.1)
_WITHOUT, _WITH = "without", "with"

Counts = dict[str, int]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", nargs="+", default=["wikineural-0", "btc-0"])
    parser.add_argument("--parts", nargs="+", default=["choices", "transfers"], choices=["choices", "transfers"])
    parser.add_argument("--styles", nargs="*", default=list(SHIFTS), choices=list(SHIFTS))
    parser.add_argument("--rows", type=int, default=1000, help="sentences of each test set, at most")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    for name in arguments.cells:
        cell = Cell(name, arguments)
        found[name] = {part: getattr(cell, part)() for part in arguments.parts}
    tables = {"choices": thresholds, "transfers": warnings}
    print("\n\n".join("\n".join(tables[part](found)) for part in arguments.parts))
    if arguments.json:
        known = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        found = {name: known.get(name, {}) | found.get(name, {}) for name in known | found}
        arguments.json.write_text(json.dumps(found, separators=(",", ":")).replace("},", "},\n") + "\n")


class Cell:
    """A model and its two fits."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.domain, seed = name.rsplit("-", 1)
        (arguments.work / name).mkdir(parents=True, exist_ok=True)
        self.encoder = Encoder(self.domain, int(seed), ["softmax"], arguments)
        _, validation_rows, self.extra = training_rows(self.domain, arguments.data)
        validation = self.encoder.outputs("validation", validation_rows)
        self.fitted = {name: fitted(validation, cased=name == _WITH) for name in (_WITHOUT, _WITH)}

    def choices(self) -> dict[str, dict[str, Counts]]:
        """Count warnings in unused training sentences, plain and in every style, from each threshold on."""
        found = {}
        for style in (PLAIN, *self.arguments.styles):
            rows = self.extra if style == PLAIN else shifted(self.extra[: N_STRANGE[self.domain]], style)
            outputs = self.encoder.outputs("extra" if style == PLAIN else f"shift-{style}", rows)
            found[style] = {_WITHOUT: counted(self.fitted[_WITHOUT], outputs)} | {
                str(threshold): counted(self.fitted[_WITH], outputs, threshold) for threshold in THRESHOLDS
            }
        return found

    def transfers(self) -> dict[str, dict[str, Counts]]:
        """Count the warnings of both fits on every set."""
        found = {}
        for set_name, source in SETS.items():
            outputs = self.encoder.outputs(set_name, drawn(read(self.arguments.data, source), self.arguments.rows))
            found[f"{self.domain} > {set_name}"] = {
                name: counted(model, outputs) for name, model in self.fitted.items()
            }
        return found


def fitted(validation: Outputs, *, cased: bool) -> MissedModel:
    """Return the regression of missed entities, with or without the case of words."""
    predicted = find_entities(validation, validation.predicted)
    gold = find_entities(validation, validation.require_labels("the benchmark"))
    tags = TagSet.of(validation.class_names or ())
    return fit_missed(validation, predicted, gold, tags, case_of(validation, predicted) if cased else None)


def counted(model: MissedModel, outputs: Outputs, threshold: float | None = None) -> Counts:
    """Return what came of the warnings, from another threshold on where capitals are meant if one is given."""
    spans = find_entities(outputs, outputs.predicted)
    gold = find_entities(outputs, outputs.require_labels("the benchmark"))
    tags, case = TagSet.of(outputs.class_names or ()), case_of(outputs, spans)
    warn_from = model.thresholds(len(outputs), case)
    if threshold is not None and case is not None:
        warn_from = np.where(case.meant, threshold, warn_from)
    missed = find_missed(outputs, spans, tags, model.probability(outputs, spans, tags, case), warn_from)
    return warnings_of(missed, spans, gold)


if __name__ == "__main__":
    main()
