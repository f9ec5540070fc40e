"""How much is answered and how much of it is wrong: generalized risk, and the two questions of an operator.

As in `selective`, only the order of `confidence` matters, ties are averaged, and a weight of 2 is the row twice.
"""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.errors import InvalidInputError
from knn_ue.metrics.inputs import checked_scores
from knn_ue.metrics.selective import risk_coverage_curve
from knn_ue.metrics.weights import checked_weights


def augrc(*, confidence: FloatArray, correct: BoolArray, sample_weight: FloatArray | None = None) -> float:
    """Area under the generalized risk-coverage curve of `confidence` (n,), `correct` (n,). Traub et al. (2024).

    The generalized risk at coverage c is the share of all rows that are answered and wrong. Unlike AURC no error is
    counted more because few rows were answered before it: the area is the mean risk of silent failures, from 0 to
    1/2, and equals (1 - AUROC) a (1 - a) + (1 - a)^2 / 2 at accuracy a. Lower is better.

    >>> augrc(confidence=[0.9, 0.6], correct=[True, False])
    0.125
    """
    scores, hits = checked_scores(confidence, correct)
    weights = checked_weights(sample_weight, len(scores))
    answered, wrong = _generalized_curve(scores, hits, np.ones((len(scores), 1)) if weights is None else weights.values)
    areas = np.asarray(np.trapezoid(wrong, answered, axis=0))
    return float(areas[0]) if weights is None else weights.number(areas)


def risk_at_coverage(
    *, confidence: FloatArray, correct: BoolArray, coverage: float = 0.8, sample_weight: FloatArray | None = None
) -> float:
    """Error rate of the most confident share `coverage` of the rows; lower is better.

    Ties, and the row that the share ends in, count by their part.

    >>> risk_at_coverage(confidence=[0.9, 0.8, 0.7, 0.6], correct=[True, True, False, False], coverage=0.5)
    0.0
    """
    _check_share(coverage, "coverage", "0.8 for 80 %")
    scores, hits = checked_scores(confidence, correct)
    least = max(coverage, 1e-12)  # of nothing: the risk of the first rows
    weights = checked_weights(sample_weight, len(scores))
    answered, wrong = _generalized_curve(scores, hits, np.ones((len(scores), 1)) if weights is None else weights.values)
    risks = np.array([np.interp(least, x, y) for x, y in zip(answered.T, wrong.T, strict=True)]) / least
    return float(risks[0]) if weights is None else weights.number(risks)


def coverage_at_risk(
    *, confidence: FloatArray, correct: BoolArray, risk: float = 0.05, sample_weight: FloatArray | None = None
) -> float:
    """Largest share of rows that can be answered with an error rate of at most `risk`; 0 where none can.

    Only thresholds count: rows of equal confidence are answered together. Higher is better. It describes these rows;
    a promise for new ones needs a bound, as `fit --target-risk` gives.

    >>> coverage_at_risk(confidence=[0.9, 0.8, 0.7, 0.6], correct=[True, True, False, True], risk=0.3)
    1.0
    """
    _check_share(risk, "risk", "0.05 for 5 %")
    scores, hits = checked_scores(confidence, correct)

    def share(column: FloatArray | None) -> float:
        curve = risk_coverage_curve(confidence=scores, correct=hits, sample_weight=column)
        last = np.append(curve.threshold[1:] != curve.threshold[:-1], True)
        allowed = curve.coverage[last & (curve.risk <= risk + 1e-12)]
        return float(allowed.max(initial=0.0))

    weights = checked_weights(sample_weight, len(scores))
    return share(None) if weights is None else weights.each(share)


def _generalized_curve(
    confidence: FloatArray, correct: BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the shares of answered rows and of wrong ones among all, from 0 on, where equal confidences end.

    `weights` (n, draws) give a column each; NaN where all are 0.
    """
    order = np.argsort(-confidence, kind="stable")
    scores, total = confidence[order], weights.sum(axis=0)
    last = np.append(scores[1:] != scores[:-1], True)
    counted = weights[order]
    answered, wrong = (
        np.concatenate([np.zeros((1, len(total))), np.cumsum(part, axis=0)[last]]) / np.where(total > 0, total, np.nan)
        for part in (counted, counted * ~correct[order, None])
    )
    return answered, wrong


def _check_share(value: float, name: str, example: str) -> None:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiu" or not 0 <= number <= 1:
        raise InvalidInputError(f"{name} must be a number from 0 to 1, got {value!r}: pass {example}")
