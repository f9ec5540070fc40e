"""What is decided from scores, such as whether to answer: fitted on held-out rows, saved in the UE folder."""

from knn_ue.decisions.contract import Decision, Scored
from knn_ue.decisions.registry import DECISIONS
from knn_ue.decisions.risk import RiskThreshold

__all__ = ["DECISIONS", "Decision", "RiskThreshold", "Scored"]
