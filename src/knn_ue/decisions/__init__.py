"""What is decided from scores, such as whether to answer: fitted on held-out rows, saved in the UE folder."""

from knn_ue.decisions.contract import Decision, Scored
from knn_ue.decisions.registry import DECISIONS, promised
from knn_ue.decisions.risk import RiskThreshold, warn_of_abstention
from knn_ue.decisions.sets import PredictionSets, SetMethod

__all__ = [
    "DECISIONS",
    "Decision",
    "PredictionSets",
    "RiskThreshold",
    "Scored",
    "SetMethod",
    "promised",
    "warn_of_abstention",
]
