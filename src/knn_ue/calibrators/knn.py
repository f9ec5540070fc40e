"""kNN-UE: the weight of a row comes from its nearest training examples. Hashimoto et al. (2025)."""

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from knn_ue.arrays import FloatArray, check_choice, check_positive
from knn_ue.calibrators.contract import STORE, Found, OneStoreScaling, check_n_neighbors
from knn_ue.errors import InvalidInputError
from knn_ue.stores import NeighborStore
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import (
    TAU_RANGE,
    Distance,
    Explanation,
    Positivity,
    Typical,
    Weight,
    WeightParams,
    explain_rows,
    fit_weight,
    knn_weight,
    positive_total,
)


class KnnUE(OneStoreScaling):
    """softmax(W * logits), W large where the nearest stored examples are close and share the predicted label.

    `use_labels=False` drops the label term. `distance` is what the kernel sees, `positivity` how W > 0 is kept (see
    `knn_ue.weighting`), `tau_range` bounds tau in units of the median neighbor distance. With `params` nothing is
    fitted: they are used as they are, and `fit` is not needed. How features are normalized is the datastore's choice.

    >>> from knn_ue.stores import Datastore
    >>> from knn_ue.toy import two_blobs
    >>> train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    >>> ue = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=32).fit(validation)
    >>> bool((ue.predict_proba(test).argmax(axis=1) == test.predicted).all())
    True
    """

    kind: ClassVar[str] = "knn-ue"
    explains: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside its store; nothing was learned where `params` were given."""

        n_neighbors: int
        use_labels: bool
        distance: Distance
        positivity: Positivity
        tau_range: tuple[float, float]
        params: WeightParams | None
        params_: WeightParams | None
        typical_: tuple[float, float] | None

    params_: WeightParams
    typical_: tuple[float, float]

    def __init__(
        self,
        store: NeighborStore,
        *,
        n_neighbors: int = 32,
        use_labels: bool = True,
        distance: Distance = "euclidean",
        positivity: Positivity = "bounded",
        tau_range: tuple[float, float] = TAU_RANGE,
        params: WeightParams | None = None,
    ) -> None:
        self.store = store
        self.n_neighbors = n_neighbors
        self.use_labels = use_labels
        self.distance = distance
        self.positivity = positivity
        self.tau_range = tau_range
        self.params = params

    def facts(self) -> dict[str, object]:
        """Return a summary, by name: its store, and what was fitted."""
        facts = super().facts()
        if facts.pop("typical", None) is not None:
            distance_term, label_term = self.typical_
            facts["usual distance term"], facts["usual label term"] = f"{distance_term:.4g}", f"{label_term:.4g}"
        return facts

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return for each row its weight, both terms and its `top` nearest examples: the reasons for its score."""
        self._check_ready(outputs)
        check_positive(top, "top")
        neighbors = self._neighbors(outputs, found)[STORE]
        scale = float(np.exp(self.log_scales.get("rows", 0.0)))
        weight = self._weight_of(outputs, neighbors).times(scale)
        return explain_rows(outputs, neighbors, weight, self.store.texts_of, top=top, typical=self._typical(scale))

    def _typical(self, scale: float) -> Typical | None:
        """Return the typical neighborhood on validation, None where `params` were given and nothing was fitted."""
        if not hasattr(self, "typical_"):
            return None
        distance_term, label_term = self.typical_
        params = self.params_
        total = positive_total(np.array([distance_term + label_term]), self._used_positivity())
        share = label_term / params.lam - params.b if params.lam > 0 else None
        return Typical(
            distance_term=scale * distance_term,
            label_term=scale * label_term,
            weight=scale * float(total[0]),
            n_agreeing=None if share is None else round(self.n_neighbors * share),
        )

    def _fit(self, validation: Outputs, found: Found, /) -> None:
        neighbors = found[STORE]
        labels = validation.require_labels("KnnUE.fit")
        self.params_ = self.params or fit_weight(
            validation.logits,
            labels,
            neighbors,
            use_labels=self.use_labels,
            distance=self.distance,
            positivity=self.positivity,
            tau_range=self.tau_range,
        )
        weight = self._weight_of(validation, neighbors)
        self.typical_ = (float(np.median(weight.distance_term)), float(np.median(weight.label_term)))

    def _weight(self, outputs: Outputs, found: Found, /) -> FloatArray:
        return self._weight_of(outputs, found[STORE]).total

    def _weight_of(self, outputs: Outputs, neighbors: Neighbors) -> Weight:
        params = self.params_ if hasattr(self, "params_") else self.params
        assert params is not None  # _check_ready has run
        return knn_weight(
            neighbors, outputs.predicted, params, distance=self.distance, positivity=self._used_positivity()
        )

    def _used_positivity(self) -> Positivity:
        # Without a label term the weight cannot turn negative: there is nothing to floor.
        return self.positivity if self.use_labels else "bounded"

    def _check_options(self) -> None:
        check_n_neighbors(self.n_neighbors)
        check_choice(self.distance, "distance", get_args(Distance))
        check_choice(self.positivity, "positivity", get_args(Positivity))
        low, high = self.tau_range
        if not 0 < low < high < np.inf:
            raise InvalidInputError(f"tau_range must be two rising positive numbers, got {self.tau_range}")
        if self.params is not None:
            self.params.check(self._used_positivity())
            if not self.use_labels and self.params.lam != 0:
                raise InvalidInputError(
                    f"params.lam is {self.params.lam} but use_labels=False: set lam=0 or use_labels=True"
                )

    def _is_fitted(self) -> bool:
        if self.params is not None:
            self._check_options()
            return True
        return hasattr(self, "n_classes_")

    def _check_restored(self) -> None:
        if self.params is None and not hasattr(self, "params_"):
            raise ValueError("it has neither params nor params_")
        if hasattr(self, "params_") != hasattr(self, "typical_"):
            raise ValueError("params_ and typical_ go together")
        if hasattr(self, "params_"):
            self.params_.check(self._used_positivity())
