"""How much do a few labels of a new domain help? Calibration against the number of labels, on every set at hand.

    python benchmarks/adapting.py --lab LAB --out benchmarks/adapting.json [--entities WORK --data ../shared/data]

LAB holds the arrays of fine-tuned models that `benchmarks/lab.py` writes, WORK the taggers of `benchmarks/entities.py`.
For each task, seed and set: kNN-UE is fitted in domain, 10 to 200 rows (sentences in tagging) are drawn at random 20
times, each method is fitted on them, and the other rows are measured. The prior and the gate of ours were chosen by
`adapting_choice.py`, on in-domain inputs with labels drawn by chance. The taggers' outputs hold no views, so
familiarity is unread there.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import Datastore, KnnUE, KnnUEEntity, Outputs, metrics
from knn_ue.adapting import (
    LabeledScores,
    average_log_scale,
    draw_rows,
    fit_log_scale,
    log_likelihood_gain,
    prior_unchanged,
    rescale,
    rescale_scores,
)
from knn_ue.adapting.check import GATE
from knn_ue.adapting.scale import UNCHANGED
from knn_ue.arrays import softmax
from knn_ue.entities import find_entities
from knn_ue.familiarity import Familiarity
from lab_arrays import with_views

N_LABELS = (10, 20, 50, 100, 200)
N_SENTENCES = 1000  # of a tagged set


@dataclass(frozen=True)
class Domain:
    """What the fitted method says of a set: probabilities, logits, the row (or sentence) of each, p-values of rows."""

    probs: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    logits: np.ndarray | None
    groups: np.ndarray
    p_values: np.ndarray | None

    def labeled(self, rows: np.ndarray, weights: np.ndarray | None = None) -> LabeledScores:
        if self.logits is None:
            return LabeledScores.of_scores(self.probs[rows, 1], self.labels[rows] == 1, groups=self.groups[rows])
        return LabeledScores.of_probs(self.probs[rows], self.labels[rows], weights=weights)


def ours(
    domain: Domain, rows: np.ndarray, *, gate: bool = True, looks: bool = True, weights: np.ndarray | None = None
) -> np.ndarray:
    labeled, unchanged = domain.labeled(rows, weights), UNCHANGED
    if looks and domain.p_values is not None:
        unchanged = prior_unchanged(float(domain.p_values[rows].mean()), len(rows))
    moved = unchanged < UNCHANGED
    passed = moved or not gate or log_likelihood_gain(labeled, fit_log_scale(labeled)) > GATE
    if not passed:
        return domain.probs
    found = average_log_scale(labeled, unchanged=unchanged)
    if domain.logits is not None:
        return rescale(domain.probs, found)
    scores = rescale_scores(domain.probs[:, 1], found)
    return np.column_stack([1 - scores, scores])


def one_scale(domain: Domain, rows: np.ndarray, *, gate: bool) -> np.ndarray:
    """The best scale under a prior of kappa = 2, applied where twice the gain in log-likelihood exceeds 2."""
    labeled = replace(domain.labeled(rows), by_odds=False)
    found = fit_log_scale(labeled, kappa=2.0)
    return rescale(domain.probs, found) if not gate or log_likelihood_gain(labeled, found) > 2.0 else domain.probs


def temperature(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """A temperature of the model's own logits, from these labels alone."""
    from knn_ue.weighting import fit_temperature

    if domain.logits is None:
        return rescale(domain.probs, fit_log_scale(replace(domain.labeled(rows), by_odds=False), kappa=1e-9))
    return softmax(domain.logits / fit_temperature(domain.logits[rows], domain.labels[rows]))


def isotonic(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """A rising step function of the score, from these labels alone; the rest is shared as before."""
    from sklearn.isotonic import IsotonicRegression

    every = np.arange(len(domain.labels))
    score = domain.probs[every, domain.predicted]
    right = domain.labels == domain.predicted
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score[rows], right[rows].astype(float))
    return _with_score(domain, fitted.predict(score))


