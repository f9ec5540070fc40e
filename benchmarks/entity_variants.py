"""What each ingredient of knn-ue-entity is worth, and how few validation sentences it needs: for the benchmark."""

from typing import Any

import numpy as np

from entity_columns import Columns, Design
from knn_ue.calibrators import KnnUEEntity
from knn_ue.entities import INGREDIENTS, EntityModel, fit_entity_model
from knn_ue.types import Neighbors, Outputs

SIZES = (100, 200, 400, 800, 2000)
_FORMER = ("type", "link", "beside, touching too", "distance", "agreement", "company")
_FORMER_STRENGTHS = dict.fromkeys(_FORMER, 10.0) | {"distance": 50.0}
DESIGNS = {
    f"without {name}": Design(columns=[other for other in INGREDIENTS if other != name]) for name in INGREDIENTS
} | {
    "words only": Design(columns=[name for name in INGREDIENTS if name not in ("distance", "agreement")]),
    "type, distance, agreement": Design(columns=["type", "distance", "agreement"]),
    "type alone": Design(columns=["type"]),
    "with held-out distance": Design(
        columns=[*INGREDIENTS, "held-out distance"], believed={"distance": -0.4, "held-out distance": -0.4}
    ),
    "a tenth of the ridge": Design(ridge=0.1),
    "without ridge": Design(ridge=1e-5),
    "before": Design(columns=_FORMER, believed={"distance": -0.5}, held=_FORMER_STRENGTHS),
}


class Variants:
    """The regression without an ingredient, with fewer, with more, without its ridge, and fitted on fewer sentences."""

    def __init__(self, calibrator: KnnUEEntity, validation: Outputs, pool: Outputs, seed: int) -> None:
        self.columns = Columns(calibrator.store, validation, calibrator.n_neighbors)
        self.fitted = {
            name: design.fit(self.columns.of_validation, self.columns.right) for name, design in DESIGNS.items()
        }
        self.sizes = self._fit_sizes(pool, seed)

    def scores(self, outputs: Outputs, asked: Any) -> dict[str, dict[str, list[float]]]:
        """Return {"variants", "sizes"}: the scores of the `asked` entities, by name."""
        near = self.columns.search(outputs)
        values = self.columns.of(outputs)
        return {
            "variants": {name: rounded(model.scores(values)[asked]) for name, model in self.fitted.items()},
            "sizes": {size: rounded(model.read(outputs, near).scores[asked]) for size, model in self.sizes.items()},
        }

    def _fit_sizes(self, pool: Outputs, seed: int) -> dict[str, EntityModel]:
        near, groups = self.columns.search(pool), pool.groups
        assert groups is not None
        order = np.random.default_rng(seed).permutation(np.unique(groups))
        fitted = {}
        for size in SIZES:
            rows = np.flatnonzero(np.isin(groups, order[:size]))
            fitted[str(min(size, len(order)))] = fit_entity_model(pool.take(rows), taken(near, rows))
        return fitted


def taken(neighbors: Neighbors, rows: Any) -> Neighbors:
    return Neighbors(ids=neighbors.ids[rows], distances=neighbors.distances[rows], labels=neighbors.labels[rows])


def rounded(values: Any) -> list[float]:
    return [round(float(value), 5) for value in values]
