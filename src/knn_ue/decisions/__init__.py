"""What is decided from scores, such as whether to answer: fitted on held-out rows, saved in the UE folder."""

from knn_ue.decisions.contract import Decision, Losses, Scored, Watchable
from knn_ue.decisions.registry import DECISIONS, promised
from knn_ue.decisions.risk import RiskThreshold, Unit, warn_of_abstention
from knn_ue.decisions.sets import PredictionSets, SetMethod
from knn_ue.decisions.watching import ALARM, Watched, watch

__all__ = [
    "ALARM",
    "DECISIONS",
    "Decision",
    "Losses",
    "PredictionSets",
    "RiskThreshold",
    "Scored",
    "SetMethod",
    "Unit",
    "Watchable",
    "Watched",
    "promised",
    "warn_of_abstention",
    "watch",
]
