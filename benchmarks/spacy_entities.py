"""Entity confidence of spaCy pipelines: ours against the beam score, the Platt-scaled beam score and a constant.

    python benchmarks/spacy_entities.py --data ../shared/data/ner --model sm=FOLDER --model md=FOLDER --cache DIR

A model is a pipeline folder or package. Store and validation come from WikiNEuRal (train and val), three random splits;
everything is tested in domain and on the other sets, whose data nothing is tuned on; `--test NAME=FILE` adds more of
them, apart from the means over the others. What the pipeline says of each set is cached, so that a run may be repeated.
Ours is fitted as `knn_ue.spacy` fits it: `learn`.
"""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.data import read_rows
from knn_ue.entities import find_entities
from knn_ue.folder import Part, open_folder, write_folder
from knn_ue.folder.tensors import outputs_from_arrays, outputs_to_arrays
from knn_ue.metrics import e_aurc, expected_calibration_error
from knn_ue.spacy.encoder import SpacyEncoder, SpacyOptions
from knn_ue.spacy.gold import _from_tags, gold_docs, perturbed
from knn_ue.spacy.learning import learn
from knn_ue.spacy.tagging import TypeMap
from knn_ue.types import Outputs

KIND = "spacy-benchmark"
TYPES = TypeMap(
    types=("LOC", "ORG", "PER"), renamed={"PERSON": "PER", "GPE": "LOC", "FAC": "LOC", "LOC": "LOC", "ORG": "ORG"}
)
TESTS = {
    "WikiNEuRal": "wikineural/test",
    "WikiGold": "wikigold/test",
    "web": "uner-ewt/test",
    "politics": "crossner-politics/test",
    "science": "crossner-science/test",
    "tweets": "btc/test",
}
COPIES = "-copies"  # the perturbed copies of a set
SEEDS = (0, 1, 2)
FEW = (50, 100, 200, 500, 2000)
BEAM_WIDTH, BEAM_DENSITY = 16, 0.0001  # the recipe of spaCy's discussions
Scored = tuple[Outputs, np.ndarray]  # the words of a set, and the beam score of each predicted entity


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")  # md was trained with an earlier version of spaCy
    report: dict[str, Any] = {"seeds": list(SEEDS), "n_stored": options.stored, "n_validation": options.validation}
    report["models"] = {name: measure_model(name, place, options) for name, place in options.model.items()}
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for name, found in report["models"].items():
        print_table(name, found, list(options.test))


