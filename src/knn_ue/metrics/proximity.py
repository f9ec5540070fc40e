"""PIECE: is confidence as right for rows far from the known ones as for near ones? Xiong et al. (2023)."""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, check_positive, float_vector
from knn_ue.metrics.inputs import checked_confidence, checked_scores
from knn_ue.metrics.weights import checked_weights, ratio


def proximity_informed_calibration_error(
    *,
    confidence: FloatArray,
    correct: BoolArray,
    proximity: FloatArray,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Mean |accuracy - mean confidence| over cells of confidence (equal width) and `proximity` (n,), equal mass.

    There are `n_bins` of each; proximity is cut at the quantiles of all rows, whatever their weights. It is never below
    the expected calibration error with the same bins of confidence: errors of near and far rows cannot cancel. 0 is
    best.

    >>> both = {"confidence": [0.75, 0.75], "correct": [True, False]}
    >>> proximity_informed_calibration_error(**both, proximity=[0.1, 0.9], n_bins=2)
    0.5
    """
    check_positive(n_bins, "n_bins")
    scores, hits = checked_scores(checked_confidence(confidence), correct)
    nearness = float_vector(proximity, "proximity", length=len(scores))
    weights = checked_weights(sample_weight, len(scores))
    edges = np.quantile(nearness, np.linspace(0, 1, n_bins + 1)[1:-1])
    column = np.clip(np.ceil(scores * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    cell = np.searchsorted(edges, nearness, side="right") * n_bins + column
    counts = np.ones((len(scores), 1)) if weights is None else weights.values
    gaps = np.zeros((n_bins * n_bins, counts.shape[1]))
    np.add.at(gaps, cell, counts * (scores - hits)[:, None])
    error = ratio(np.abs(gaps).sum(axis=0), counts.sum(axis=0))
    return float(error[0]) if weights is None else weights.number(error)
