"""Does kNN-UE gain from neighbors the model was not trained on, from another layer, or from another agreement?

    python benchmarks/remedies.py --out knn-ue-reproduction --data ../shared/data [--seeds 1] [--tasks sentiment nli]
    python benchmarks/remedies.py --out memorized --memorize [--seeds 3]

Reads the models and outputs that `knn-ue reproduce` keeps in its folder. Each remedy changes only what the weight sees:

  training store       as kNN-UE is: neighbors among the training rows
  held-out store       neighbors among the validation rows that stopped the training, which no gradient has seen
  two stores           distances to training rows, labels of held-out rows
  layer N              neighbors by the features of layer N
  types agree          tagging: a neighbor agrees when its tag is of the same type (B-PER and I-PER)
  balanced tenth       tagging: a tenth of the training words, of every tag as many as far as it has them
  cross-fitted         texts, with --cross-fit: half of the neighbors from each of two models that were trained on one
                       half of the rows, among the rows of the other half; two trainings and two more passes
  weighted agreement   nearer neighbors count more: each by exp(-(d - nearest) / (mean - nearest))

The score to choose by is the log-loss on validation rows, two-fold: fitted on one half, measured on the other. Test
and out-of-domain sets are only shown. ECE and E-AURC are those of the tables (entities in tagging). The last table has
means over seeds, each number but the first as the difference to the training store of the same seed: below 0 is better.

Without --data the sets are VADER's; models that are not there are trained (minutes each). With --memorize they learn
their training set by heart: 7,000 rows, four epochs at 1e-4, no layer frozen.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cross_fitting import PLAIN, CrossFitted
from knn_ue.arrays import softmax
from knn_ue.calibrators import KnnUE, LogitScaling
from knn_ue.data.splits import half_of
from knn_ue.stores import Datastore, balanced_rows
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import WeightParams, fit_weight, knn_weight
from knn_ue_lab.reproduce.answers import answers_of
from knn_ue_lab.reproduce.measures import MEASURES
from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.scales import SMALL, Scale
from knn_ue_lab.reproduce.task_runner import TaskRunner

K = 32
FINE = 32
Find = Callable[[Outputs], Neighbors]


class WithNeighbors(LogitScaling):
    """kNN-UE on whatever neighbors it is given; nothing to save."""

    kind: ClassVar[str] = "with-neighbors"

    params_: WeightParams

    def __init__(self, find: Find) -> None:
        self.find = find

    def _fit(self, validation: Outputs, _found: object, /) -> None:
        self.params_ = fit_weight(
            validation.logits, validation.require_labels("fit"), self.find(validation), use_labels=True
        )

    def _weight(self, outputs: Outputs, _found: object, /) -> np.ndarray:
        return knn_weight(self.find(outputs), outputs.predicted, self.params_).total


class Remembered:
    """A store that searches once for the same array, however many remedies ask."""

    def __init__(self, store: Datastore) -> None:
        self.store = store
        self.found: dict[int, tuple[np.ndarray, Neighbors]] = {}  # the array is kept, so that its id stays its own

    def search(self, features: np.ndarray, n_neighbors: int) -> Neighbors:
        if id(features) not in self.found:
            self.found[id(features)] = features, self.store.search(features, n_neighbors)
        return self.found[id(features)][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", nargs="*")
    parser.add_argument("--no-layers", action="store_true", help="leave out other layers, which cost a search each")
    parser.add_argument("--cross-fit", action="store_true", help="train two models more, for neighbors held out")
    parser.add_argument("--memorize", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    request = Request(out=arguments.out, data=arguments.data, n_seeds=arguments.seeds, device="cpu")
    reproduction = Reproduction(request, print, memorizing(SMALL) if arguments.memorize else SMALL)
    results = []
    for name, runner in reproduction.runners.items():
        if arguments.tasks and name not in arguments.tasks:
            continue
        for seed in range(arguments.seeds):
            results += measure(runner, seed, with_layers=not arguments.no_layers, cross_fit=arguments.cross_fit)
    print_summary(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def print_summary(results: list[dict[str, Any]]) -> None:
    """Print what each remedy changes, mean ± standard deviation over seeds."""
    for task in dict.fromkeys(line["task"] for line in results):
        lines = [line for line in results if line["task"] == task]
        usual = {line["seed"]: line for line in lines if line["remedy"] == "training store"}
        parts = [name for name, value in lines[0].items() if isinstance(value, dict)]
        print(f"\n{task}, {len(usual)} seeds, against the training store: log-loss ×1000, then ECE % / E-AURC ×1000")
        for remedy in dict.fromkeys(line["remedy"] for line in lines):
            pairs = [(line, usual[line["seed"]]) for line in lines if line["remedy"] == remedy]
            shown = f"{remedy:22}{_change([1000 * (a['validation_nll'] - b['validation_nll']) for a, b in pairs]):>16}"
            for part in parts:
                changes = [_change([a[part][x] - b[part][x] for a, b in pairs]) for x in ("ece", "e_aurc")]
                shown += f"   {part[:14]} {' / '.join(changes)}"
            print(shown)


def _change(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.2f}{spread}"


def memorizing(scale: Scale) -> Scale:
    options = {
        name: replace(one, epochs=4, patience=4, learning_rate=1e-4, freeze_lower=0.0)
        for name, one in scale.options.items()
    }
    return replace(scale, options=options, train_rows=dict.fromkeys(scale.train_rows, 7000))


def measure(
    runner: TaskRunner, seed: int, *, with_layers: bool = True, cross_fit: bool = False
) -> list[dict[str, object]]:
    """Print and return a line for each remedy."""
    train, fitting = runner.outputs(PLAIN, seed, "train"), runner.outputs(PLAIN, seed, "fitting")
    # The rows that stopped the training are no part of the tables: encoded here, not kept.
    with runner.fixed_threads():
        encoder = runner.loaded(runner.training_of(PLAIN), seed, all_layers=True)
        held_out = encoder.encode(runner.data.stopping)
    sets = {part: runner.outputs(PLAIN, seed, part) for part, rows in runner.data.sets.items() if rows.labeled}
    found: list[dict[str, Any]] = []
    halves = halves_of(fitting)
    right = [100 * float(np.mean(one.predicted == one.labels)) for one in (train, fitting)]
    print(
        f"\n{runner.setup.name}, seed {seed}: {len(train):,} training rows, {right[0]:.1f} % of them right, "
        f"{right[1]:.1f} % of validation; {len(held_out):,} held out"
    )
    print(f"{'':22}{'log-loss':>9}" + "".join(f"{part[:17]:>18}" for part in sets) + "   ECE / E-AURC")
    tried = remedies(train, held_out, with_layers=with_layers)
    if cross_fit:
        tried["cross-fitted"] = CrossFitted(runner, seed, {"fitting": fitting, **sets}, K)
    for name, find in tried.items():
        loss = two_fold_loss(find, halves)
        fitted = WithNeighbors(find).fit(fitting)
        line: dict[str, object] = {"task": runner.setup.name, "seed": seed, "remedy": name, "validation_nll": loss}
        line["right_percent"] = right
        shown = ""
        for part, outputs in sets.items():
            answers = answers_of(outputs, fitted.predict(outputs), runner.data.sets[part])
            ece, area = (MEASURES[x].unit * MEASURES[x].function(answers) for x in ("ece", "e_aurc"))
            line[part] = {"ece": ece, "e_aurc": area}
            shown += f"{ece:9.2f} /{area:7.1f}"
        print(f"{name:22}{loss:9.4f}{shown}", flush=True)
        found.append(line)
    check = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=K).fit(fitting)
    part, outputs = next(iter(sets.items()))
    ours = answers_of(outputs, check.predict(outputs), runner.data.sets[part])
    assert np.isclose(found[0][part]["ece"], 100 * MEASURES["ece"].function(ours))  # type: ignore[index]
    return found


def remedies(train: Outputs, held_out: Outputs, *, with_layers: bool = True) -> dict[str, Find]:
    """Return how each remedy finds neighbors."""
    store, unseen = (Remembered(Datastore.build(one.features, one.labels)) for one in (train, held_out))
    found: dict[str, Find] = {
        "training store": lambda outputs: store.search(outputs.features, K),
        "held-out store": lambda outputs: unseen.search(outputs.features, K),
        "two stores": lambda outputs: joined(store.search(outputs.features, K), unseen.search(outputs.features, K)),
        "weighted agreement": lambda outputs: weighted(store.search(outputs.features, K), outputs),
    }
    names = train.class_names or ()
    if train.groups is not None:
        kinds = np.array([name.partition("-")[2] for name in names])
        fewer = train.take(balanced_rows(train.labels, len(train) // 10))
        balanced = Remembered(Datastore.build(fewer.features, fewer.labels))
        found["balanced tenth"] = lambda outputs: balanced.search(outputs.features, K)
        found["types agree"] = lambda outputs: by_type(store.search(outputs.features, K), outputs, kinds)
    for number in range(len(train.layers or ()) - 1 if with_layers else 0):
        layer = Datastore.build(train.layers[number], train.labels)
        found[f"layer {number + 1}"] = lambda outputs, layer=layer, number=number: layer.search(
            outputs.layers[number], K
        )
    return found


def joined(distances: Neighbors, labels: Neighbors) -> Neighbors:
    return Neighbors(ids=distances.ids, distances=distances.distances, labels=labels.labels)


def by_type(neighbors: Neighbors, outputs: Outputs, kinds: np.ndarray) -> Neighbors:
    """Return neighbors that carry the predicted label where their label is of its type."""
    same = kinds[neighbors.labels] == kinds[outputs.predicted][:, None]
    labels = np.where(same, outputs.predicted[:, None], -1)
    return Neighbors(ids=neighbors.ids, distances=neighbors.distances, labels=labels)


def weighted(neighbors: Neighbors, outputs: Outputs) -> Neighbors:
    """Return neighbors whose labels agree as often as the distance-weighted share says.

    Each stands there FINE times: rounded to K-ths, the share would be the plain one again.
    """
    beyond = neighbors.distances - neighbors.distances[:, :1]
    weight = np.exp(-beyond / beyond.mean(axis=1, keepdims=True).clip(1e-12))
    agrees = neighbors.labels == outputs.predicted[:, None]
    share = (weight * agrees).sum(axis=1) / weight.sum(axis=1)
    ids, distances = (np.repeat(one, FINE, axis=1) for one in (neighbors.ids, neighbors.distances))
    counted = np.arange(K * FINE) < np.rint(K * FINE * share)[:, None]
    return Neighbors(ids=ids, distances=distances, labels=np.where(counted, outputs.predicted[:, None], -1))


def halves_of(fitting: Outputs) -> tuple[Outputs, Outputs]:
    """Return two halves; whole sentences in tagging."""
    groups = np.arange(len(fitting)) if fitting.groups is None else fitting.groups
    numbers = np.unique(groups)
    first = np.isin(groups, numbers[sorted(half_of(len(numbers), second=False, seed=0))])
    return fitting.take(first), fitting.take(~first)


def two_fold_loss(find: Find, halves: tuple[Outputs, Outputs]) -> float:
    """Return the log-loss of each half when the other half fitted."""
    losses: list[float] = []
    for seen, other in (halves, halves[::-1]):
        fitted = WithNeighbors(find).fit(seen)
        probs = softmax(other.logits, fitted.weight(other))
        losses += (-np.log(probs[np.arange(len(other)), other.labels].clip(1e-300))).tolist()
    return float(np.mean(losses))


if __name__ == "__main__":
    main()