def scale_and_bias(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """One scale and a bias per class, both held near nothing by a prior; it may change predictions, so ours stay."""
    from scipy.optimize import minimize

    log_probs, labels = np.log(np.maximum(domain.probs, 1e-20)), domain.labels
    n_classes = log_probs.shape[1]

    def scaled(x: np.ndarray, chosen: Any) -> np.ndarray:
        return softmax(np.exp(x[0]) * log_probs[chosen] + x[1:])

    def objective(x: np.ndarray) -> float:
        probs = scaled(x, rows)[np.arange(len(rows)), labels[rows]]
        return float(-np.log(np.maximum(probs, 1e-300)).sum() + 0.5 * (x[0] ** 2 + 4.0 * (x[1:] ** 2).sum()))

    return scaled(minimize(objective, np.zeros(n_classes + 1)).x, slice(None))


def shifted(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """Scale and shift of the score's log-odds (Platt, 1999), held near nothing by a prior."""
    from scipy.optimize import minimize

    every = np.arange(len(domain.labels))
    score = np.clip(domain.probs[every, domain.predicted], 1e-9, 1 - 1e-9)
    odds, right = np.log(score / (1 - score)), domain.labels == domain.predicted

    def objective(x: np.ndarray) -> float:
        z = np.exp(x[0]) * odds[rows] + x[1]
        return float(np.logaddexp(0.0, np.where(right[rows], -z, z)).sum() + x[0] ** 2 + 4.0 * x[1] ** 2)

    log_scale, shift = minimize(objective, np.zeros(2)).x
    return _with_score(domain, 1 / (1 + np.exp(-np.exp(log_scale) * odds - shift)))


METHODS: dict[str, Callable[[Domain, np.ndarray], np.ndarray]] = {
    "nothing": lambda domain, _: domain.probs,
    "ours": lambda domain, rows: ours(domain, rows),
    "ours, no gate": lambda domain, rows: ours(domain, rows, gate=False),
    "ours, familiarity unread": lambda domain, rows: ours(domain, rows, looks=False),
    "one scale": lambda domain, rows: one_scale(domain, rows, gate=True),
    "one scale, no gate": lambda domain, rows: one_scale(domain, rows, gate=False),
    "temperature": temperature,
    "isotonic": isotonic,
    "scale and bias": scale_and_bias,
    "scale and shift": shifted,
}


def _with_score(domain: Domain, score: np.ndarray) -> np.ndarray:
    every = np.arange(len(score))
    probs = domain.probs.copy()
    rest = np.maximum(1.0 - probs[every, domain.predicted], 1e-12)
    probs *= ((1.0 - score) / rest)[:, None]
    probs[every, domain.predicted] = score
    return probs


def measured(domain: Domain, probs: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    score = probs[rows, domain.predicted[rows]].clip(0.0, 1.0)
    right = domain.predicted[rows] == domain.labels[rows]
    of_label = np.maximum(probs[rows, domain.labels[rows]], 1e-6)
    return {
        "ece": 100 * metrics.expected_calibration_error(confidence=score, correct=right),
        "nll": float(-np.log(of_label).mean()),
        "e_aurc": 1000 * metrics.e_aurc(confidence=score, correct=right),
    }


def curves(domain: Domain, n_draws: int, seed: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return for each method and metric the values of all draws, one list per number of labels."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    numbers = np.unique(domain.groups)
    confidence = domain.probs[np.arange(len(domain.labels)), domain.predicted]
    for n_labels in N_LABELS:
        if n_labels > len(numbers) // 2:
            break
        for draw in range(n_draws):
            drawn = np.random.default_rng([seed, draw]).permutation(numbers)[:n_labels]
            is_drawn = np.isin(domain.groups, drawn)
            rows, rest = np.flatnonzero(is_drawn), np.flatnonzero(~is_drawn)
            values = {name: measured(domain, make(domain, rows), rest) for name, make in METHODS.items() if len(rows)}
            if domain.logits is not None:
                strata = draw_rows(confidence, n_labels, strategy="stratified", seed=draw)
                others = np.setdiff1d(np.arange(len(confidence)), strata.rows)
                changed = ours(domain, strata.rows, weights=strata.weights)
                values["ours, stratified"] = measured(domain, changed, others)
            for name, metrics_of in values.items():
                for metric, value in metrics_of.items():
                    by_number = found.setdefault(name, {}).setdefault(metric, [])
                    if len(by_number) <= N_LABELS.index(n_labels):
                        by_number.append([])
                    by_number[-1].append(round(value, 5))
    return found


def domains_of(folder: Path) -> Iterator[tuple[str, Domain]]:
    """Yield what kNN-UE, fitted in domain, says of each labeled set of a model of the lab."""
    train, validation = (_outputs(folder, name) for name in ("train", "validation"))
    assert train is not None and validation is not None
    plain = KnnUE(Datastore.build(train.features, train.labels)).fit(validation)
    sets = [np.load(folder / f"{name}.npz") for name in ("train", "validation")]
    familiarity = Familiarity(with_views(sets[0])).fit(with_views(sets[1]))
    for path in sorted(folder.glob("*.npz")):
        test = _outputs(folder, path.stem)
        if path.stem in ("train", "validation") or test is None:
            continue
        probs = plain.predict_proba(test)
        p_values = familiarity.p_value(with_views(np.load(path)))
        yield path.stem, Domain(probs, test.labels, test.predicted, test.logits, np.arange(len(test)), p_values)


def entity_domains(domain: str, seed: int, options: argparse.Namespace) -> Iterator[tuple[str, Domain]]:
    """Yield what knn-ue-entity, fitted in domain, says of the entities of each set."""
    from entities import INDEX, SETS, Encoder, drawn, kept, read, training_rows

    encoder = Encoder(domain, seed, ["softmax"], argparse.Namespace(work=options.entities, models=None))
    train_rows, validation_rows, _ = training_rows(domain, options.data)
    train = encoder.outputs("train", train_rows)
    store = Datastore.build(train.features, train.labels, index=INDEX)
    entity = KnnUEEntity(store).fit(encoder.outputs("validation", validation_rows))
    for set_name, source in SETS.items():
        test = encoder.outputs(set_name, drawn(read(options.data, source), N_SENTENCES))
        reading, asked = entity.read(test), kept(test, set_name)
        right = reading.spans.same_in(find_entities(test, test.labels)).astype(np.int64)[asked]
        pairs = np.column_stack([1 - reading.scores, reading.scores])[asked]
        ones = np.ones(len(right), dtype=np.int64)
        name = "test" if set_name == domain else set_name
        yield name, Domain(pairs, right, ones, None, reading.spans.sentence[asked], None)


def _outputs(folder: Path, name: str) -> Outputs | None:
    with np.load(folder / f"{name}.npz") as arrays:
        labels = arrays["labels"]
        if (labels < 0).any():
            return None
        return Outputs(
            features=arrays["first"][:, -1].astype(np.float32),
            logits=arrays["logits"],
            labels=labels,
            class_names=[str(x) for x in arrays["class_names"]],
        )


def models(options: argparse.Namespace) -> Iterator[tuple[str, int, Iterator[tuple[str, Domain]]]]:
    """Yield the task, the seed and the sets of every model at hand; a set is read when it is asked for."""
    for folder in sorted(options.lab.glob("*/seed*")):
        if all((folder / f"{name}.npz").exists() for name in ("train", "validation", "test")):
            yield folder.parent.name, int(folder.name.removeprefix("seed")), domains_of(folder)
    for folder in sorted(options.entities.glob("model-*-plain-*")) if options.entities else ():
        _, domain, _, seed = folder.name.split("-")
        if (options.entities / f"{domain}-{seed}").exists():
            yield f"{domain} entities", int(seed), entity_domains(domain, int(seed), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--entities", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for task, seed, domains in models(options):
        done = found.setdefault(task, {}).setdefault(f"seed{seed}", {})
        for name, domain in domains:
            if name not in done:
                print(task, seed, name, len(domain.labels), flush=True)
                done[name] = curves(domain, options.draws, seed=seed)
                options.out.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
