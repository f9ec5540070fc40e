"""Can confidence tell texts like the training set from texts of another kind?"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from knn_ue.arrays import FloatArray, check_choice, check_not_empty, float_vector
from knn_ue.metrics.ranking import Ranking, area_under_roc, average_precision, rank

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


def ood_detection(*, id_confidence: FloatArray, ood_confidence: FloatArray, positive: Positive = "in") -> OodDetection:
    """Compare the confidence of in-domain rows (n,) and out-of-domain rows (m,). Hendrycks and Gimpel (2017).

    `positive` says of which rows FPR@95 must find 95 %: "in" as in the paper, or "out". The other three numbers do
    not depend on it. Only the order of confidence matters, so any finite score will do, higher meaning in-domain.

    >>> ood_detection(id_confidence=[0.9, 0.8, 0.5], ood_confidence=[0.7, 0.3]).fpr95
    0.5
    """
    check_choice(positive, "positive", get_args(Positive))
    inside = float_vector(id_confidence, "id_confidence")
    outside = float_vector(ood_confidence, "ood_confidence")
    check_not_empty(len(inside), "id_confidence")
    check_not_empty(len(outside), "ood_confidence")
    scores = np.concatenate((inside, outside))
    is_inside = np.arange(len(scores)) < len(inside)
    find_inside, find_outside = rank(scores, is_inside), rank(-scores, ~is_inside)
    return OodDetection(
        fpr95=_fpr95(find_inside if positive == "in" else find_outside),
        auroc=area_under_roc(find_inside),
        aupr_in=average_precision(find_inside),
        aupr_out=average_precision(find_outside),
    )


def _fpr95(ranking: Ranking) -> float:
    n_false = ranking.n_kept - ranking.n_flagged
    # Both rates only grow down the ranking, so the first threshold that finds enough has the fewest false positives.
    first = int(np.argmax(ranking.n_flagged / ranking.n_flagged[-1] >= 0.95))
    return float(n_false[first] / n_false[-1])
