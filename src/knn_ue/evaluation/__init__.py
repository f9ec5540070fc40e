"""Outputs and fitted calibrators -> every metric of every method, with intervals and comparisons: numbers only."""

from knn_ue.evaluation.answered import AnsweredSet, answered_sets
from knn_ue.evaluation.comparison import Comparison, Kind, Verdict, compare
from knn_ue.evaluation.definitions import DEFINITIONS, STYLES, UNDEFINED, Style
from knn_ue.evaluation.evaluation import check_draws, evaluate, evaluate_sets
from knn_ue.evaluation.tables import RAW, TEST, Evaluation, EvaluationOptions, Table, escaped

__all__ = [
    "DEFINITIONS",
    "RAW",
    "STYLES",
    "TEST",
    "UNDEFINED",
    "AnsweredSet",
    "Comparison",
    "Evaluation",
    "EvaluationOptions",
    "Kind",
    "Style",
    "Table",
    "Verdict",
    "answered_sets",
    "check_draws",
    "compare",
    "escaped",
    "evaluate",
    "evaluate_sets",
]
