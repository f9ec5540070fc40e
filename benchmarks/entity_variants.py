"""What each ingredient of knn-ue-entity is worth, and how few validation sentences it needs: for the benchmark."""

from dataclasses import replace
from typing import Any

import numpy as np

from knn_ue.calibrators import KnnUEEntity
from knn_ue.datastore import Datastore
from knn_ue.entities import INGREDIENTS, EntityModel, find_entities, fit_entity_model
from knn_ue.entities.evidence import find_usual, gather_evidence
from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic
from knn_ue.entities.model import GUESS
from knn_ue.types import Neighbors, Outputs

SIZES = (100, 200, 400, 800, 2000)
_HELD_OUT_NEIGHBORS = 64
_HELD_OUT = len(INGREDIENTS)  # the column after the ingredients
_COLUMNS = {f"without {name}": [i for i, x in enumerate(INGREDIENTS) if x != name] for name in INGREDIENTS} | {
    "words only: type, link, beside, company": [0, 1, 2, 5],
    "type, distance, agreement": [0, 3, 4],
    "type alone": [0],
    "with held-out neighbors too": [*range(_HELD_OUT + 1)],
}


class Variants:
    """The regression without an ingredient, with fewer, with more, without its ridge, and fitted on fewer sentences."""

    def __init__(self, calibrator: KnnUEEntity, validation: Outputs, pool: Outputs, seed: int) -> None:
        self.store, self.n_neighbors, self.validation = calibrator.store, calibrator.n_neighbors, validation
        self.held_out = Datastore.build(validation.features, validation.labels)
        spans = find_entities(validation, validation.predicted)
        near = self._near(validation)
        self.usual = find_usual(validation, near, spans)
        right = spans.same_in(find_entities(validation, validation.require_labels("variants")))
        values = self._values(validation, near)
        self.fitted: dict[str, tuple[list[int], SignedLogistic]] = {
            name: (columns, fit_signed_logistic(values[:, columns], right, chosen(GUESS, columns)))
            for name, columns in _COLUMNS.items()
        }
        free = replace(GUESS, strength=(1e-3,) * len(INGREDIENTS), intercept_strength=1e-3)
        own = [*range(_HELD_OUT)]
        self.fitted["without ridge"] = own, fit_signed_logistic(values[:, own], right, free)
        self.sizes = self._fit_sizes(pool, seed)

    def scores(self, outputs: Outputs, asked: Any) -> dict[str, dict[str, list[float]]]:
        """Return {"variants", "sizes"}: the scores of the `asked` entities, by name."""
        near = self._near(outputs)
        values = self._values(outputs, near)
        return {
            "variants": {
                name: rounded(model.probability(values[:, columns])[asked])
                for name, (columns, model) in self.fitted.items()
            },
            "sizes": {size: rounded(model.read(outputs, near).scores[asked]) for size, model in self.sizes.items()},
        }

    def _fit_sizes(self, pool: Outputs, seed: int) -> dict[str, EntityModel]:
        near, groups = self._near(pool), pool.groups
        assert groups is not None
        order = np.random.default_rng(seed).permutation(np.unique(groups))
        fitted = {}
        for size in SIZES:
            rows = np.flatnonzero(np.isin(groups, order[:size]))
            fitted[str(min(size, len(order)))] = fit_entity_model(pool.take(rows), taken(near, rows))
        return fitted

    def _near(self, outputs: Outputs) -> Neighbors:
        return self.store.search(outputs.require_features("variants"), self.n_neighbors)

    def _values(self, outputs: Outputs, near: Neighbors) -> Any:
        spans = find_entities(outputs, outputs.predicted)
        evidence = gather_evidence(outputs, near, spans, self.usual).values
        return np.column_stack([evidence, self._held_out_distance(outputs)])

    def _held_out_distance(self, outputs: Outputs) -> Any:
        """Return the log distance of each entity's farthest word to the nearest validation word of another sentence."""
        groups = self.validation.groups
        assert groups is not None
        spans = find_entities(outputs, outputs.predicted)
        inside = np.flatnonzero(spans.covered)
        near = self.held_out.search(outputs.require_features("variants")[inside], _HELD_OUT_NEIGHBORS)
        others = near.ids >= 0
        if outputs is self.validation:
            others &= groups[near.ids] != groups[inside][:, None]
            self.usual_held_out = float(np.median(np.where(others, near.distances, np.inf).min(axis=1)))
        nearest = np.clip(np.where(others, near.distances, np.inf).min(axis=1), 1e-6, 1e6)
        words = np.full(len(outputs), np.inf)
        words[inside] = np.log(nearest / self.usual_held_out)
        return np.clip(-spans.lowest(-words), -1.0, 3.0)


def chosen(guess: Guess, columns: list[int]) -> Guess:
    """Return the guess of these columns; the one after the last is believed to be like distance."""
    columns = [INGREDIENTS.index("distance") if i == _HELD_OUT else i for i in columns]
    parts = {
        name: tuple(getattr(guess, name)[i] for i in columns) for name in ("center", "scale", "slopes", "strength")
    }
    return replace(guess, **parts)


def taken(neighbors: Neighbors, rows: Any) -> Neighbors:
    return Neighbors(ids=neighbors.ids[rows], distances=neighbors.distances[rows], labels=neighbors.labels[rows])


def rounded(values: Any) -> list[float]:
    return [round(float(value), 5) for value in values]
