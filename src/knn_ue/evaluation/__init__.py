"""Outputs and fitted calibrators -> every metric of every method, with intervals and comparisons: numbers only."""

from knn_ue.evaluation.answered import AnsweredSet, SampleWeight, answered_sets, check_set_name
from knn_ue.evaluation.comparison import Comparison, Kind, Verdict, compare
from knn_ue.evaluation.definitions import DEFINITIONS, STYLES, UNDEFINED, Style
from knn_ue.evaluation.evaluation import check_draws, evaluate, evaluate_sets, whether_it_pays
from knn_ue.evaluation.tables import FAMILIARITY, RAW, TEST, Evaluation, EvaluationOptions, Table, bounds_of, escaped

__all__ = [
    "DEFINITIONS",
    "FAMILIARITY",
    "RAW",
    "STYLES",
    "TEST",
    "UNDEFINED",
    "AnsweredSet",
    "Comparison",
    "Evaluation",
    "EvaluationOptions",
    "Kind",
    "SampleWeight",
    "Style",
    "Table",
    "Verdict",
    "answered_sets",
    "bounds_of",
    "check_draws",
    "check_set_name",
    "compare",
    "escaped",
    "evaluate",
    "evaluate_sets",
    "whether_it_pays",
]
