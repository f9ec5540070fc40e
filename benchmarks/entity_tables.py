"""From the scores that benchmarks/entities.py keeps to its tables: mean and deviation over seeds, and paired draws."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics

OURS = "knn-ue-entity"
AGGREGATES = ("product", "mean", "min")
N_DRAWS = 500
_PLAIN = "softmax"
_COVERAGE = 0.8
_LUCKY_DRAWS = 50
_IN_PERCENT = {"ece": 100, "e_aurc": 1000, "auroc": 100, "brier": 100, "f1_at_80": 100}

Cell = dict[str, Any]


def summary(work: Path) -> dict[str, Any]:
    """Return every number of the tables, of all cells found in `work`."""
    cells: dict[str, dict[str, dict[int, Cell]]] = {}
    files = [file for file in work.glob("*-[0-9]*/*.json") if not file.parent.name.startswith("model-")]
    for file in sorted(files):
        domain, seed = file.parent.name.rsplit("-", 1)
        for set_name, cell in json.loads(file.read_text()).items():
            cells.setdefault(f"{domain} > {set_name}", {}).setdefault(file.stem, {})[int(seed)] = cell
    found = {}
    for place, methods in cells.items():
        domain = place.split(" > ")[0]
        found[place] = summary_of(methods, unlearned(cells.get(f"{domain} > {domain}", {})))
    return found


def unlearned(methods: dict[str, dict[int, Cell]]) -> dict[str, float]:
    """Return the F1 in domain of methods whose models found less than half of what the plain one does.

    Scores of so few entities mean nothing, however well they look.
    """
    means = {
        name: statistics.mean(2 * sum(c["correct"]) / (len(c["correct"]) + c["n_gold"]) for c in cells.values())
        for name, cells in methods.items()
    }
    return {name: round(100 * f1, 1) for name, f1 in means.items() if f1 < means.get(_PLAIN, 0.0) / 2}


def summary_of(methods: dict[str, dict[int, Cell]], failed: dict[str, float]) -> dict[str, Any]:
    """Return the numbers of one model's domain on one set; models that `failed` to learn are rivals of nobody."""
    found: dict[str, Any] = {"seeds": {name: sorted(cells) for name, cells in methods.items()}, "methods": {}}
    found["unlearned"] = {name: f1 for name, f1 in failed.items() if name in methods}
    short = {name: cells for name, cells in methods.items() if OURS in methods and is_short(cells, methods[OURS])}
    found["fewer"] = {name: on_fewer(cells, methods[OURS]) for name, cells in short.items()}
    methods = {name: cells for name, cells in methods.items() if name not in short}
    for name, cells in methods.items():
        for aggregate in AGGREGATES if name != OURS else ("own",):
            found["methods"][label(name, aggregate)] = over_seeds(cells, lambda cell, key=aggregate: cell[key])
    if OURS in methods:
        ours = methods[OURS]
        first = next(iter(ours.values()))
        found["variants"] = {v: over_seeds(ours, lambda c, v=v: c["variants"][v]) for v in first["variants"]}
        sizes = sorted({size for cell in ours.values() for size in cell["sizes"]}, key=int)
        found["sizes"] = {
            size: over_seeds({s: c for s, c in ours.items() if size in c["sizes"]}, lambda c, k=size: c["sizes"][k])
            for size in sizes
        }
        found["sentences"] = sentences_of(ours)
        found["ece_of_luck"] = round(statistics.mean(ece_of_luck(np.array(cell["own"])) for cell in ours.values()), 3)
        found["significance"] = significance({name: x for name, x in methods.items() if name not in failed})
    return found


def is_short(cells: dict[int, Cell], ours: dict[int, Cell]) -> bool:
    """Say whether a method, being slow, was run on fewer sentences than ours."""
    return any(cell["n_sentences"] < ours[seed]["n_sentences"] for seed, cell in cells.items() if seed in ours)


