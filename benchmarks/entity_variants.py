"""What each ingredient of knn-ue-entity is worth, and how few validation sentences it needs: for the benchmark."""

from dataclasses import replace
from typing import Any

import numpy as np

from knn_ue.calibrators import KnnUEEntity
from knn_ue.datastore import Datastore
from knn_ue.entities import INGREDIENTS, find_entities, fit_entity_model
from knn_ue.entities.evidence import find_usual, gather_evidence
from knn_ue.entities.logistic import Guess, fit_signed_logistic
from knn_ue.entities.model import GUESS
from knn_ue.types import Neighbors, Outputs

SIZES = (100, 200, 400, 800, 2000)
_HELD_OUT_NEIGHBORS = 64


def variant_scores(
    calibrator: KnnUEEntity, validation: Outputs, outputs: Outputs, asked: Any
) -> dict[str, list[float]]:
    """Return the scores of the regression without one ingredient, with fewer, and with held-out neighbors added."""
    n_neighbors = calibrator.n_neighbors
    searched = [
        (x, calibrator.store.search(x.require_features("variants"), n_neighbors)) for x in (validation, outputs)
    ]
    usual = find_usual(*searched[0], find_entities(validation, validation.predicted))
    values = [gather_evidence(x, near, find_entities(x, x.predicted), usual).values for x, near in searched]
    spans = find_entities(validation, validation.predicted)
    right = spans.same_in(find_entities(validation, validation.require_labels("variants")))
    choices = {
        f"without {name}": [i for i in range(len(INGREDIENTS)) if INGREDIENTS[i] != name] for name in INGREDIENTS
    }
    choices |= {
        "words only (type, link, beside, company)": [0, 1, 2, 5],
        "type, distance, agreement": [0, 3, 4],
        "type alone": [0],
    }
    found = {}
    for name, columns in choices.items():
        model = fit_signed_logistic(values[0][:, columns], right, chosen(GUESS, columns))
        found[name] = rounded(model.probability(values[1][:, columns])[asked])
    held_out = [held_out_distance(validation, x) for x in (validation, outputs)]
    wider = [np.column_stack([v, d]) for v, d in zip(values, held_out, strict=True)]
    guess = chosen(GUESS, [*range(len(INGREDIENTS)), INGREDIENTS.index("distance")])
    model = fit_signed_logistic(wider[0], right, guess)
    found["with held-out neighbors too"] = rounded(model.probability(wider[1])[asked])
    free = replace(GUESS, strength=(1e-3,) * len(INGREDIENTS), intercept_strength=1e-3)
    found["without ridge"] = rounded(fit_signed_logistic(values[0], right, free).probability(values[1])[asked])
    return found


def size_scores(
    train: Outputs, pool: Outputs, outputs: Outputs, asked: Any, index: Any, seed: int
) -> dict[str, list[float]]:
    """Return the scores after a fit on so many sentences of the pool, drawn at random."""
    store = Datastore.build(train.require_features("sizes"), train.require_labels("sizes"), index=index)
    near = [store.search(x.require_features("sizes"), 32) for x in (pool, outputs)]
    assert pool.groups is not None
    order = np.random.default_rng(seed).permutation(np.unique(pool.groups))
    found = {}
    for size in SIZES:
        rows = np.flatnonzero(np.isin(pool.groups, order[:size]))
        model = fit_entity_model(pool.take(rows), taken(near[0], rows))
        found[str(min(size, len(order)))] = rounded(model.read(outputs, near[1]).scores[asked])
    return found


def held_out_distance(validation: Outputs, outputs: Outputs) -> Any:
    """Return the log distance of each entity's farthest word to the nearest validation word of another sentence."""
    features, groups = validation.require_features("variants"), validation.groups
    assert groups is not None
    store = Datastore.build(features, validation.require_labels("variants"))
    spans = find_entities(outputs, outputs.predicted)
    inside = np.flatnonzero(spans.covered)
    near = store.search(outputs.require_features("variants")[inside], _HELD_OUT_NEIGHBORS)
    others = near.ids >= 0
    if outputs is validation:
        others &= groups[near.ids] != groups[inside][:, None]
    nearest = np.where(others, near.distances, np.inf).min(axis=1)
    words = np.full(len(outputs), np.inf)
    words[inside] = np.log(np.clip(nearest, 1e-6, 1e6) / np.median(nearest))
    return np.clip(-spans.lowest(-words), -1.0, 3.0)


def chosen(guess: Guess, columns: list[int]) -> Guess:
    parts = {
        name: tuple(getattr(guess, name)[i] for i in columns) for name in ("center", "scale", "slopes", "strength")
    }
    return replace(guess, **parts)


def taken(neighbors: Neighbors, rows: Any) -> Neighbors:
    return Neighbors(ids=neighbors.ids[rows], distances=neighbors.distances[rows], labels=neighbors.labels[rows])


def rounded(values: Any) -> list[float]:
    return [round(float(value), 5) for value in values]
