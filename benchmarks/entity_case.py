"""What the case of words adds to knn-ue-entity: on in-domain shifts, where it was chosen, and on ten transfers.

    python benchmarks/entity_case.py --data DIR --work DIR [--cells wikineural-0 btc-0 ...] [--json FILE]

The folders, models and sets are those of `benchmarks/entities.py`; outputs that it kept are used again. "Without" is
the same method, fitted on the same sentences without their words. Missed entities: `benchmarks/entity_warnings.py`.
"""

import argparse
import json
import statistics
from dataclasses import replace
from typing import Any

import numpy as np

from entities import INDEX, SETS, Encoder, drawn, kept, parser_of, read, training_rows
from entity_choices import N_STRANGE, PLAIN, measured
from entity_shifts import SHIFTS, shifted
from knn_ue import metrics
from knn_ue.calibrators import KnnUE, KnnUEEntity
from knn_ue.entities import INGREDIENTS, find_entities
from knn_ue.entities.logistic import Guess, fit_signed_logistic
from knn_ue.entities.model import GUESS
from knn_ue.stores import Datastore
from knn_ue.types import Outputs

_CASE = ("small_end", "capital_beside")
_WITHOUT = "without case"
DESIGNS: dict[str, tuple[float, float] | None] = {
    _WITHOUT: None,
    **{f"near {slope}, ridge {ridge}": (slope, ridge) for slope, ridge in ((-0.2, 300), (-0.3, 300), (-0.4, 300))},
    **{f"near -0.3, ridge {ridge}": (-0.3, ridge) for ridge in (1, 100, 1000)},
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", nargs="+", default=["wikineural-0", "btc-0"])
    parser.add_argument("--rows", type=int, default=1000, help="sentences of each test set, at most")
    arguments = parser.parse_args()
    found = {name: Cell(name, arguments).measure() for name in arguments.cells}
    print("\n".join([*choices_table(found), "", *transfers_table(found)]))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, separators=(",", ":")).replace("},", "},\n") + "\n")