def measure_model(name: str, place: str, options: argparse.Namespace) -> dict[str, Any]:
    paths = {key: options.data / f"{key}.jsonl.gz" for key in ("wikineural/train", "wikineural/val", *TESTS.values())}
    paths |= options.test
    sets = {key: read_set(name, place, key, path, options) for key, path in paths.items()}
    copies = {
        key: read_set(name, place, key + COPIES, paths[key], options) for key in ("wikineural/train", "wikineural/val")
    }
    tests = {test: sets[key] for test, key in TESTS.items()} | {test: sets[test] for test in options.test}
    found: dict[str, list[Any]] = {}
    few: dict[str, list[Any]] = {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        store = sentences(sets["wikineural/train"], rng, options.stored)
        validation = sentences(sets["wikineural/val"], rng, options.validation)
        for method, row in measure(store, validation, copies["wikineural/val"], tests).items():
            found.setdefault(method, []).append(row)
        for n in options.few:
            half = sentences(sets["wikineural/train"], rng, n)
            parts = [take_sentences(half, np.unique(half[0].groups)[side::2]) for side in (0, 1)]
            row = measure(*parts, copies["wikineural/train"], tests, few=True)
            few.setdefault(str(n), []).append(row["knn-ue-entity"])
    return {"methods": found, "few": few}


def measure(
    store: Scored, validation: Scored, copies: Scored, tests: dict[str, Scored], *, few: bool = False
) -> dict[str, Any]:
    own = take_sentences(copies, np.unique(validation[0].groups))
    ue: Any = learn(store[0], validation[0], own[0], reader=None, n_neighbors=32).calibrator
    right = correct(validation[0])
    platt = fit_platt(log_odds(validation[1]), right)
    rows: dict[str, Any] = {}
    for test, (outputs, beam) in tests.items():
        truth = correct(outputs)
        scores = {"knn-ue-entity": ue.read(outputs).scores}
        if not few:
            scores["beam"] = np.clip(beam, 0.0, 1.0)
            scores["beam, Platt-scaled"] = 1 / (1 + np.exp(-(platt[0] + platt[1] * log_odds(beam))))
            scores["constant"] = np.full(len(truth), right.mean())
        for method, confidence in scores.items():
            rows.setdefault(method, {})[test] = {
                "ece": 100 * expected_calibration_error(confidence=confidence, correct=truth),
                "e_aurc": 1000 * e_aurc(confidence=confidence, correct=truth),
                "n": len(truth),
                "precision": float(truth.mean()),
            }
            if not few:
                rows[method][test]["bins"] = bins(confidence, truth)
    return rows


def bins(confidence: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """Return [entities, mean confidence, share that is right] of each of ten bins that holds any."""
    number = np.minimum((confidence * 10).astype(int), 9)
    return [
        [int(own.sum()), round(float(confidence[own].mean()), 4), round(float(right[own].mean()), 4)]
        for own in (number == place for place in range(10))
        if own.any()
    ]


def read_set(name: str, place: str, key: str, path: Path, options: argparse.Namespace) -> Scored:
    folder = options.cache / f"{name}-{key.replace('/', '-')}"
    if not folder.exists():
        save_set(folder, *run_set(place, path, options.limit, copied=key.endswith(COPIES)))
    stored = open_folder(folder, kind=KIND)
    return outputs_from_arrays(stored.arrays, TYPES.class_names), stored.arrays["beam"]


def run_set(place: str, path: Path, limit: int, *, copied: bool = False, beamed: bool = True) -> Scored:
    """Return what the pipeline says of the sentences of a file, or of one perturbed copy of each, without a beam."""
    import spacy

    nlp = spacy.load(place, exclude=["tagger", "attribute_ruler", "lemmatizer"])
    ner = nlp.get_pipe("ner")
    encoder = SpacyEncoder(nlp, TYPES, options=SpacyOptions())
    examples = [_from_tags(nlp, row) for row in read_rows(path, "ner")][:limit]
    if copied:
        examples = perturbed(nlp, examples, seed=0)
    outputs = encoder.labeled_outputs(list(gold_docs(nlp, examples, skip=[], batch_size=64)))
    # One row of the file is one sentence, as the metrics count them.
    groups = np.repeat(np.arange(len(examples)), [len(example.predicted) for example in examples])
    outputs = replace(outputs, groups=groups, texts=None, views=None)
    if copied or not beamed:
        return outputs, np.zeros(len(find_entities(outputs, outputs.predicted)))
    docs = list(nlp.pipe([example.predicted for example in examples], disable=["ner"]))
    beam: list[float] = []
    for start in range(0, len(docs), 64):
        part = docs[start : start + 64]
        scored = ner.scored_ents(ner.beam_parse(part, beam_width=BEAM_WIDTH, beam_density=BEAM_DENSITY))
        for doc, scores in zip(ner.pipe(part), scored, strict=True):
            for ent in doc.ents:
                number = TYPES.number_of(ent.label_)
                if number is not None:
                    same = [
                        v
                        for (s, e, k), v in scores.items()
                        if (s, e) == (ent.start, ent.end) and TYPES.number_of(k) == number
                    ]
                    beam.append(float(sum(same)))
    return outputs, np.array(beam)


def save_set(folder: Path, outputs: Outputs, beam: np.ndarray) -> None:
    write_folder(folder, Part(kind=KIND, arrays=outputs_to_arrays(outputs) | {"beam": beam}))


def sentences(scored: Scored, rng: np.random.Generator, n: int) -> Scored:
    return take_sentences(scored, np.sort(rng.permutation(np.unique(scored[0].groups))[:n]))


def take_sentences(scored: Scored, groups: np.ndarray) -> Scored:
    outputs, beam = scored
    rows = np.isin(outputs.groups, groups)
    return outputs.take(rows), beam[rows[find_entities(outputs, outputs.predicted).first]]


def correct(outputs: Outputs) -> np.ndarray:
    return find_entities(outputs, outputs.predicted).same_in(find_entities(outputs, outputs.labels))


def log_odds(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(p / (1 - p))


def fit_platt(x: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    from scipy.optimize import minimize

    def loss(w: np.ndarray) -> float:
        z = w[0] + w[1] * x
        return float(np.logaddexp(0, z).sum() - z[right].sum())

    return tuple(minimize(loss, np.zeros(2)).x)


def print_table(name: str, found: dict[str, Any], more: list[str]) -> None:
    names = [*TESTS, "mean", *more, *(["mean of these"] if more else [])]
    for title, rows in (("method", found["methods"]), ("sentences", found["few"])):
        print(f"\n{name}\n\n| {title} | {' | '.join(names)} |\n| --- | {' | '.join('--:' for _ in names)} |")
        for method, runs in rows.items():
            cells = [cell([[run[test]] for run in runs]) for test in TESTS]
            cells.append(cell([[run[test] for test in TESTS] for run in runs]))
            cells += [cell([[run[test]] for run in runs]) for test in more]
            cells += [cell([[run[test] for test in more] for run in runs])] if more else []
            print(f"| {method} | {' | '.join(cells)} |")


def cell(runs: list[list[dict[str, float]]]) -> str:
    """Return ECE and E-AURC, mean and standard deviation over the runs; each run is the mean of its sets."""
    parts = []
    for key, digits in (("ece", 1), ("e_aurc", 0)):
        values = [np.mean([one[key] for one in run]) for run in runs]
        parts.append(f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}")
    return " / ".join(parts)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=PLACE")
    parser.add_argument("--test", action="append", default=[], metavar="NAME=FILE", help="More sets to test on.")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/spacy_entities.json"))
    parser.add_argument("--stored", type=int, default=2500)
    parser.add_argument("--validation", type=int, default=800)
    parser.add_argument("--few", type=int, nargs="*", default=FEW, help="Numbers of sentences of the second table.")
    parser.add_argument("--limit", type=int, default=5000, help="Maximum number of sentences per set.")
    options = parser.parse_args()
    options.model = dict(pair.split("=", 1) for pair in options.model)
    options.test = {name: Path(path) for name, path in (pair.split("=", 1) for pair in options.test)}
    return options


if __name__ == "__main__":
    main()
