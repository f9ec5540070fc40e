"""Can confidence tell texts like the training set from texts of another kind?"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from knn_ue.arrays import FloatArray, check_choice, check_not_empty, float_vector
from knn_ue.metrics.ranking import Ranking, area_under_roc, average_precision, rank
from knn_ue.metrics.weighted_ranking import WeightedRanking
from knn_ue.metrics.weights import Weights, checked_weights

Positive = Literal["in", "out"]


@dataclass(frozen=True, kw_only=True)
class OodDetection:
    """How well confidence separates in-domain from out-of-domain rows, as fractions.

    `fpr95`, lower is better: the smallest false positive rate of a threshold that finds 95 % of the positives.
    `auroc`: the chance that an in-domain row has more confidence than an out-of-domain one. `aupr_in`, `aupr_out`:
    average precision with in-domain rows, or out-of-domain rows, as the ones to find.
    """

    fpr95: float
    auroc: float
    aupr_in: float
    aupr_out: float


def ood_detection(
    *,
    id_confidence: FloatArray,
    ood_confidence: FloatArray,
    positive: Positive = "in",
    id_sample_weight: FloatArray | None = None,
    ood_sample_weight: FloatArray | None = None,
) -> OodDetection:
    """Compare the confidence of in-domain rows (n,) and out-of-domain rows (m,). Hendrycks and Gimpel (2017).

    `positive` says of which rows FPR@95 must find 95 %: "in" as in the paper, or "out". The other three numbers do
    not depend on it. Only the order of confidence matters, so any finite score will do, higher meaning in-domain.
    `id_sample_weight` (n,) and `ood_sample_weight` (m,) say how much each row counts.

    >>> ood_detection(id_confidence=[0.9, 0.8, 0.5], ood_confidence=[0.7, 0.3]).fpr95
    0.5
    """
    check_choice(positive, "positive", get_args(Positive))
    inside, outside = _checked(id_confidence, "id_confidence"), _checked(ood_confidence, "ood_confidence")
    if id_sample_weight is not None or ood_sample_weight is not None:
        both = _weighted(inside, outside, id_sample_weight, ood_sample_weight)
        return OodDetection(
            fpr95=both.fpr95(positive), auroc=both.auroc(), aupr_in=both.aupr_in(), aupr_out=both.aupr_out()
        )
    scores = np.concatenate((inside, outside))
    is_inside = np.arange(len(scores)) < len(inside)
    find_inside, find_outside = rank(scores, is_inside), rank(-scores, ~is_inside)
    return OodDetection(
        fpr95=_fpr95(find_inside if positive == "in" else find_outside),
        auroc=area_under_roc(find_inside),
        aupr_in=average_precision(find_inside),
        aupr_out=average_precision(find_outside),
    )


def ood_measure(
    name: str,
    *,
    id_confidence: FloatArray,
    ood_confidence: FloatArray,
    id_sample_weight: FloatArray | None = None,
    ood_sample_weight: FloatArray | None = None,
) -> float:
    """Return one number of `ood_detection`, a name of its fields; of weighted rows the others are not computed.

    >>> ood_measure("auroc", id_confidence=[0.9, 0.8], ood_confidence=[0.7, 0.8])
    0.875
    """
    if id_sample_weight is None and ood_sample_weight is None:
        return float(getattr(ood_detection(id_confidence=id_confidence, ood_confidence=ood_confidence), name))
    inside, outside = _checked(id_confidence, "id_confidence"), _checked(ood_confidence, "ood_confidence")
    both = _weighted(inside, outside, id_sample_weight, ood_sample_weight)
    number: float = getattr(both, name)()
    return number


@dataclass(frozen=True, eq=False)
class _Weighted:
    """The fields of `OodDetection` for weighted rows, each computed when it is asked for."""

    inside: tuple[FloatArray, Weights]
    outside: tuple[FloatArray, Weights]

    @cached_property
    def _find_inside(self) -> WeightedRanking:
        return WeightedRanking.of_sides(self.inside, self.outside)

    @cached_property
    def _find_outside(self) -> WeightedRanking:
        return WeightedRanking.of_sides(self.outside, self.inside, ascending=True)

    def fpr95(self, positive: Positive = "in") -> float:
        return self._number((self._find_inside if positive == "in" else self._find_outside).fpr95())

    def auroc(self) -> float:
        return self._number(self._find_inside.area_under_roc())

    def aupr_in(self) -> float:
        return self._number(self._find_inside.average_precision())

    def aupr_out(self) -> float:
        return self._number(self._find_outside.average_precision())

    def _number(self, by_draw: FloatArray) -> float:
        return self.inside[1].number(by_draw)


def _checked(confidence: object, name: str) -> FloatArray:
    scores = float_vector(confidence, name)
    check_not_empty(len(scores), name)
    return scores


def _weighted(inside: FloatArray, outside: FloatArray, id_weight: object, ood_weight: object) -> _Weighted:
    """Return both sides with their weights; those of one side may be left out and are 1 then."""
    first = checked_weights(np.ones(len(inside)) if id_weight is None else id_weight, len(inside), "id_sample_weight")
    second = checked_weights(
        np.ones(len(outside)) if ood_weight is None else ood_weight, len(outside), "ood_sample_weight"
    )
    assert first is not None
    assert second is not None
    return _Weighted((inside, first), (outside, second))


def _fpr95(ranking: Ranking) -> float:
    n_false = ranking.n_kept - ranking.n_flagged
    # Both rates only grow down the ranking, so the first threshold that finds enough has the fewest false positives.
    first = int(np.argmax(ranking.n_flagged / ranking.n_flagged[-1] >= 0.95))
    return float(n_false[first] / n_false[-1])