class Cell:
    """A model and the two fits that are compared."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.name, self.arguments = name, arguments
        self.domain, seed = name.rsplit("-", 1)
        (arguments.work / name).mkdir(parents=True, exist_ok=True)
        self.encoder = Encoder(self.domain, int(seed), ["softmax"], arguments)
        train_rows, validation_rows, self.extra = training_rows(self.domain, arguments.data)
        train = self.encoder.outputs("train", train_rows)
        self.validation = self.encoder.outputs("validation", validation_rows)
        store = Datastore.build(train.features, train.labels, index=INDEX)
        self.fitted = {
            "without": KnnUEEntity(store).fit(replace(self.validation, words=None)),
            "with": KnnUEEntity(store).fit(self.validation),
        }
        self.knn = KnnUE(store, use_labels=False).fit(self.validation)

    def measure(self) -> dict[str, Any]:
        """Return {"choices": {design: {style: numbers}}, "transfers": {place: {fit: numbers}}}."""
        return {"choices": self.choices(), "transfers": self.transfers()}

    def choices(self) -> dict[str, dict[str, list[float]]]:
        """Score every design on unused training sentences, as they are and shifted; nothing else is read."""
        ours = self.fitted["with"]
        models = {
            name: fit_signed_logistic(ours.read(self.validation).evidence.values, right(self.validation), guess_of(x))
            for name, x in DESIGNS.items()
        }
        found: dict[str, dict[str, list[float]]] = {name: {} for name in models}
        for style in (PLAIN, *SHIFTS):
            rows = self.extra if style == PLAIN else shifted(self.extra[: N_STRANGE[self.domain]], style)
            outputs = self.encoder.outputs("extra" if style == PLAIN else f"shift-{style}", rows)
            values, correct = ours.read(outputs).evidence.values, right(outputs)
            for name, model in models.items():
                found[name][style] = measured(model.probability(values), correct)
        return found

    def transfers(self) -> dict[str, dict[str, Any]]:
        """Score the entities of both fits on every set, and the words as well."""
        found = {}
        for set_name, source in SETS.items():
            outputs = self.encoder.outputs(set_name, drawn(read(self.arguments.data, source), self.arguments.rows))
            correct, asked = right(outputs), kept(outputs, set_name)
            of_place: dict[str, Any] = {"words": self.words(outputs)} if set_name == self.domain else {}
            for name, calibrator in self.fitted.items():
                reading = calibrator.read(outputs)
                ece, e_aurc, _ = measured(reading.scores[asked], correct[asked])
                of_place[name] = {"ece": ece, "e_aurc": e_aurc}
            found[f"{self.domain} > {set_name}"] = of_place
            print(f"{self.name} {set_name}", flush=True)
        return found

    def words(self, outputs: Outputs) -> dict[str, list[float]]:
        """Return [log-loss, ECE %] of the words: every one looked up, as kNN-UE does, and those of entities alone."""
        labels = outputs.require_labels("the benchmark")
        found = {}
        for name, calibrator in (("all searched", self.knn), ("entities searched", self.fitted["with"])):
            probs = calibrator.predict_proba(outputs)
            of_label = np.maximum(probs[np.arange(len(labels)), labels], 1e-12)
            ece = 100 * metrics.expected_calibration_error(probs=probs, labels=labels)
            found[name] = [round(float(-np.log(of_label).mean()), 4), round(ece, 3)]
        return found


def guess_of(case: tuple[float, float] | None) -> Guess:
    """Return what is believed of all ingredients, with this slope and ridge for case; None ignores it."""
    slope, ridge = case or (-1e-12, 1e12)
    places = [INGREDIENTS.index(name) for name in _CASE]
    slopes, strength = list(GUESS.slopes), list(GUESS.strength)
    for place in places:
        slopes[place], strength[place] = slope, float(ridge)
    return replace(GUESS, slopes=tuple(slopes), strength=tuple(strength))


def right(outputs: Outputs) -> Any:
    gold = find_entities(outputs, outputs.require_labels("the benchmark"))
    return find_entities(outputs, outputs.predicted).same_in(gold)


def choices_table(found: dict[str, Any]) -> list[str]:
    """Return ECE / E-AURC / log-loss of each design, mean over the seeds of a domain and the shifted styles."""
    domains = list(dict.fromkeys(cell.rsplit("-", 1)[0] for cell in found))
    heads = [f"{domain}, {kind}" for domain in domains for kind in ("plain", "shifted")]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    for name in DESIGNS:
        cells = []
        for domain in domains:
            own = [cell["choices"][name] for key, cell in found.items() if key.startswith(f"{domain}-")]
            for styles in ([PLAIN], list(SHIFTS)):
                means = [statistics.mean(one[style][i] for one in own for style in styles) for i in range(3)]
                cells.append("{:.1f} / {:.0f} / {:.3f}".format(*means))
        lines.append(row([name, *cells]))
    return lines


def transfers_table(found: dict[str, Any]) -> list[str]:
    """Return both fits on every set, each a mean over seeds (and their deviation where there are several)."""
    heads = {"ece": "ECE %", "e_aurc": "E-AURC ×1000"}
    columns = [f"{head} {kind}" for head in heads.values() for kind in ("without", "with")]
    lines = [row(["", "seeds", *columns]), f"|---|--:|{'--:|' * len(columns)}"]
    places = list(dict.fromkeys(place for cell in found.values() for place in cell["transfers"]))
    means: dict[str, list[float]] = {}
    for place in places:
        own = [cell["transfers"][place] for cell in found.values() if place in cell["transfers"]]
        cells = []
        for key in heads:
            for kind in ("without", "with"):
                values = [one[kind][key] for one in own]
                cells.append(spread(values, 0 if key == "e_aurc" else 1))
                domain, set_name = place.split(" > ")
                if domain != set_name:
                    means.setdefault(f"{key} {kind}", []).append(statistics.mean(values))
        lines.append(row([place, str(len(own)), *cells]))
    total = [spread([statistics.mean(values)], 0 if key.startswith("e_aurc") else 1) for key, values in means.items()]
    return [*lines, row([f"**mean of {len(places) - 2} transfers**", "", *total])]


def spread(values: list[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
