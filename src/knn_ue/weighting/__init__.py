"""Neighbors -> the weight that multiplies the logits: its formula, its fit, its explanation."""

from knn_ue.answers import Explanation, NeighborExample
from knn_ue.weighting.explain import Typical, explain_rows, other_majority
from knn_ue.weighting.fit import TAU_RANGE, fit_weight
from knn_ue.weighting.formula import (
    Distance,
    Positivity,
    ScaledLogits,
    Temperature,
    TemperatureMap,
    Weight,
    WeightParams,
    agreement,
    check_temperature,
    fit_temperature,
    fit_temperature_map,
    knn_weight,
    knn_weight_gradient,
    positive_total,
)

__all__ = [
    "TAU_RANGE",
    "Distance",
    "Explanation",
    "NeighborExample",
    "Positivity",
    "ScaledLogits",
    "Temperature",
    "TemperatureMap",
    "Typical",
    "Weight",
    "WeightParams",
    "agreement",
    "check_temperature",
    "explain_rows",
    "fit_temperature",
    "fit_temperature_map",
    "fit_weight",
    "knn_weight",
    "knn_weight_gradient",
    "other_majority",
    "positive_total",
]