def on_fewer(cells: dict[int, Cell], ours: dict[int, Cell]) -> dict[str, Any]:
    """Return a method's best numbers, and ours on the same sentences and seeds, each as a mean over seeds."""
    pairs = [(cell, first_sentences(ours[seed], cell["n_sentences"])) for seed, cell in cells.items() if seed in ours]
    found: dict[str, Any] = {"n_sentences": pairs[0][0]["n_sentences"], "seeds": len(pairs)}
    for key in ("ece", "e_aurc"):
        theirs = [
            statistics.mean(measured(cell, np.array(cell[aggregate]))[key] for cell, _ in pairs)
            for aggregate in AGGREGATES
        ]
        own = statistics.mean(measured(cell, np.array(cell["own"]))[key] for _, cell in pairs)
        found[key] = [round(min(theirs), 3), round(own, 3)]
    return found


def first_sentences(cell: Cell, n_sentences: int) -> Cell:
    """Return the entities of the first sentences; how many gold ones they have is not known and not needed here."""
    kept = np.array(cell["sentence"]) < n_sentences
    return {"n_gold": 0} | {key: np.array(cell[key])[kept] for key in ("sentence", "correct", "own")}


def label(name: str, aggregate: str) -> str:
    return name if aggregate == "own" else f"{name}, {aggregate}"


def over_seeds(cells: dict[int, Cell], scores: Callable[[Cell], list[float]]) -> dict[str, list[float]]:
    """Return [mean, standard deviation] of each metric over the seeds."""
    per_seed = [measured(cell, np.array(scores(cell))) for cell in cells.values()]
    return {key: mean_and_deviation([one[key] for one in per_seed]) for key in per_seed[0]}


def measured(cell: Cell, confidence: Any) -> dict[str, float]:
    correct = np.array(cell["correct"], dtype=bool)
    order = np.argsort(-confidence, kind="stable")[: round(_COVERAGE * len(confidence))]
    numbers = {
        "ece": metrics.expected_calibration_error(confidence=confidence, correct=correct),
        "e_aurc": metrics.e_aurc(confidence=confidence, correct=correct),
        "auroc": metrics.auroc(confidence=confidence, correct=correct),
        "brier": float(np.mean((confidence - correct) ** 2)),
        "f1_at_80": 2 * correct[order].sum() / (len(order) + cell["n_gold"]),
    }
    return {key: float(value) * _IN_PERCENT[key] for key, value in numbers.items()} | {
        "precision": 100 * float(correct.mean()),
        "mean_score": 100 * float(confidence.mean()),
        "n_entities": len(correct),
    }


def ece_of_luck(confidence: Any) -> float:
    """Return the ECE in percent that these scores would show if they were exactly right: so few entities, so much."""
    rng = np.random.default_rng(0)
    draws = [
        metrics.expected_calibration_error(confidence=confidence, correct=rng.random(len(confidence)) < confidence)
        for _ in range(_LUCKY_DRAWS)
    ]
    return 100 * statistics.mean(draws)


def sentences_of(cells: dict[int, Cell]) -> dict[str, list[float]]:
    """Return how honest and how useful the scores of sentences and the warnings are, over seeds."""
    found: dict[str, list[float]] = {}
    for cell in cells.values():
        right = np.array(cell["sentence_right"], dtype=bool)
        warned = cell["warnings"]
        numbers = {"share_right": 100 * float(right.mean())}
        for name, key in (("ours", "sentence_scores"), ("raw", "sentence_raw")):
            score = np.array(cell[key])
            numbers[f"{name}_ece"] = 100 * metrics.expected_calibration_error(confidence=score, correct=right)
            numbers[f"{name}_auroc"] = 100 * metrics.auroc(confidence=score, correct=right)
        numbers["warnings"] = warned["n"]
        numbers["warnings_right"] = 100 * warned["right"] / max(1, warned["n"])
        numbers["missed_caught"] = 100 * warned["caught"] / max(1, warned["missed"])
        for key, value in numbers.items():
            found.setdefault(key, []).append(float(value))
    return {key: mean_and_deviation(values) for key, values in found.items()}


