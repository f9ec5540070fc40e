"""A few labeled rows of a new domain -> one scale that calibrates the scores for it; the predictions stay."""

from knn_ue.adapting.check import GATE, MIN_ROWS, Adaptation, CheckedUnit, CheckedVerifier, adapt_quickly, adapt_units
from knn_ue.adapting.sampling import Drawn, draw_rows
from knn_ue.adapting.scale import (
    LARGEST,
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    LabeledScores,
    average_log_scale,
    fit_log_scale,
    log_likelihood_gain,
    prior_unchanged,
    rescale,
    rescale_scores,
)

__all__ = [
    "GATE",
    "LARGEST",
    "LARGEST_WEIGHT",
    "LEAST_WEIGHT",
    "MIN_ROWS",
    "Adaptation",
    "CheckedUnit",
    "CheckedVerifier",
    "Drawn",
    "LabeledScores",
    "adapt_quickly",
    "adapt_units",
    "average_log_scale",
    "draw_rows",
    "fit_log_scale",
    "log_likelihood_gain",
    "prior_unchanged",
    "rescale",
    "rescale_scores",
]
