"""Does confidence put correct answers before wrong ones? Risk at every coverage, and rank statistics.

Only the order of `confidence` matters here, so any finite score will do, not only probabilities. All numbers are
fractions: papers often print AURC and E-AURC times 1000. `sample_weight` (n,) says how much each row counts: a weight
of 2 is the row twice.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_choice, read_only
from knn_ue.metrics.inputs import checked_probs, checked_scores
from knn_ue.metrics.ranking import Ranking, area_under_roc, rank
from knn_ue.metrics.weighted_ranking import WeightedRanking, weighted_aurc, weighted_published_aurc
from knn_ue.metrics.weights import Weights, checked_weights, ratio, weighted_mean

Convention = Literal["standard", "paper"]


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskCoverageCurve:
    """Error rate of the n most confident rows, for n = 1 .. N; each array is (N,).

    `coverage` n / N; `risk` their error rate, expected over all orders of equal confidences; `threshold` the
    confidence of the n-th row. A point inside a run of equal thresholds is reached only by choosing among ties.
    """

    coverage: FloatArray
    risk: FloatArray
    threshold: FloatArray


def risk_coverage_curve(
    *, confidence: FloatArray, correct: BoolArray, sample_weight: FloatArray | None = None
) -> RiskCoverageCurve:
    """Return the risk at every coverage, ties averaged; `confidence` (n,), `correct` (n,). El-Yaniv and Wiener (2010).

    With `sample_weight` (n,) there is one point for each row that counts, where the coverage reaches its end.

    >>> risk_coverage_curve(confidence=[0.9, 0.8, 0.7, 0.6], correct=[True, False, True, True]).risk.round(2)
    array([0.  , 0.5 , 0.33, 0.25])
    """
    scores, hits = checked_scores(confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    if weights is not None:
        return _weighted_curve(scores, hits, weights.values[:, 0])
    ranking = rank(scores, ~hits)
    return RiskCoverageCurve(
        coverage=read_only(np.arange(1, len(scores) + 1) / len(scores)),
        risk=read_only(_expected_risk(ranking)),
        threshold=read_only(np.repeat(ranking.threshold, np.diff(ranking.n_kept, prepend=0))),
    )


def aurc(
    *,
    confidence: FloatArray,
    correct: BoolArray,
    convention: Convention = "standard",
    sample_weight: FloatArray | None = None,
) -> float:
    """Area under the risk-coverage curve of `confidence` (n,), `correct` (n,); lower is better. Geifman et al. (2019).

    "standard": the mean over n = 1 .. N of the error rate of the n most confident rows, expected over all orders of
    equal confidences, so that row order never matters. "paper": as in the published code of kNN-UE, to compare with
    its tables; the errors are divided by n + 1 except at n = N, and among equal confidences later rows come first,
    so row order matters.

    >>> aurc(confidence=[0.9, 0.6], correct=[True, False])
    0.25
    >>> aurc(confidence=[0.6, 0.6], correct=[True, False])
    0.5
    """
    scores, hits = checked_scores(confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    if weights is None:
        return _area(scores, hits, convention)
    return weights.number(_weighted_area(scores, hits, convention, weights))


def e_aurc(
    *,
    confidence: FloatArray,
    correct: BoolArray,
    convention: Convention = "standard",
    sample_weight: FloatArray | None = None,
) -> float:
    """AURC minus r + (1 - r) ln(1 - r), the area of a perfect ranking at error rate r. Geifman et al. (2019).

    `confidence` (n,), `correct` (n,); lower is better. At r = 1 the subtracted area is its limit, 1. `convention` is
    that of `aurc`; "paper" may fall below 0.

    >>> round(e_aurc(confidence=[0.9, 0.6], correct=[True, False]), 4)
    0.0966
    """
    scores, hits = checked_scores(confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    if weights is not None:
        best_areas = _best_areas(weighted_mean((~hits).astype(np.float64), weights))
        area = _weighted_area(scores, hits, convention, weights)
        return weights.number(area - best_areas)
    risk = float(np.mean(~hits))
    best = risk + (1.0 - risk) * math.log1p(-risk) if risk < 1.0 else 1.0
    return _area(scores, hits, convention) - best


def auroc(*, confidence: FloatArray, correct: BoolArray, sample_weight: FloatArray | None = None) -> float:
    """Chance that a correct row has more `confidence` (n,) than a wrong one, ties counting half; higher is better.

    `correct` (n,). NaN where every row is correct or every row is wrong. Fawcett (2006).

    >>> auroc(confidence=[0.9, 0.6, 0.6], correct=[True, True, False])
    0.75
    """
    scores, hits = checked_scores(confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    if weights is None:
        return area_under_roc(rank(scores, hits))
    area = WeightedRanking.of_rows(scores, hits, weights).area_under_roc()
    return weights.number(area)


def class_auroc(*, probs: FloatArray, labels: IntArray, sample_weight: FloatArray | None = None) -> float:
    """How well `probs` (n, classes) tell the classes apart, not correct answers from wrong ones; higher is better.

    `labels` (n,). Two classes: the AUROC of p[:, 1]. More: the mean over classes of one against the rest, leaving
    out classes that no row or every row has; NaN where no class is left. Hand and Till (2001) discuss the choice.

    >>> class_auroc(probs=[[0.8, 0.2], [0.6, 0.4], [0.7, 0.3]], labels=[0, 1, 1])
    1.0
    """
    matrix, truth = checked_probs(probs, labels)
    classes = (1,) if matrix.shape[1] == 2 else range(matrix.shape[1])
    weights = checked_weights(sample_weight, len(matrix))
    if weights is not None:
        rankings = (WeightedRanking.of_rows(matrix[:, number], truth == number, weights) for number in classes)
        by_class = np.stack([ranking.area_under_roc() for ranking in rankings])
        known = ~np.isnan(by_class)
        return weights.number(ratio(np.where(known, by_class, 0.0).sum(axis=0), known.sum(axis=0)))
    areas = np.array([area_under_roc(rank(matrix[:, number], truth == number)) for number in classes])
    defined = areas[~np.isnan(areas)]
    return float(defined.mean()) if len(defined) else math.nan


def _area(confidence: FloatArray, correct: BoolArray, convention: Convention) -> float:
    check_choice(convention, "convention", get_args(Convention))
    if convention == "paper":
        return _published_aurc(confidence, correct)
    return float(_expected_risk(rank(confidence, ~correct)).mean())


def _weighted_area(confidence: FloatArray, correct: BoolArray, convention: Convention, weights: Weights) -> FloatArray:
    check_choice(convention, "convention", get_args(Convention))
    area = weighted_published_aurc if convention == "paper" else weighted_aurc
    return area(confidence, correct, weights)


def _best_areas(risk: FloatArray) -> FloatArray:
    below = np.minimum(risk, np.nextafter(1.0, 0.0))
    return np.where(risk < 1.0, risk + (1.0 - risk) * np.log1p(-below), np.where(np.isnan(risk), np.nan, 1.0))


def _weighted_curve(confidence: FloatArray, correct: BoolArray, weights: FloatArray) -> RiskCoverageCurve:
    (rows,) = np.nonzero(weights)
    rows = rows[np.argsort(-confidence[rows], kind="stable")]
    scores, kept, errors = confidence[rows], np.cumsum(weights[rows]), np.cumsum(weights[rows] * ~correct[rows])
    (last,) = np.nonzero(np.append(scores[1:] != scores[:-1], True))
    expected = np.interp(kept, np.append(0.0, kept[last]), np.append(0.0, errors[last]))
    return RiskCoverageCurve(
        coverage=read_only(kept / kept[-1]), risk=read_only(expected / kept), threshold=read_only(scores)
    )


def _expected_risk(ranking: Ranking) -> FloatArray:
    n_kept = np.arange(1.0, ranking.n_kept[-1] + 1.0)
    errors: FloatArray | IntArray = ranking.n_flagged
    if len(errors) < len(n_kept):  # inside a tie the expected number of errors grows evenly
        errors = np.interp(n_kept, np.append(0, ranking.n_kept), np.append(0, errors))
    return np.divide(errors, n_kept, out=n_kept)


def _published_aurc(confidence: FloatArray, correct: BoolArray) -> float:
    dropped_first = np.argsort(confidence, kind="stable")
    errors = np.cumsum(~correct[dropped_first[::-1]])
    divisor = np.arange(2, len(errors) + 2)
    divisor[-1] = len(errors)
    return float((errors / divisor).mean())
