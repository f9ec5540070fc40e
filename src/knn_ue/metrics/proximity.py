"""PIECE: is confidence as right for rows far from the known ones as for near ones? Xiong et al. (2023)."""

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, check_positive, float_vector
from knn_ue.metrics.inputs import checked_confidence, checked_scores
from knn_ue.metrics.weights import checked_weights


def proximity_informed_calibration_error(
    *,
    confidence: FloatArray,
    correct: BoolArray,
    proximity: FloatArray,
    n_bins: int = 10,
    sample_weight: FloatArray | None = None,
) -> float:
    """Mean |accuracy - mean confidence| over cells of confidence (equal width) and `proximity` (n,), equal mass.

    There are `n_bins` of each; proximity is cut at its quantiles, to which weights count as everywhere. It is never
    below the expected calibration error with the same bins of confidence: errors of near and far rows cannot cancel. 0
    is best.

    >>> both = {"confidence": [0.75, 0.75], "correct": [True, False]}
    >>> proximity_informed_calibration_error(**both, proximity=[0.1, 0.9], n_bins=2)
    0.5
    """
    check_positive(n_bins, "n_bins")
    scores, hits = checked_scores(checked_confidence(confidence), correct)
    nearness = float_vector(proximity, "proximity", length=len(scores))
    weights = checked_weights(sample_weight, len(scores))
    shares = np.linspace(0, 1, n_bins + 1)[1:-1]
    column = np.clip(np.ceil(scores * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    values, position = np.unique(nearness, return_inverse=True)

    def error(counts: FloatArray | None) -> float:
        if counts is None:
            edges, counts = np.quantile(nearness, shares), np.ones(len(scores))
        else:
            mass: FloatArray = np.bincount(position, counts, minlength=len(values)).astype(np.float64, copy=False)
            edges = _weighted_quantiles(values, mass, shares)
        cell = np.searchsorted(edges, nearness, side="right") * n_bins + column
        gaps = np.bincount(cell, counts * (scores - hits), minlength=n_bins * n_bins)
        return float(np.abs(gaps).sum() / counts.sum())

    return error(None) if weights is None else weights.each(error)


def _weighted_quantiles(values: FloatArray, mass: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the quantiles (shares,) of rising `values` (m,), each there `mass` (m,) times: those of `np.quantile`.

    Masses that are not whole are counted in units of the smallest, if that is below 1, so that weights which sum to 1
    cut where equal weights do.
    """
    unit = min(1.0, float(mass[mass > 0].min()))
    reached = np.cumsum(mass) / unit
    if unit < 1.0:
        reached = reached.round(9)  # a sum of thirds must reach a whole number
    place = (reached[-1] - 1.0) * shares
    first = np.floor(place)
    part = place - first
    lower, upper = (
        values[np.searchsorted(reached, np.minimum(number, reached[-1] - 1.0), side="right")]
        for number in (first, first + 1.0)
    )
    # As numpy interpolates, to the last bit: an edge that lies on a row decides where the row belongs.
    step = upper - lower
    quantiles: FloatArray = np.where(part < 0.5, lower + step * part, upper - step * (1.0 - part))
    return quantiles
