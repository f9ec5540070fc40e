"""Outputs and fitted calibrators -> every metric, as a record, Markdown, JSON or one HTML page."""

from knn_ue.report.build import Report, ReportFiles, build_report
from knn_ue.report.comparison import Comparison
from knn_ue.report.evaluation import evaluate
from knn_ue.report.mistakes import Mistake
from knn_ue.report.record import RAW, TEST, Evaluation, EvaluationOptions, Table
from knn_ue.report.styles import STYLES, Style

__all__ = [
    "RAW",
    "STYLES",
    "TEST",
    "Comparison",
    "Evaluation",
    "EvaluationOptions",
    "Mistake",
    "Report",
    "ReportFiles",
    "Style",
    "Table",
    "build_report",
    "evaluate",
]
