"""How well does each method know which entities are right? In domain, out of domain, with small validation sets.

    python benchmarks/entities.py --data DIR --work DIR [--seeds 3] [--rows 1000] [--models DIR] [--json FILE]

DIR of --data holds ner/<set>/<split>.jsonl.gz with {"tokens", "tags"} rows. MiniLM is fine-tuned on 3,000 sentences of
WikiNEuRal and of BTC (fast preset, 3 epochs, learning rate 5e-4), once for each way of training and each seed; models
called m_<domain>_<seed> in --models are used instead of training plain ones. Half of each validation set stops the
training, the other half fits the method; nothing else is fitted, chosen or stopped by any row of a test or
out-of-domain set. Scores of each (domain, seed, training) are kept in --work: a run that was stopped goes on, and
--methods, --domains and --only choose what is run now. Tables are made of all cells that are there.

A type that a model does not know counts as O in the gold tags; sets without MISC ignore predicted MISC entities.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from entity_tables import OURS, print_all, summary
from entity_variants import Variants, rounded
from knn_ue.calibrators import KnnUE, KnnUEEntity, LogitScaling, SoftmaxResponse
from knn_ue.data.splits import half_of
from knn_ue.demo.minilm import model_folder
from knn_ue.entities import Spans, all_right, find_entities
from knn_ue.entities.missed import MissedSpan, hidden_words
from knn_ue.methods import METHODS, make_calibrator
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.rows import labeled_examples
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from knn_ue.types import Neighbors, Outputs
from knn_ue_lab.training.label_smoothing import LabelSmoothing

TASK = "token-classification"
SETS = {
    "wikineural": "wikineural/test",
    "btc": "btc/test",
    "wikigold": "wikigold/test",
    "politics": "crossner-politics/test",
    "science": "crossner-science/test",
    "web": "uner-ewt/test",
}
WITHOUT_MISC = {"btc", "web"}
N_TRAIN = 3000
N_UNREAD = 10  # rows that stand for those from which no method of a group learns
N_EXTRA = 1300  # unused training sentences that enlarge the validation set in the study of its size
# One search for all methods; 98.6 % of the nearest neighbors are those of the exact search.
INDEX = IndexOptions(factory="PCA64,IVF256,Flat", n_probe=16, refine_factor=4)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--domains", nargs="+", default=["wikineural", "btc"], choices=["wikineural", "btc"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rows", type=int, default=1000, help="sentences of each test set, at most")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for domain in arguments.domains:
            for group in groups_of(arguments.methods):
                run_cell(domain, seed, group, arguments)
    found = summary(arguments.work)
    print_all(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, separators=(",", ":")).replace("},", "},\n") + "\n")


def groups_of(methods: list[str]) -> list[list[str]]:
    """Put methods that share a model and its encoding together: their rows are encoded once."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for name in methods:
        if TASK in METHODS[name].tasks:
            own = METHODS[name].encoding.keys() & {"passes", "pooling"}
            groups.setdefault((METHODS[name].training.name, bool(own)), []).append(name)
    return list(groups.values())


def run_cell(domain: str, seed: int, group: list[str], arguments: argparse.Namespace) -> None:
    """Score every set with every method of the group that has no scores yet."""
    folder = arguments.work / f"{domain}-{seed}"
    folder.mkdir(exist_ok=True)
    wanted = [name for name in group if not (folder / f"{name}.json").exists()]
    if not wanted:
        return
    encoder = Encoder(domain, seed, wanted, arguments)
    rows = dict(zip(("train", "validation", "extra"), training_rows(domain, arguments.data), strict=True))
    learned_from = {
        "train": any(METHODS[name].reads_training for name in wanted),
        "validation": any(METHODS[name].calibrator is not SoftmaxResponse for name in wanted),
        "extra": OURS in wanted,
    }
    train, validation, extra = (
        encoder.outputs(name, rows[name] if learned_from[name] else rows[name][:N_UNREAD]) for name in rows
    )
    search = OneSearch(train)
    fitted = {name: calibrator_of(name, train, search).fit(validation) for name in wanted}
    ours = fitted.get(OURS)
    variants = Variants(ours, validation, joined(validation, extra), seed) if isinstance(ours, KnnUEEntity) else None
    scores: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    for set_name, source in SETS.items():
        outputs = encoder.outputs(set_name, drawn(read(arguments.data, source), arguments.rows))
        for name, calibrator in fitted.items():
            scores[name][set_name] = scores_of(calibrator, outputs, set_name)
        if variants is not None and isinstance(ours, KnnUEEntity):
            scores[OURS][set_name] |= reading_of(ours, outputs) | variants.scores(outputs, kept(outputs, set_name))
        print(f"{domain} seed {seed} {set_name}: {', '.join(wanted)}", flush=True)
    for name in wanted:
        (folder / f"{name}.json").write_text(json.dumps(scores[name]))


