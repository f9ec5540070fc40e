"""Ingredients that knn-ue-entity has, had or might have, as named columns: for its ablations and its choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from knn_ue.entities import INGREDIENTS, Spans, TagSet, find_entities
from knn_ue.entities.evidence import case_of, find_usual, gather_evidence, log_odds, relative_distance
from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic
from knn_ue.entities.model import GUESS
from knn_ue.stores import Datastore, NeighborStore
from knn_ue.types import Neighbors, Outputs

_HELD_OUT_NEIGHBORS = 64
_HELD_OUT_COUNTED = 16

# center, scale, slope, strength; the slope's sign is its direction.
GUESSES: dict[str, tuple[float, float, float, float]] = {
    name: (GUESS.center[i], GUESS.scale[i], GUESS.slopes[i], GUESS.strength[i]) for i, name in enumerate(INGREDIENTS)
} | {
    "beside, touching too": (6.0, 3.0, 0.5, 100.0),
    "beside, touching too, from -2": (6.0, 2.5, 0.5, 100.0),
    "beside, touching too, from 0": (6.0, 2.0, 0.5, 100.0),
    "held-out distance": (0.0, 0.4, -0.4, 500.0),
    "held-out agreement": (0.9, 0.2, 0.3, 100.0),
    "held-out rightness": (0.9, 0.15, 0.3, 100.0),
    "sentence distance": (0.0, 0.3, -0.3, 500.0),
    "length": (0.3, 0.5, -0.2, 100.0),
}


@dataclass(frozen=True, kw_only=True)
class Design:
    """A regression that might have been: its columns, what is believed of them, how strongly, and how far they count.

    `believed` are slopes and `held` strengths of single columns; `ridge` multiplies all strengths but those. Columns
    are clipped to the middle of the validation values, but for a share `clipped` at either end.
    """

    columns: Sequence[str] = INGREDIENTS
    believed: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    ridge: float = 1.0
    clipped: float = 0.0

    def fit(self, values: Mapping[str, Any], right: Any) -> "FittedDesign":
        """Return the regression of `right` (m,) on the columns."""
        parts = [GUESSES[name] for name in self.columns]
        guess = Guess(
            center=tuple(part[0] for part in parts),
            scale=tuple(part[1] for part in parts),
            intercept=GUESS.intercept,
            slopes=tuple(self.believed.get(name, part[2]) for name, part in zip(self.columns, parts, strict=True)),
            strength=tuple(
                self.held.get(name, self.ridge * part[3]) for name, part in zip(self.columns, parts, strict=True)
            ),
        )
        if self.ridge < 1e-3:
            guess = replace(guess, intercept_strength=self.ridge)
        table = np.column_stack([values[name] for name in self.columns])
        low, high = np.quantile(table, [self.clipped, 1 - self.clipped], axis=0) if self.clipped else (-np.inf, np.inf)
        model = fit_signed_logistic(np.clip(table, low, high), right, guess)
        return FittedDesign(columns=tuple(self.columns), model=model, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class FittedDesign:
    """A fitted `Design`."""

    columns: tuple[str, ...]
    model: SignedLogistic
    low: Any
    high: Any

    def scores(self, values: Mapping[str, Any]) -> Any:
        table = np.column_stack([values[name] for name in self.columns])
        return self.model.probability(np.clip(table, self.low, self.high))


class Columns:
    """Makes the columns of any outputs, given the training store and the validation outputs."""

    def __init__(self, store: NeighborStore, validation: Outputs, n_neighbors: int = 32) -> None:
        self.store, self.validation, self.n_neighbors = store, validation, n_neighbors
        spans = find_entities(validation, validation.predicted)
        self.spans, self.near = spans, self.search(validation)
        self.right = spans.same_in(find_entities(validation, validation.require_labels("columns")))
        self.usual = find_usual(validation, self.near, spans)
        nearest = self.near.distances[:, 0]
        self.usual_of_words = float(np.median(nearest[nearest > 0]))
        self.held_out = Datastore.build(validation.features, validation.labels)
        self.usual_held_out = 1.0
        self.of_validation = self.of(validation)

    def search(self, outputs: Outputs) -> Neighbors:
        return self.store.search(outputs.require_features("columns"), self.n_neighbors)

    def of(self, outputs: Outputs) -> dict[str, Any]:
        """Return the columns by name, each (m,)."""
        near = self.near if outputs is self.validation else self.search(outputs)
        spans = find_entities(outputs, outputs.predicted)
        own = gather_evidence(outputs, near, spans, self.usual, case_of(outputs, spans)).values
        return (
            {name: own[:, i] for i, name in enumerate(INGREDIENTS)}
            | self._former(outputs, spans)
            | self._of_sentence(near, spans)
            | self._held_out(outputs, spans)
            | {"length": np.log(spans.last - spans.first + 1.0)}
        )

    def _former(self, outputs: Outputs, spans: Spans) -> dict[str, Any]:
        """`beside` as it was: a word of another entity counts as a word that is surely not O."""
        assert outputs.class_names is not None
        outside = log_odds(outputs.logits, TagSet.of(outputs.class_names).kind < 0)
        beside = np.minimum(spans.before(outside), spans.after(outside))
        beside = np.where(np.isinf(beside), self.usual.beside, beside)
        name = "beside, touching too"
        return {name: beside, f"{name}, from -2": np.maximum(beside, -2.0), f"{name}, from 0": np.maximum(beside, 0.0)}

    def _of_sentence(self, near: Neighbors, spans: Spans) -> dict[str, Any]:
        relative = relative_distance(near, self.usual_of_words)
        of = spans.sentence_of_word
        return {"sentence distance": (np.bincount(of, weights=relative) / np.bincount(of))[spans.sentence]}

    def _held_out(self, outputs: Outputs, spans: Spans) -> dict[str, Any]:
        """What the nearest validation words of other sentences say, at the word where they say the worst."""
        known, groups = self.validation, self.validation.groups
        assert groups is not None and outputs.groups is not None and known.class_names is not None
        assert known.labels is not None
        inside = np.flatnonzero(spans.covered)
        near = self.held_out.search(outputs.require_features("columns")[inside], _HELD_OUT_NEIGHBORS)
        others = near.ids >= 0
        if outputs is self.validation:
            others &= groups[near.ids] != outputs.groups[inside][:, None]
        nearest = np.clip(np.where(others, near.distances, np.inf).min(axis=1), 1e-6, 1e6)
        if outputs is self.validation:
            self.usual_held_out = float(np.median(nearest))
        counted = others & (np.cumsum(others, axis=1) <= _HELD_OUT_COUNTED)
        tags = TagSet.of(known.class_names)
        own = tags.kind[outputs.predicted[inside]]
        agrees = tags.kind[known.labels][near.ids] == own[:, None]
        rightly = (known.predicted == known.labels)[near.ids]
        of_words = {
            "held-out distance": -np.clip(np.log(nearest / self.usual_held_out), -1.0, 3.0),
            "held-out agreement": (agrees & counted).sum(axis=1) / np.maximum(1, counted.sum(axis=1)),
            "held-out rightness": (rightly & counted).sum(axis=1) / np.maximum(1, counted.sum(axis=1)),
        }
        found = {}
        for name, values in of_words.items():
            everywhere = np.full(len(outputs), np.inf)
            everywhere[inside] = values
            found[name] = spans.lowest(everywhere) * (-1 if name == "held-out distance" else 1)
        return found