def significance(methods: dict[str, dict[int, Cell]]) -> dict[str, Any]:
    """Return ours less the best other one, and the 95 % interval over draws of seeds and of sentences.

    The best is the one with the lowest mean over the seeds it shares with ours, of all methods and aggregates: it
    was chosen on the test set itself, in its own favor.
    """
    found = {}
    for key, metric in (("ece", metrics.expected_calibration_error), ("e_aurc", metrics.e_aurc)):
        rivals = {
            (name, aggregate): statistics.mean(
                measured(cells[seed], np.array(cells[seed][aggregate]))[key] for seed in methods[OURS] if seed in cells
            )
            for name, cells in methods.items()
            if name != OURS and methods[OURS].keys() <= cells.keys()
            for aggregate in AGGREGATES
        }
        best = min(rivals, key=rivals.__getitem__)
        pairs = [(methods[OURS][seed], methods[best[0]][seed]) for seed in methods[OURS]]
        ours = statistics.mean(measured(cell, np.array(cell["own"]))[key] for cell, _ in pairs)
        low, high = interval(pairs, best[1], metric, _IN_PERCENT[key])
        found[key] = {"best": label(*best), "theirs": rivals[best], "ours": ours, "low": low, "high": high}
    return found


def interval(pairs: list[tuple[Cell, Cell]], aggregate: str, metric: Any, factor: float) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    columns = []
    for ours, theirs in pairs:
        columns.append((by_sentence(ours, "own"), by_sentence(theirs, aggregate), ours["n_sentences"]))
    draws = []
    for _ in range(N_DRAWS):
        differences = []
        for number in rng.integers(len(columns), size=len(columns)):
            *sides, n_sentences = columns[number]
            sentences = rng.integers(n_sentences, size=n_sentences)
            values = []
            for confidence, correct, bounds in sides:
                rows = np.concatenate([np.arange(bounds[s], bounds[s + 1]) for s in sentences])
                values.append(metric(confidence=confidence[rows], correct=correct[rows]))
            differences.append(values[0] - values[1])
        draws.append(factor * float(np.mean(differences)))
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def by_sentence(cell: Cell, scores: str) -> tuple[Any, Any, Any]:
    """Return confidence and correctness ordered by sentence, and where each sentence begins and ends.

    Models trained in different ways find different entities: each has its own.
    """
    sentence = np.array(cell["sentence"])
    order = np.argsort(sentence, kind="stable")
    bounds = np.searchsorted(sentence[order], np.arange(cell["n_sentences"] + 1))
    return np.array(cell[scores])[order], np.array(cell["correct"])[order].astype(bool), bounds


def mean_and_deviation(values: list[float]) -> list[float]:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return [round(statistics.mean(values), 3), round(deviation, 3)]


def print_all(found: dict[str, Any]) -> None:
    """Print one table a place and question, as Markdown."""
    keys = [*_IN_PERCENT]
    for place, numbers in found.items():
        for part in ("methods", "variants", "sizes"):
            if part in numbers:
                print(f"\n**{place}: {part}**\n\n| | {' | '.join(keys)} |\n|---|{'---:|' * len(keys)}")
                for name, values in numbers[part].items():
                    print(f"| {name} | " + " | ".join("{:.1f} ± {:.1f}".format(*values[key]) for key in keys) + " |")
        for key, compared in numbers.get("significance", {}).items():
            print(
                f"\n{key}: ours {compared['ours']:.1f}, best other ({compared['best']}) {compared['theirs']:.1f}; "
                f"difference within {compared['low']:.1f} and {compared['high']:.1f}"
            )
        if "sentences" in numbers:
            print(
                "\n" + ", ".join(f"{key} {mean:.1f} ± {std:.1f}" for key, (mean, std) in numbers["sentences"].items())
            )