class OneSearch:
    """Searches a datastore once for the same features, however many methods ask."""

    def __init__(self, train: Outputs) -> None:
        self.train = train
        self.remembered: list[tuple[Any, int, Neighbors]] = []

    @cached_property
    def store(self) -> Datastore:
        return Datastore.build(self.train.features, self.train.labels, index=INDEX)

    def __len__(self) -> int:
        return len(self.store)

    def search(self, features: Any, n_neighbors: int) -> Neighbors:
        for known, asked, found in self.remembered:
            if known is features and asked == n_neighbors:
                return found
        found = self.store.search(features, n_neighbors)
        self.remembered = [*self.remembered[-2:], (features, n_neighbors, found)]
        return found

    def texts_of(self, ids: Any) -> list[str | None]:
        return self.store.texts_of(ids)


def calibrator_of(name: str, train: Outputs, search: OneSearch) -> LogitScaling:
    """Return the calibrator of the registry, those of kNN-UE with the search they share."""
    if name == OURS:
        return KnnUEEntity(search)
    if METHODS[name].calibrator is KnnUE:
        return KnnUE(search, use_labels=name == "knn-ue")
    return make_calibrator(name, train, index=INDEX)


def scores_of(calibrator: LogitScaling, outputs: Outputs, set_name: str) -> dict[str, Any]:
    """Return for each predicted entity whether it is right, its sentence, and its confidence in three ways."""
    probs = calibrator.predict_proba(outputs)
    predicted = find_entities(outputs, probs.argmax(axis=1))
    gold = find_entities(outputs, outputs.require_labels("the benchmark"))
    asked = kept(outputs, set_name, predicted)
    confidence = probs.max(axis=1)
    parts = [confidence[a : b + 1] for a, b in zip(predicted.first[asked], predicted.last[asked], strict=True)]
    found: dict[str, Any] = {
        "n_gold": len(gold),
        "n_sentences": len(predicted.starts),
        "sentence": predicted.sentence[asked].tolist(),
        "correct": predicted.same_in(gold)[asked].astype(int).tolist(),
        "product": rounded([part.prod() for part in parts]),
        "mean": rounded([part.mean() for part in parts]),
        "min": rounded([part.min() for part in parts]),
    }
    if isinstance(calibrator, KnnUEEntity):
        found["own"] = rounded(calibrator.read(outputs).scores[asked])
    return found


def reading_of(calibrator: KnnUEEntity, outputs: Outputs) -> dict[str, Any]:
    """Return what is said of whole sentences and of missed entities, and what is true."""
    reading = calibrator.read(outputs)
    gold = find_entities(outputs, outputs.require_labels("the benchmark"))
    raw = np.multiply.reduceat(np.exp(log_top(outputs)), reading.spans.starts)
    return {
        "sentence_scores": rounded(reading.sentence_scores),
        "sentence_raw": rounded(raw),
        "sentence_right": all_right(reading.spans, gold).astype(int).tolist(),
        "warnings": warnings_of(reading.missed, reading.spans, gold),
    }


def warnings_of(missed: Iterable[MissedSpan], predicted: Spans, gold: Spans) -> dict[str, int]:
    """Return how many warnings there are, how many are right, and how many missed entities exist and are found.

    A gold entity is missed if no predicted one touches it. It is found if a warning does, which is then right.
    """
    hidden = hidden_words(predicted, gold)
    hits, warned = [], np.zeros(len(hidden), dtype=bool)
    for x in missed:
        hits.append(bool(hidden[x.first : x.last + 1].any()))
        warned[x.first : x.last + 1] = True
    return {
        "n": len(hits),
        "right": sum(hits),
        "missed": int((gold.lowest(hidden.astype(float)) > 0).sum()),
        "caught": int((-gold.lowest(-(hidden & warned).astype(float)) > 0).sum()),
    }


def kept(outputs: Outputs, set_name: str, spans: Any = None) -> Any:
    """Return which predicted entities count: a set without MISC says nothing about it."""
    spans = find_entities(outputs, outputs.predicted) if spans is None else spans
    names = list(dict.fromkeys(n.partition("-")[2] for n in outputs.class_names or () if n != "O"))
    return np.array([set_name not in WITHOUT_MISC or names[kind] != "MISC" for kind in spans.kind], dtype=bool)


def log_top(outputs: Outputs) -> Any:
    shifted = outputs.logits - outputs.logits.max(axis=1, keepdims=True)
    return -np.log(np.exp(shifted).sum(axis=1))


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return what every benchmark of taggers asks for."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="models and outputs are kept here")
    parser.add_argument("--models", type=Path, help="taggers called m_<domain>_<seed> instead of training plain ones")
    parser.add_argument("--encoder", type=Path, help="the model to fine-tune; MiniLM without it")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--json", type=Path)
    return parser


def model_of(domain: str, seed: int, method: str, arguments: argparse.Namespace) -> Path:
    """Return the folder of the model the method needs, trained now, before, or by somebody else."""
    training = METHODS[method].training()
    given = None if arguments.models is None else arguments.models / f"m_{domain}_{seed}"
    if training.name == "plain" and given is not None and (given / "config.json").exists():
        return given
    if isinstance(training, LabelSmoothing):
        training = LabelSmoothing(epsilon=0.1)  # a search over epsilon would train a model for each
    folder: Path = arguments.work / f"model-{domain}-{training.name}-{seed}"
    if not (folder / "config.json").exists():
        train, _, _ = training_rows(domain, arguments.data)
        validation = read(arguments.data, f"{domain}/val")
        stopping = [validation[row] for row in sorted(half_of(len(validation), second=False, seed=0))]
        finetune(
            train,
            stopping,
            task=TASK,
            encoder=arguments.encoder or model_folder(),
            out=folder,
            options=replace(
                TrainingOptions.fast(seed=seed), epochs=3, learning_rate=arguments.learning_rate, max_length=96
            ),
            method=training,
            overwrite=True,
            device="cpu",
        )
    return folder


def training_rows(domain: str, data: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the sentences trained on, those that fit the method, and more of the latter kind."""
    train = read(data, f"{domain}/train")
    random.Random(0).shuffle(train)
    validation = read(data, f"{domain}/val")
    second = sorted(half_of(len(validation), second=True, seed=0))
    return train[:N_TRAIN], [validation[row] for row in second], train[N_TRAIN : N_TRAIN + N_EXTRA]


def read(data: Path, source: str) -> list[Any]:
    with gzip.open(data / "ner" / f"{source}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def drawn(rows: list[Any], n_rows: int) -> list[Any]:
    random.Random(0).shuffle(rows)
    return rows[:n_rows]


class Encoder:
    """Runs the model of a cell, and keeps what it says of a set: logits, and features as float16."""

    def __init__(self, domain: str, seed: int, methods: list[str], arguments: argparse.Namespace) -> None:
        self.domain, self.seed, self.methods, self.arguments = domain, seed, methods, arguments
        self.options = {key: value for name in methods for key, value in METHODS[name].encoding.items()}
        self.folder: Path = arguments.work / f"{domain}-{seed}" / f"outputs-{METHODS[methods[0]].training.name}"
        self.folder.mkdir(exist_ok=True)

    @cached_property
    def pipe(self) -> UncertaintyPipeline:
        model = model_of(self.domain, self.seed, self.methods[0], self.arguments)
        return UncertaintyPipeline.from_pretrained(model, TASK, device="cpu", **self.options)

    def outputs(self, name: str, rows: list[Any]) -> Outputs:
        """Return what the model says of the rows, and their words; tags it does not know count as O."""
        return replace(self._outputs(name, rows), words=[word for row in rows for word in row["tokens"]])

    def _outputs(self, name: str, rows: list[Any]) -> Outputs:
        file = self.folder / f"{name}-{len(rows)}.npz"
        if file.exists() and not self.options:
            with np.load(file) as kept:
                return Outputs(**{key: kept[key].tolist() if key == "class_names" else kept[key] for key in kept.files})
        known = set(self.pipe.class_names)
        rows = [{"tokens": row["tokens"], "tags": [t if t in known else "O" for t in row["tags"]]} for row in rows]
        made = self.pipe.encoder.encode(labeled_examples(rows, TASK, self.pipe.class_names, name=name))
        assert made.features is not None and made.class_names is not None
        outputs = replace(made, features=made.features.astype(np.float16), texts=None, words=None)
        if not self.options.keys() - {"all_layers"}:  # all layers hold the last one, which is all that others need
            names = ("logits", "features", "labels", "groups", "class_names")
            np.savez(file, **{key: np.asarray(getattr(outputs, key)) for key in names})
        return outputs


def joined(first: Outputs, second: Outputs) -> Outputs:
    """Return the rows of both, without the layers."""
    assert first.groups is not None and second.groups is not None
    assert first.words is not None and second.words is not None
    return Outputs(
        features=np.concatenate([first.features, second.features]),
        logits=np.concatenate([first.logits, second.logits]),
        labels=np.concatenate([first.labels, second.labels]),
        groups=np.concatenate([first.groups, second.groups + first.groups.max() + 1]),
        class_names=first.class_names,
        words=[*first.words, *second.words],
    )


if __name__ == "__main__":
    main()
